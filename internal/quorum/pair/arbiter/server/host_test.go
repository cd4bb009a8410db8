package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// One address that holds all it can get, and says nothing, keeps no other out.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	h := newHandler(t, t.TempDir())
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limitPerHost(inner)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if p := l.(*perHost); len(p.open) != 0 {
			t.Errorf("places never given back: %v", p.open)
		}
	}()
	for range 3 * mostPerHost {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	other := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: (&net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)},
	}).DialContext}}
	defer other.CloseIdleConnections()
	res, err := other.Get("http://" + inner.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
}
