package landing

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// callTimeout is two handshakes over the longest way on earth with a lost SYN.
const callTimeout = 3 * time.Second

// mostFarewell is more than a server says that was asked nothing.
const mostFarewell = 16 << 10

// Call shakes hands with whoever answers at host and port, in the name of
// serverName, and hangs up. The certificate is not verified: it is compared
// with others, and nothing is said to who shows it.
func Call(ctx context.Context, address, serverName string) Answer {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = raw.Close() }()
	if end, ok := ctx.Deadline(); ok {
		_ = raw.SetDeadline(end)
	}
	conn := tls.Client(raw, &tls.Config{
		ServerName: serverName, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12,
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		return Answer{Err: fmt.Errorf("shake hands with %s: %w", address, err)}
	}
	shown := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].Raw)
	// Who hangs up before the server has heard the end of the handshake leaves an
	// error in its log.
	if conn.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, mostFarewell))
	}
	return Answer{Print: shown}
}

// abreast is how many calls are made at once: a lost one takes its whole
// timeout, and nobody wants to wait for each after the other.
const abreast = 4

// CallAll calls each address once and gives the answers in their order.
func CallAll(ctx context.Context, addresses []string, serverName string) []Answer {
	answers := make([]Answer, len(addresses))
	slots := make(chan struct{}, abreast)
	var wg sync.WaitGroup
	for i, address := range addresses {
		slots <- struct{}{}
		wg.Go(func() {
			answers[i] = Call(ctx, address, serverName)
			<-slots
		})
	}
	wg.Wait()
	return answers
}
