package balance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// control is the unix socket by which a person asks and steers the running
// process: status, drain and undrain, and the hand-over to a newer process.
// Who may open the socket (root, mode 0600) may do all of it.
type control struct {
	path     string
	fresh    string      // where it is until it is published
	file     os.FileInfo // as it was made, to know it again
	listener *net.UnixListener
	server   *http.Server
}

// controlFree reports a process that answers at path already: two would be one
// too many. A file without anybody behind it is what a crash leaves.
func controlFree(path string) error {
	if err := noFile(path); err != nil {
		return err
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return nil
	}
	_ = conn.Close()
	return fmt.Errorf("control: a balancer answers at %s already; stop it, take over from it with --upgrade, or set another control socket", path)
}

// noFile refuses to replace what is no socket: a mistyped path is somebody's
// file.
func noFile(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("control: %s is there and is no socket; it is left alone: set control to a path of its own", path)
	}
	return nil
}

// openControl listens beside path; publish moves the socket there. In between
// lies the point of no return of a hand-over: what can fail fails before it,
// and there is never a moment without a socket at path.
func openControl(path string) (*control, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("control: make directory: %w; set control to a path that can be written", err)
	}
	fresh := path + ".new"
	if err := errors.Join(noFile(path), noFile(fresh)); err != nil {
		return nil, first(err)
	}
	_ = os.Remove(fresh)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control: %w; set control to a path that can be written", err)
	}
	l.SetUnlinkOnClose(false)
	c := &control{path: path, fresh: fresh, listener: l}
	err = os.Chmod(fresh, 0o600)
	if err == nil {
		c.file, err = os.Stat(fresh)
	}
	if err != nil {
		c.discard()
		return nil, fmt.Errorf("control: %w", err)
	}
	return c, nil
}

// publish puts the socket in place of whatever was at path.
func (c *control) publish() error {
	if err := os.Rename(c.fresh, c.path); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	return nil
}

// discard drops a socket that was not published.
func (c *control) discard() {
	_ = c.listener.Close()
	_ = os.Remove(c.fresh)
}

// serve answers until ctx ends. The file stays when another process has taken
// its place.
func (c *control) serve(ctx context.Context, h http.Handler) {
	c.server = &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = c.server.Close() })
	defer stop()
	_ = c.server.Serve(c.listener)
}

// remove takes the file away if it is still this process's. One that has
// handed over never asks: the other may be about to move its own there.
func (c *control) remove() {
	if there, err := os.Stat(c.path); err == nil && os.SameFile(c.file, there) {
		_ = os.Remove(c.path)
	}
}

// controlClient speaks HTTP over the socket.
func controlClient(path string) *http.Client {
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}},
	}
}

// ask sends one request to the process behind the socket and decodes its
// answer into into, unless that is nil.
func ask(ctx context.Context, path, method, what string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://balance"+what, nil)
	if err != nil {
		return fmt.Errorf("ask balancer: %w", err)
	}
	resp, err := controlClient(path).Do(req)
	if err != nil {
		return fmt.Errorf("no balancer answers at %s: %w; is it running, and is --control the same as its own?", path, errors.Unwrap(err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("read answer of balancer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(string(body))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read answer of balancer: %w", err)
	}
	return nil
}
