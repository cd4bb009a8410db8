package relay

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestMaxConnsLeavesClientsInTheBacklog(t *testing.T) {
	up := backend(t, echo)
	r := newRig(t, Frontend{MaxConns: 2, Picker: &order{targets: []*Target{up}}}, Options{})
	a, b, c := r.dial(), r.dial(), r.dial()
	exchange(t, a, "a")
	exchange(t, b, "b")
	r.await(AcceptLimited, 1)
	send(t, c, []byte("c"))
	if up.Total() != 2 {
		t.Fatalf("%d connections", up.Total())
	}
	a.Close()
	wantText(t, c, "c")
}

func TestMaxPerClient(t *testing.T) {
	r := newRig(t, Frontend{MaxPerClient: 2, Picker: &order{targets: []*Target{backend(t, echo)}}}, Options{})
	a, b := r.dial(), r.dial()
	exchange(t, a, "a")
	exchange(t, b, "b")
	r.wantRefused()
	r.await(ClientLimited, 1)
	a.Close()
	r.await(Closed, 1)
	await(t, "the count to fall", func() bool { return r.engine.Active() == 1 })
	exchange(t, r.dial(), "again")
}

func TestQueueServesInOrder(t *testing.T) {
	up := backend(t, echo)
	r := newRig(t, Frontend{QueueLength: 2, Picker: &order{targets: []*Target{up}, limit: 1}}, Options{})
	first := r.dial()
	exchange(t, first, "first")
	second := r.dial()
	r.awaitWaiting(1)
	third := r.dial()
	r.awaitWaiting(2)
	r.wantRefused()
	r.await(QueueFull, 1)
	first.Close()
	exchange(t, second, "second")
	if up.Total() != 2 {
		t.Fatalf("%d connections", up.Total())
	}
	second.Close()
	exchange(t, third, "third")
}

func (r *rig) awaitWaiting(n int) {
	r.t.Helper()
	await(r.t, "clients in the queue", func() bool { return r.engine.Stats().Waiting == n })
}

func TestQueueTimesOut(t *testing.T) {
	r := newRig(t, Frontend{QueueLength: 1, QueueTimeout: 20 * time.Millisecond, Picker: &order{targets: []*Target{backend(t, echo)}, limit: 1}}, Options{})
	exchange(t, r.dial(), "first")
	wantReset(t, r.dial())
	r.await(QueueTimeout, 1)
	r.awaitWaiting(0)
}

func TestWakeServesTheQueueWhenBackendsChange(t *testing.T) {
	busy, spare := backend(t, echo), backend(t, echo)
	picker := &order{targets: []*Target{busy}, limit: 1}
	r := newRig(t, Frontend{QueueLength: 5, Picker: picker}, Options{})
	exchange(t, r.dial(), "first")
	second, third := r.dial(), r.dial()
	r.awaitWaiting(2)
	picker.set(busy, spare, backend(t, echo))
	r.engine.Wake()
	exchange(t, second, "second")
	exchange(t, third, "third")
}

func TestClientThatLeavesTheQueue(t *testing.T) {
	r := newRig(t, Frontend{QueueLength: 5, Picker: &order{targets: []*Target{backend(t, echo)}, limit: 1}}, Options{})
	first := r.dial()
	exchange(t, first, "first")
	second := r.dial()
	r.awaitWaiting(1)
	third := r.dial()
	r.awaitWaiting(2)
	second.Close()
	r.awaitWaiting(1)
	first.Close()
	exchange(t, third, "third")
}

func TestProxyHeaderIn(t *testing.T) {
	seen := make(chan netip.AddrPort, 10)
	up := backend(t, echo)
	picker := pickFunc(func(client netip.AddrPort, tried []*Target) (*Target, Answer) {
		seen <- client
		return up, Use
	})
	r := newRig(t, Frontend{AcceptProxy: true, Picker: picker}, Options{})
	c := r.dial()
	send(t, c, []byte("PROXY TCP4 192.0.2.1 192.0.2.2 56324 4"))
	send(t, c, []byte("43\r\nhello"))
	wantText(t, c, "hello")
	if got := <-seen; got != netip.MustParseAddrPort("192.0.2.1:56324") {
		t.Errorf("picker was told %s", got)
	}
	bad := r.dial()
	send(t, bad, []byte("GET / HTTP/1.1\r\n"))
	wantReset(t, bad)
	r.await(BadProxy, 1)
}

