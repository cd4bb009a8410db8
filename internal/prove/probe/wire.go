package probe

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// giveUpAfter is how long a kept connection may leave requests without any
// answer before it is given up and redialled. kube-apiserver gives its etcd
// connections 30 s idle and 10 s for the answer to a keepalive ping
// (storage/storagebackend/factory/etcd3.go); a prober always has a request
// waiting, so only the 10 s apply.
const giveUpAfter = 10 * time.Second

// wire is a connection that remembers how it broke. Libraries above it bury
// that in texts; the class of a sample needs the error itself.
type wire struct {
	net.Conn
	mu sync.Mutex
	// err is the first error of the peer's or the network's making.
	err error
	// asked is when the first request began that nothing has been read since;
	// zero while no answer is owed. Requests count, not bytes written: an
	// acknowledgement of HTTP/2 settings asks for nothing.
	asked time.Time
}

// dialWire opens a TCP connection to address.
func dialWire(ctx context.Context, address string) (*wire, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c}, nil
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.note(n > 0, err)
	return n, err
}

func (w *wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.note(false, err)
	return n, err
}

// ask says that a request begins.
func (w *wire) ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked.IsZero() {
		w.asked = time.Now()
	}
}

// note records an answer, or an error that our own Close or deadline did not cause.
func (w *wire) note(answered bool, err error) {
	own := errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
	w.mu.Lock()
	defer w.mu.Unlock()
	if answered {
		w.asked = time.Time{}
	}
	if err != nil && !own && w.err == nil {
		w.err = err
	}
}

// broken returns how the connection broke, errSilent when it has owed an
// answer for too long, or nil.
func (w *wire) broken() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && !w.asked.IsZero() && time.Since(w.asked) > giveUpAfter {
		return errSilent
	}
	return w.err
}

func (w *wire) local() string { return w.LocalAddr().String() }
func (w *wire) peer() string  { return w.RemoteAddr().String() }
