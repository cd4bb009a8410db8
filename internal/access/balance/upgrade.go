package balance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The hand-over to a newer process, over the control socket:
//
//	new → old   POST /upgrade
//	old → new   {"listen": [addresses]} and a line feed, with the listening
//	            sockets attached (SCM_RIGHTS), in the same order
//	new → old   "go\n" once it accepts on them and knows its backends
//	old → new   "gone\n": it has stopped accepting, and drains
//
// Until "go" the old process serves as if nobody had asked; a newer one that
// dies half way changes nothing. Both accept for a moment, so no connection
// finds nobody.

// mostHanded is how many descriptors fit into one message (SCM_MAX_FD,
// include/net/scm.h).
const mostHanded = 253

// handover is the newer process's side. A nil one took nothing.
type handover struct {
	conn      *net.UnixConn
	listeners map[string]*os.File
	count     int
}

// offer is the old process's message.
type offer struct {
	Listen []string `json:"listen"`
}

// takeOver asks the running process for its listening sockets.
func (p *process) takeOver(ctx context.Context, control string, upgrade bool) (*handover, error) {
	if !upgrade {
		return nil, nil
	}
	raw, err := new(net.Dialer).DialContext(ctx, "unix", control)
	if err != nil {
		p.log.Warn("nobody to take over from; starting as usual", "control", control, keyError, err.Error())
		return nil, nil
	}
	h := &handover{conn: raw.(*net.UnixConn), listeners: map[string]*os.File{}}
	if err := h.receive(); err != nil {
		h.close()
		return nil, fmt.Errorf("upgrade: %w; the running process goes on", err)
	}
	return h, nil
}

// patience of both sides for one step of the other.
const handoverPatience = 10 * time.Second

func (h *handover) receive() error {
	_ = h.conn.SetDeadline(time.Now().Add(handoverPatience))
	if _, err := fmt.Fprint(h.conn, "POST /upgrade HTTP/1.1\r\nHost: balance\r\nContent-Length: 0\r\n\r\n"); err != nil {
		return fmt.Errorf("ask for listeners: %w", err)
	}
	text, oob := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4*mostHanded))
	n, oobn, _, _, err := h.conn.ReadMsgUnix(text, oob)
	if err != nil {
		return fmt.Errorf("receive listeners: %w", err)
	}
	fds, err := rights(oob[:oobn])
	if err != nil {
		return err
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		syscall.CloseOnExec(fd)
		files[i] = os.NewFile(uintptr(fd), "listener")
	}
	var o offer
	if err := json.Unmarshal(text[:n], &o); err != nil || len(o.Listen) != len(files) {
		for _, f := range files {
			_ = f.Close()
		}
		return fmt.Errorf("receive listeners: %d sockets came with %q", len(files), firstLine(text[:n]))
	}
	for i, a := range o.Listen {
		h.listeners[a] = files[i]
	}
	h.count = len(files)
	return nil
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line[:min(len(line), 200)])
}

// rights reads descriptors from control messages.
func rights(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("receive listeners: %w", err)
	}
	var all []int
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, fmt.Errorf("receive listeners: %w", err)
		}
		all = append(all, fds...)
	}
	return all, nil
}

func (h *handover) files() map[string]*os.File {
	if h == nil {
		return nil
	}
	return h.listeners
}

// finish tells the old process that it may stop accepting, and waits until it
// has.
func (h *handover) finish() error {
	_ = h.conn.SetDeadline(time.Now().Add(handoverPatience))
	if _, err := fmt.Fprintln(h.conn, "go"); err != nil {
		return fmt.Errorf("upgrade: the running process went away before the hand-over: %w", err)
	}
	if line, err := bufio.NewReader(h.conn).ReadString('\n'); err != nil || line != "gone\n" {
		return fmt.Errorf("upgrade: the running process did not confirm the hand-over: %q, %w", line, err)
	}
	return nil
}

// close drops what was not used.
func (h *handover) close() {
	if h == nil {
		return
	}
	closeAll(h.listeners)
	_ = h.conn.Close()
}

// handOver is the old process's side.
func (p *process) handOver(w http.ResponseWriter, _ *http.Request) {
	raw, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	conn, ok := raw.(*net.UnixConn)
	if !ok {
		_ = raw.Close()
		return
	}
	defer func() { _ = conn.Close() }()
	if err := p.offer(conn); err != nil {
		p.log.Warn("hand-over broken off; this process goes on", keyError, err.Error())
		return
	}
	p.handedOnce.Do(func() { close(p.handed) })
	p.closeListeners()
	select {
	case <-p.quiet:
	case <-time.After(time.Second): // the newer process tries the port again
	}
	_, _ = fmt.Fprintln(conn, "gone")
}

// offer sends the listening sockets and waits for the go.
func (p *process) offer(conn *net.UnixConn) error {
	var o offer
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	p.mu.Lock()
	for a, l := range p.listeners {
		f, err := l.File()
		if err != nil {
			p.mu.Unlock()
			return fmt.Errorf("copy listener %s: %w", a, err)
		}
		o.Listen, files = append(o.Listen, a), append(files, f)
	}
	p.mu.Unlock()
	if len(files) > mostHanded {
		return fmt.Errorf("%d listeners do not fit into one message of %d", len(files), mostHanded)
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
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || line != "go\n" {
		return fmt.Errorf("the newer process did not say go: %q, %w", line, err)
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

// startSuccessor runs this program again, from its present file on disk, to
// take over.
func (p *process) startSuccessor() {
	args := os.Args[1:]
	if !slices.Contains(args, "--upgrade") {
		args = append(slices.Clone(args), "--upgrade")
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		p.log.Error("cannot start the newer process; this one goes on", keyError, err.Error())
		return
	}
	p.log.Info("started a newer process", "pid", cmd.Process.Pid)
	notify(fmt.Sprintf("MAINPID=%d", cmd.Process.Pid))
	go func() {
		if err := cmd.Wait(); err != nil {
			p.log.Warn("the newer process ended", keyError, err.Error())
			notify(fmt.Sprintf("MAINPID=%d", os.Getpid()))
		}
	}()
}

// notify tells systemd, when it asked to be told (sd_notify(3)).
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		return
	}
	_, err = conn.Write([]byte(state))
	_ = errors.Join(err, conn.Close())
}
