package balance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The hand-over to a newer process, over the control socket:
//
//	new → old   POST /upgrade
//	old → new   an offer: one line of JSON, with the listening sockets attached
//	            (SCM_RIGHTS) in the order of its addresses; or an HTTP error
//	            that says why not
//	new → old   "go\n" once it knows its backends and holds its control socket
//	old → new   "gone\n" once it has stopped accepting; it drains from here on
//
// Until "go" the old process serves as if nobody had asked, and the newer one
// accepts nobody: it may hang or die, and no client is with it. After "go" the
// newer one serves whatever becomes of the old one, which may have died: it
// holds the sockets, and clients wait in their backlog for the moment between.
//
// An old process that does not wait any longer says "no: " and why. So that no
// "go" crosses it, it first closes its side for reading: what was written
// before counts, and what comes later fails where it is written.

// mostHanded is how many descriptors fit into one message (SCM_MAX_FD,
// include/net/scm.h).
const mostHanded = 253

// mostOffered bounds an offer: 253 paths and a few hundred held backends.
const mostOffered = 256 << 10

// handover is the newer process's side.
type handover struct {
	conn      *net.UnixConn
	listeners map[string]*os.File // those not used yet
	held      map[string][]string
	count     int
}

// offer is the old process's message.
type offer struct {
	Listen []string `json:"listen"`
	// Held are the backends that a person has taken out of service, by pool.
	Held map[string][]string `json:"held,omitempty"`
}

const (
	// handoverPatience is for one step of the other side that takes no thought.
	handoverPatience = 10 * time.Second
	// goPatience is how long the old process waits for "go": the newer one
	// reads credentials and awaits the first verdicts, at most 3 s.
	goPatience = 30 * time.Second
)

// takeOver asks the process that runs for its listening sockets. It returns
// nil when there is none.
func (p *process) takeOver(ctx context.Context, control string) (*handover, error) {
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

// succeed begins in place of the process that runs.
func (p *process) succeed(ctx context.Context, settings Settings, taken *handover) (*control, error) {
	interim, bridged := bridge(settings, taken.listeners)
	c, err := p.prepare(interim, taken.listeners)
	if err != nil {
		return nil, err
	}
	ctl, err := openControl(settings.Control)
	if err != nil {
		p.abandon(c)
		return nil, err
	}
	pools := p.startPools(c)
	keepHeld(pools, taken.held)
	awaitVerdicts(ctx, pools)
	if err = errStopped; ctx.Err() == nil {
		err = taken.finish(p.log.Warn)
	}
	if err != nil {
		ctl.discard()
		p.abandon(c)
		return nil, err
	}
	// Nothing fails from here on: nobody else serves.
	taken.close() // what the settings do not name must not stay open
	if err := p.commit(c); err != nil {
		return nil, err
	}
	if err := ctl.publish(); err != nil {
		p.log.Error("status, drain and upgrade cannot be asked for", keyError, err.Error())
	}
	p.log.Info("took over from the process before", "listeners", taken.count)
	if bridged {
		p.unbridge(settings)
	}
	return ctl, nil
}

// unbridge listens on the addresses of the settings, now that the process
// before no longer holds any that overlap them.
func (p *process) unbridge(settings Settings) {
	c, err := p.prepare(settings, nil)
	if err == nil {
		p.startPools(c)
		err = p.commit(c)
	}
	p.noteReload(settings, err)
}

// receive asks for the offer and reads it.
func (h *handover) receive() error {
	_ = h.conn.SetDeadline(time.Now().Add(handoverPatience))
	if _, err := fmt.Fprint(h.conn, "POST /upgrade HTTP/1.1\r\nHost: balance\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"); err != nil {
		return fmt.Errorf("ask for listeners: %w", err)
	}
	text, files, err := readOffer(h.conn)
	if err == nil {
		var o offer
		if o, err = decodeOffer(text, len(files)); err == nil {
			for i, a := range o.Listen {
				h.listeners[a] = files[i]
			}
			h.held, h.count = o.Held, len(files)
			return nil
		}
	}
	for _, f := range files {
		_ = f.Close()
	}
	return err
}

// readOffer reads up to the end of the line, or of the HTTP answer, with the
// sockets that come along.
func readOffer(conn *net.UnixConn) (text []byte, files []*os.File, err error) {
	part, oob := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4*mostHanded))
	for len(text) < mostOffered {
		n, oobn, _, _, err := conn.ReadMsgUnix(part, oob)
		n = max(n, 0) // -1 with an error
		text = append(text, part[:n]...)
		if oobn > 0 {
			fds, err := rights(oob[:oobn])
			for _, fd := range fds {
				syscall.CloseOnExec(fd)
				files = append(files, os.NewFile(uintptr(fd), "listener"))
			}
			if err != nil {
				return text, files, err
			}
		}
		switch {
		case errors.Is(err, io.EOF), n == 0 && err == nil:
			return text, files, nil
		case err != nil:
			return text, files, fmt.Errorf("receive listeners: %w", err)
		case bytes.HasPrefix(text, []byte("{")) && bytes.HasSuffix(text, []byte("\n")):
			return text, files, nil
		}
	}
	return text, files, errors.New("receive listeners: the answer has no end")
}

// decodeOffer reads an offer that came with so many sockets, or why there is
// none.
func decodeOffer(text []byte, sockets int) (offer, error) {
	var o offer
	if bytes.HasPrefix(text, []byte("HTTP/")) {
		return o, refusal(text)
	}
	if err := json.Unmarshal(text, &o); err != nil || len(o.Listen) != sockets {
		return offer{}, fmt.Errorf("receive listeners: %d sockets came with %q", sockets, firstLine(text))
	}
	return o, nil
}

// refusal is the reason in an HTTP error.
func refusal(text []byte) error {
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		return fmt.Errorf("receive listeners: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return fmt.Errorf("refused: %s", firstLine(body))
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
			return all, fmt.Errorf("receive listeners: %w", err)
		}
		all = append(all, fds...)
	}
	return all, nil
}

// finish tells the old process that it may stop accepting, and waits until it
// has, or is no more. An error means that it goes on instead.
func (h *handover) finish(warn func(string, ...any)) error {
	_ = h.conn.SetDeadline(time.Now().Add(handoverPatience))
	_, unsaid := fmt.Fprintln(h.conn, "go")
	line, err := bufio.NewReader(h.conn).ReadString('\n')
	if line == "gone\n" {
		return nil
	}
	if reason, no := strings.CutPrefix(line, "no: "); no {
		return fmt.Errorf("upgrade: the running process goes on: %s", strings.TrimSpace(reason))
	}
	if unsaid != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("upgrade: the running process lives and does not listen: %w", unsaid)
	}
	warn("the process before did not say farewell; taking over all the same", keyError, fmt.Sprint(errors.Join(unsaid, err)))
	return nil
}

// close drops what was not used.
func (h *handover) close() {
	closeAll(h.listeners)
	_ = h.conn.Close()
}

// keepHeld takes backends out of service that a person had taken out of it in the
// process before. Those not listed yet are held as soon as they are.
func keepHeld(pools []*pool, held map[string][]string) {
	for _, pool := range pools {
		for _, id := range held[pool.name] {
			if !pool.hold(id, true) {
				pool.mu.Lock()
				pool.roster.held[id] = true
				pool.mu.Unlock()
			}
		}
	}
}