// TestPickerIsToldWhatIsPending distinguishes a target that has failed from
// one that is still being tried.
func TestPickerIsToldWhatIsPending(t *testing.T) {
	dead, hole, up := refusing(t), blackhole(t), backend(t, echo)
	p := &recorder{targets: []*Target{dead, hole, up}}
	r := newRig(t, Frontend{Stagger: 20 * time.Millisecond, Picker: p}, Options{})
	exchange(t, r.dial(), "hello")
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) != 3 || len(p.pending[0]) != 0 || len(p.pending[1]) != 0 || !slices.Equal(p.pending[2], []*Target{hole}) {
		t.Errorf("pending were %v", p.pending)
	}
}

// recorder is a Picker that keeps what it was told.
type recorder struct {
	mu      sync.Mutex
	targets []*Target
	pending [][]*Target
}

func (p *recorder) Pick(_ netip.AddrPort, tried, pending []*Target) (*Target, Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = append(p.pending, slices.Clone(pending))
	if len(tried) == len(p.targets) {
		return nil, None
	}
	return p.targets[len(tried)], Use
}

type pickFunc func(netip.AddrPort, []*Target) (*Target, Answer)

func (f pickFunc) Pick(client netip.AddrPort, tried, _ []*Target) (*Target, Answer) {
	return f(client, tried)
}

func TestProxyHeaderFromStrangers(t *testing.T) {
	r := newRig(t, Frontend{
		AcceptProxy: true, ProxyFrom: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Picker: &order{targets: []*Target{backend(t, echo)}},
	}, Options{})
	c := r.dial()
	send(t, c, []byte("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"))
	wantReset(t, c)
	r.await(BadProxy, 1)
}

func TestProxyHeaderOut(t *testing.T) {
	for _, version := range []int{1, 2} {
		got := make(chan string, 1)
		plain := backend(t, func(c *net.TCPConn) {
			var b []byte
			for !bytes.HasSuffix(b, []byte("hello")) {
				piece := make([]byte, 100)
				n, err := c.Read(piece)
				if err != nil {
					break
				}
				b = append(b, piece[:n]...)
			}
			got <- string(b)
		})
		up, err := NewTarget("up", "tcp", plain.Address, version)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
		c := r.dial()
		send(t, c, []byte("hello"))
		text := <-got
		h, n, err := parseProxy([]byte(text))
		if err != nil || n == 0 || text[n:] != "hello" {
			t.Fatalf("version %d: got %q: %d, %v", version, text, n, err)
		}
		if h.source.String() != c.LocalAddr().String() || h.destination.String() != r.address {
			t.Errorf("version %d: header says %v", version, h)
		}
	}
}

func TestSlowHello(t *testing.T) {
	r := newRig(t, Frontend{AcceptProxy: true, HelloTimeout: 20 * time.Millisecond, Picker: &order{targets: []*Target{backend(t, echo)}}}, Options{})
	c := r.dial()
	send(t, c, []byte("PROXY "))
	wantReset(t, c)
	r.await(SlowHello, 1)
}

func TestRoutesByServerName(t *testing.T) {
	answer := func(text string) *Target {
		return backend(t, func(c *net.TCPConn) { _, _ = io.WriteString(c, text); untilClosed(c) })
	}
	r := newRig(t, Frontend{
		Picker: &order{targets: []*Target{answer("default")}},
		Routes: map[string]Picker{
			"api.example": &order{targets: []*Target{answer("exactly")}},
			"*.example":   &order{targets: []*Target{answer("any")}},
		},
	}, Options{})
	for name, want := range map[string]string{"api.example": "exactly", "b.example": "any", "other": "default"} {
		c := r.dial()
		said := clientHello(t, name)
		send(t, c, said[:9])
		send(t, c, said[9:])
		wantText(t, c, want)
	}
	plain := r.dial()
	send(t, plain, []byte("GET / HTTP/1.1\r\n"))
	wantText(t, plain, "default")
}

// TestRealTLS shakes hands through the relay, with the first target dying.
func TestRealTLS(t *testing.T) {
	certificate := testCertificate(t)
	up := backend(t, func(c *net.TCPConn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}})
		_, _ = io.Copy(s, s)
	})
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{backend(t, resetNow), up}}}, Options{})
	c := tls.Client(r.dial(), &tls.Config{InsecureSkipVerify: true})
	exchange(t, c, "sealed")
}
