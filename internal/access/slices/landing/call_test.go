package landing

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestCall compares what one server shows twice with what nobody shows; the
// server sees connections, and no request.
func TestCall(t *testing.T) {
	asked := make(chan string, 8)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	var said strings.Builder
	s.Config.ErrorLog = log.New(&said, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert} // as kube-apiserver does
	s.StartTLS()
	address := s.Listener.Addr().String()
	all := CallAll(t.Context(), []string{address, "127.0.0.1:1", address}, "kubernetes.default.svc")
	if all[0].Err != nil || all[0].Print != all[2].Print || all[0].Print == (Print{}) {
		t.Errorf("the server answers %v, then %v", all[0], all[2])
	}
	if all[1].Err == nil {
		t.Error("nobody answers")
	}
	s.Close()
	if len(asked) > 0 || said.Len() > 0 {
		t.Errorf("%d requests were made, and the server said: %s", len(asked), said.String())
	}
}

// A server that accepts and is silent costs the patience of one call.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if a := Call(ctx, l.Addr().String(), "x"); a.Err == nil {
		t.Error("silence counts as an answer")
	}
}
