package etcd

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
)

// TestSilenceIsNoRefusal: a port that is bound and not served, as that of a member
// without a leader, says nothing about certificates.
func TestSilenceIsNoRefusal(t *testing.T) {
	bound, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bound.Close() }()
	if err := tryTLS(bound.Addr().String(), &tls.Config{ServerName: "x"}); err == nil || errors.Is(err, ErrTLS) {
		t.Errorf("silence: %v", err)
	}
	breaks, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = breaks.Close() }()
	go func() {
		for {
			c, err := breaks.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	if err := tryTLS(breaks.Addr().String(), &tls.Config{ServerName: "x"}); err == nil || errors.Is(err, ErrTLS) {
		t.Errorf("a connection that broke: %v", err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	go func() {
		c, err := plain.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	}()
	if err := tryTLS(plain.Addr().String(), &tls.Config{ServerName: "x"}); !errors.Is(err, ErrTLS) {
		t.Errorf("a server without TLS: %v", err)
	}
}
