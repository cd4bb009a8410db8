package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// patience is how long a client waits for an answer on a new connection.
const patience = 5 * time.Second

// client makes TLS connections through a balancer, as a Kubernetes client
// does, and verifies who answers.
type client struct {
	address string
	tls     *tls.Config
}

func (g *ground) client(port int) (*client, error) {
	pem, err := os.ReadFile(g.pki.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read %s: no certificate in it", g.pki.CA)
	}
	return &client{
		address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		tls:     &tls.Config{RootCAs: pool, ServerName: "kubernetes", MinVersion: tls.VersionTLS12},
	}, nil
}

// attempt is one new connection of a client: connect, handshake, one request.
type attempt struct {
	start time.Time
	first time.Time // when the first byte from a backend came; zero: none came
	end   time.Time
	from  int // number of the backend that answered
	err   error
}

func (a attempt) took() time.Duration { return a.end.Sub(a.start) }

// noticing notes when the first byte comes.
type noticing struct {
	net.Conn
	first time.Time
}

func (n *noticing) Read(b []byte) (int, error) {
	got, err := n.Conn.Read(b)
	if got > 0 && n.first.IsZero() {
		n.first = time.Now()
	}
	return got, err
}

// open connects and asks who answers. The connection is left open when there
// is no error and keep is set.
func (c *client) open(keep bool) (attempt, net.Conn) {
	a := attempt{start: time.Now()}
	conn, err := net.DialTimeout("tcp", c.address, patience)
	if err != nil {
		a.err, a.end = err, time.Now()
		return a, nil
	}
	_ = conn.SetDeadline(a.start.Add(patience))
	n := &noticing{Conn: conn}
	t := tls.Client(n, c.tls)
	a.from, a.err = ask(t, keep)
	a.first, a.end = n.first, time.Now()
	if a.err != nil || !keep {
		_ = conn.Close()
		return a, nil
	}
	_ = conn.SetDeadline(time.Time{})
	return a, t
}

// ask sends a request and reads which backend has answered.
func ask(conn net.Conn, keep bool) (int, error) {
	closing := "Connection: close\r\n"
	if keep {
		closing = ""
	}
	if _, err := io.WriteString(conn, "GET /who HTTP/1.1\r\nHost: kubernetes\r\n"+closing+"\r\n"); err != nil {
		return 0, err
	}
	r, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Body.Close() }()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return 0, err
	}
	if r.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("answer %s", r.Status)
	}
	return strconv.Atoi(r.Header.Get(numberHeader))
}

// stream makes new connections at an even rate, whatever becomes of them.
type stream struct {
	stop chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	all  []attempt
}

// flow starts a stream of rate connections per second.
func (c *client) flow(rate int) *stream {
	s := &stream{stop: make(chan struct{})}
	s.wg.Go(func() {
		t := time.NewTicker(time.Second / time.Duration(rate))
		defer t.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-t.C:
			}
			s.wg.Go(func() {
				a, _ := c.open(false)
				s.mu.Lock()
				s.all = append(s.all, a)
				s.mu.Unlock()
			})
		}
	})
	return s
}

// sofar lists the connections that have ended.
func (s *stream) sofar() []attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]attempt(nil), s.all...)
}

// finish stops and waits for the connections that are under way.
func (s *stream) finish() []attempt {
	close(s.stop)
	s.wg.Wait()
	return s.all
}

// keeper holds connections open and notes when they are lost.
type keeper struct {
	mu    sync.Mutex
	conns []net.Conn
	from  []int
	lost  map[int]time.Time // by index
	ended bool
}

// keep opens n connections and leaves them idle.
func (c *client) keep(n int) (*keeper, error) {
	k := &keeper{lost: map[int]time.Time{}}
	for i := range n {
		a, conn := c.open(true)
		if a.err != nil {
			k.close()
			return nil, fmt.Errorf("keep a connection: %w", a.err)
		}
		k.conns, k.from = append(k.conns, conn), append(k.from, a.from)
		go func() {
			_, _ = conn.Read(make([]byte, 1)) // nothing comes but the end
			k.mu.Lock()
			defer k.mu.Unlock()
			if !k.ended {
				k.lost[i] = time.Now()
			}
		}()
	}
	return k, nil
}

func (k *keeper) close() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	for _, c := range k.conns {
		_ = c.Close()
	}
}

// toll counts the connections to a backend (0: to any), how many of them are
// lost, and when the last was.
func (k *keeper) toll(backend int) (all, lost int, last time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, from := range k.from {
		if backend != 0 && from != backend {
			continue
		}
		all++
		if at, ok := k.lost[i]; ok {
			lost++
			if at.After(last) {
				last = at
			}
		}
	}
	return all, lost, last
}

// seen waits until each of n backends has answered, which says that the
// balancer trusts them all. Slow timers may take 20 s to their first check.
func (c *client) seen(ctx context.Context, n int) error {
	for deadline := time.Now().Add(time.Minute); ; {
		got := c.answering(n)
		if got == n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d backends answer through the balancer", got, n)
		}
		if !pause(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// answering counts the backends, up to n, that answer through the balancer. It
// holds its connections open meanwhile: who balances by the number of open
// ones may send each of a row of short ones to the same backend.
func (c *client) answering(n int) int {
	answered := map[int]bool{}
	for range 20 * n {
		a, conn := c.open(true)
		if a.err != nil {
			continue
		}
		defer func() { _ = conn.Close() }()
		answered[a.from] = true
		if len(answered) == n {
			break
		}
	}
	return len(answered)
}
