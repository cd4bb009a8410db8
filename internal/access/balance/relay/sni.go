package relay

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

var errSeen = errors.New("ClientHello seen")

// serverName returns the name that a TLS client asks for (RFC 6066, 3), or ""
// when it asks for none or is no TLS client. b must be a whole ClientHello.
func serverName(b []byte, c class) string {
	if c != hello {
		return ""
	}
	name := ""
	server := tls.Server(helloConn{bytes.NewReader(b)}, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			name = info.ServerName
			return nil, errSeen
		},
	})
	_ = server.Handshake() // always an error: errSeen, or what is wrong with b
	return name
}

// helloConn is a connection on which a client has said one thing.
type helloConn struct{ *bytes.Reader }

func (helloConn) Write(b []byte) (int, error)      { return len(b), nil }
func (helloConn) Close() error                     { return nil }
func (helloConn) LocalAddr() net.Addr              { return nil }
func (helloConn) RemoteAddr() net.Addr             { return nil }
func (helloConn) SetDeadline(time.Time) error      { return nil }
func (helloConn) SetReadDeadline(time.Time) error  { return nil }
func (helloConn) SetWriteDeadline(time.Time) error { return nil }
