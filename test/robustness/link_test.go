package robustness

import (
	"io"
	"net"
	"sync"
	"testing"
)

// link is the way from the other site to one port of this one: a TCP proxy that
// can fall silent, as a cable that was pulled, or refuse.
type link struct {
	address, target string
	listener        net.Listener

	mu     sync.Mutex
	change *sync.Cond
	silent bool
	closed bool
	conns  map[net.Conn]struct{}
}

func newLink(t *testing.T, address, target string) *link {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	k := &link{address: address, target: target, listener: l, conns: map[net.Conn]struct{}{}}
	k.change = sync.NewCond(&k.mu)
	var serving sync.WaitGroup
	serving.Go(func() { k.serve(&serving) })
	t.Cleanup(func() {
		l.Close()
		k.set(func() { k.closed = true })
		k.reset()
		serving.Wait()
	})
	return k
}

func (k *link) set(what func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	what()
	k.change.Broadcast()
}

// cut lets nothing pass any more, in either direction, on old connections and new ones.
func (k *link) cut() { k.set(func() { k.silent = true }) }

// heal lets everything pass again; connections that are still open go on.
func (k *link) heal() { k.set(func() { k.silent = false }) }

// reset ends the connections that are open.
func (k *link) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.conns {
		c.Close()
	}
}

// passes waits while the link is silent, and says whether it still is one.
func (k *link) passes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.silent && !k.closed {
		k.change.Wait()
	}
	return !k.closed
}

// hold remembers a connection for reset, until it is closed by drop.
func (k *link) hold(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		c.Close()
		return false
	}
	k.conns[c] = struct{}{}
	return true
}

func (k *link) drop(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.Close()
	delete(k.conns, c)
}

func (k *link) serve(serving *sync.WaitGroup) {
	for {
		near, err := k.listener.Accept()
		if err != nil {
			return
		}
		if k.hold(near) {
			serving.Go(func() { k.join(near) })
		}
	}
}

func (k *link) join(near net.Conn) {
	defer k.drop(near)
	if !k.passes() {
		return
	}
	far, err := net.Dial("tcp", k.target)
	if err != nil || !k.hold(far) {
		return
	}
	defer k.drop(far)
	var both sync.WaitGroup
	both.Go(func() { k.pump(near, far) })
	both.Go(func() { k.pump(far, near) })
	both.Wait()
}

// pump copies until one side ends; the end of a connection does not pass a silent link either.
func (k *link) pump(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !k.passes() {
			return
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err == nil {
			continue
		}
		if tcp, ok := to.(*net.TCPConn); ok && err == io.EOF {
			_ = tcp.CloseWrite()
		} else {
			to.Close()
			from.Close()
		}
		return
	}
}
