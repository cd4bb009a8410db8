package balance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// succession is what a process knows of its successors. mu of the process
// guards it.
type succession struct {
	// offered is closed at the end of the hand-over that is under way; nil
	// when none is.
	offered chan struct{}
	// child is the pid of a newer process that this one has started and that
	// lives; 0 for none.
	child int
	gone  bool // a newer process has taken over
}

// mayOffer says why the listeners cannot be handed over now.
func (s succession) mayOffer(closing bool) error {
	switch {
	case s.gone:
		return errors.New("another process has taken over already; ask that one")
	case s.offered != nil:
		return errors.New("another upgrade is under way; wait for its end")
	case closing:
		return errors.New("this process drains; start the newer one without --upgrade when it has ended")
	}
	return nil
}

// beginOffer makes an offer the only one.
func (p *process) beginOffer() (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mayOffer(p.closing); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	p.offered = done
	return func() {
		p.mu.Lock()
		p.offered = nil
		p.mu.Unlock()
		close(done)
	}, nil
}

// awaitOffer waits for the end of a hand-over that is under way: the newer
// process must be told, else it takes this one for dead.
func (p *process) awaitOffer() {
	p.mu.Lock()
	done := p.offered
	p.mu.Unlock()
	if done != nil {
		<-done // it has its own patience
	}
}

func (p *process) isHanded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// handOver is the old process's side.
func (p *process) handOver(w http.ResponseWriter, _ *http.Request) {
	end, err := p.beginOffer()
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer end()
	raw, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = raw.Close() }()
	conn, ok := raw.(*net.UnixConn)
	if !ok {
		return // the page is served on the control socket only
	}
	err = p.offer(conn)
	if err == nil {
		err = awaitGo(conn, goPatience)
	}
	if err != nil {
		p.log.Warn("hand-over broken off; this process goes on", keyError, err.Error())
		_, _ = fmt.Fprintln(conn, "no:", err)
		return
	}
	p.giveUp(conn)
}

// giveUp ends the service of this process in favour of the one behind conn.
func (p *process) giveUp(conn net.Conn) {
	p.mu.Lock()
	p.gone = true // the control socket is the other's from here on
	p.mu.Unlock()
	p.hush()
	select {
	case <-p.quiet: // so that the other has the port at once
	case <-time.After(time.Second): // it tries again
	}
	p.close()
	_ = conn.SetDeadline(time.Now().Add(handoverPatience))
	_, _ = fmt.Fprintln(conn, "gone")
	close(p.handed)
}

// offer sends the listening sockets and what the newer process should know.
func (p *process) offer(conn *net.UnixConn) error {
	// What a reload is opening should go along; one that hangs does not.
	within2s(func() { p.applying.Lock(); p.applying.Unlock() }) //nolint:staticcheck // SA2001: only its end is awaited
	o, files, err := p.copyListeners()
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if err != nil {
		return err
	}
	if len(files) > mostHanded {
		return fmt.Errorf("%d listeners do not fit into one message of %d", len(files), mostHanded)
	}
	o.Held = map[string][]string{}
	for _, pool := range p.poolsOf("") {
		if ids := pool.heldIDs(); len(ids) > 0 {
			o.Held[pool.name] = ids
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode listeners: %w", err)
	}
	// The files stay open until this returns.
	fds, err := numbers(files)
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(handoverPatience))
	if _, _, err := conn.WriteMsgUnix(append(text, '\n'), unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("send listeners: %w", err)
	}
	return nil
}

// copyListeners duplicates what this process listens on.
func (p *process) copyListeners() (o offer, files []*os.File, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a, l := range p.listeners {
		f, err := l.File()
		if err != nil {
			return o, files, fmt.Errorf("copy listener %s: %w", a, err)
		}
		o.Listen, files = append(o.Listen, a), append(files, f)
	}
	return o, files, nil
}

func (p *pool) heldIDs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roster.holds()
}

// awaitGo waits until the newer process says go.
func awaitGo(conn *net.UnixConn, patience time.Duration) error {
	_ = conn.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// This process may have been stopped meanwhile, and "go" be there.
		_ = conn.CloseRead()
		_ = conn.SetDeadline(time.Now().Add(handoverPatience))
		var rest string
		rest, err = r.ReadString('\n')
		line += rest
		if err != nil {
			err = fmt.Errorf("nothing came within %s", patience)
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("the newer process did not say go: %w", err)
	case line != "go\n":
		return fmt.Errorf("the newer process said %q instead of go", line)
	}
	return nil
}

// numbers are the descriptors of files. File.Fd would make the sockets
// blocking, for this process, too.
func numbers(files []*os.File) ([]int, error) {
	var fds []int
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) })
		}
		if err != nil {
			return nil, fmt.Errorf("read descriptor of listener: %w", err)
		}
	}
	return fds, nil
}
