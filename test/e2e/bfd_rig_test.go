package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/bfd"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

const (
	ourIPv4, routerIPv4 = "10.58.80.1", "10.58.80.2"
	ourIPv6, routerIPv6 = "fd00:5880::1", "fd00:5880::2"
	ourMAC, routerMAC   = "02:58:80:00:00:01", "02:58:80:00:00:02"
	// What the kernel makes of the MACs.
	ourLinkLocal, routerLinkLocal = "fe80::58:80ff:fe00:1", "fe80::58:80ff:fe00:2"
)

var hundredByThree = bfd.Timers{DesiredMinTx: 100 * time.Millisecond, RequiredMinRx: 100 * time.Millisecond, DetectMult: 3}

// hop is a switch with this end on one port and a router on the other. Its
// ends keep their carrier whatever happens to the frames between them.
type hop struct {
	// t is the test, or the part of it, that is under way.
	t                    *testing.T
	here, between, there *space.Space
	spawner              *space.Spawner
	dir                  string
	shell                io.WriteCloser // reads arguments of nft
	told                 chan string    // how each has ended
	router               map[string]*exec.Cmd
	manager              *bfd.Manager
	log                  *buffer
}

func newHop(t *testing.T) *hop {
	t.Helper()
	if os.Getuid() != 0 || exec.Command("test", "-x", "/usr/lib/frr/bfdd").Run() != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("this suite must not be skipped in CI: run it as root, after scripts/setup")
		}
		t.Skip("needs root and FRR; see scripts/setup")
	}
	h := &hop{t: t, dir: routerDir(t), router: map[string]*exec.Cmd{}, log: &buffer{}}
	for _, s := range []**space.Space{&h.here, &h.between, &h.there} {
		var err error
		if *s, err = space.New(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*s).Close() })
	}
	var err error
	if h.spawner, err = space.NewSpawner(h.there); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.killRouter("bfdd")
		h.killRouter("zebra")
		h.spawner.Close()
	})
	h.do(h.between, func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "switch"}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		return netlink.LinkSetUp(bridge)
	})
	h.startShell()
	h.plug("here", h.here, ourMAC, ourIPv4, ourIPv6)
	h.plug("there", h.there, routerMAC, routerIPv4, routerIPv6)
	return h
}

// routerDir is a directory that FRR, which runs as its own user, can write to.
func routerDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-frr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	frr, err := user.Lookup("frr")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(frr.Uid)
	gid, _ := strconv.Atoi(frr.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (h *hop) do(s *space.Space, f func() error) {
	h.t.Helper()
	if err := s.Do(f); err != nil {
		h.t.Fatal(err)
	}
}

// plug gives a namespace an eth0 with addresses, on the switch.
func (h *hop) plug(port string, end *space.Space, mac string, addresses ...string) {
	h.t.Helper()
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		h.t.Fatal(err)
	}
	h.do(h.between, func() error {
		veth := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: port},
			PeerName:  "eth0", PeerNamespace: netlink.NsFd(end.Fd()), PeerHardwareAddr: hardware,
		}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		return netlink.LinkSetUp(veth)
	})
	h.connect(port)
	h.do(end, func() error {
		for _, name := range []string{"lo", "eth0"} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
		}
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, a := range addresses {
			bits := 24
			if strings.Contains(a, ":") {
				bits = 64
			}
			address, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", a, bits))
			if err != nil {
				return err
			}
			address.Flags = 0x02 // without waiting for duplicate address detection
			if err := netlink.AddrAdd(eth0, address); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *hop) unplug() {
	h.t.Helper()
	h.do(h.here, func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(eth0)
	})
}

// connect and cut move frames of a port, or stop doing so, unseen by the ends.
func (h *hop) connect(port string) {
	h.t.Helper()
	h.do(h.between, func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		bridge, err := netlink.LinkByName("switch")
		if err != nil {
			return err
		}
		return netlink.LinkSetMaster(link, bridge)
	})
}

func (h *hop) cut(port string) {
	h.t.Helper()
	h.do(h.between, func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return netlink.LinkSetNoMaster(link)
	})
}

// loss drops the BFD packets, of both directions, for which a condition of
// nftables holds; "" drops none. The set burst holds the port for 150 ms after
// burst.
func (h *hop) loss(condition string) {
	h.t.Helper()
	rules := "add table inet loss; delete table inet loss;"
	if condition != "" {
		rules += "table inet loss { set burst { type inet_service; flags timeout; };"
		for _, hook := range []string{"input", "output"} {
			rules += fmt.Sprintf(" chain %s { type filter hook %s priority 0; udp dport 3784 %s counter drop; };", hook, hook, condition)
		}
		rules += "}"
	}
	h.nft(rules)
}

func (h *hop) burst() {
	h.t.Helper()
	h.nft("add element inet loss burst { 3784 timeout 150ms }")
}

// nft has a shell at this end call nft: this process must not be held up by
// starting others while it is measured.
func (h *hop) nft(text string) {
	h.t.Helper()
	if _, err := fmt.Fprintf(h.shell, "%s\n", text); err != nil {
		h.t.Fatal(err)
	}
	select {
	case line, ok := <-h.told:
		if !ok || line != "0" {
			h.t.Fatalf("nft %s: exit %s\n%s", text, line, h.log.tail())
		}
	case <-time.After(10 * time.Second):
		h.t.Fatalf("nft %s: no answer", text)
	}
}

// startShell starts the shell of nft.
func (h *hop) startShell() {
	h.t.Helper()
	spawner, err := space.NewSpawner(h.here)
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `while read -r line; do nft "$line"; echo $?; done`)
	cmd.Stderr = h.log
	if h.shell, err = cmd.StdinPipe(); err != nil {
		h.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := spawner.Start(cmd); err != nil {
		h.t.Fatal(err)
	}
	h.told = make(chan string)
	go func() {
		defer close(h.told)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.told <- lines.Text()
		}
	}()
	h.t.Cleanup(func() {
		_ = h.shell.Close()
		for range h.told { // until it has ended
		}
		_ = cmd.Wait()
		spawner.Close()
	})
}

// pass waits until the session has sent as many packets as that takes.
func (h *hop) pass(w *sighted, long time.Duration) {
	h.t.Helper()
	sent := w.Status().Sent + uint64(long/(82*time.Millisecond))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2*long + 10*time.Second); w.Status().Sent < sent; <-tick.C {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain for packets: %+v", w.Status())
		}
	}
}

// bfddConfig is the router's side of the sessions.
func (h *hop) bfddConfig() string {
	text := "bfd\n profile fast\n  detect-multiplier 3\n  receive-interval 100\n  transmit-interval 100\n"
	for _, peer := range []string{
		ourIPv4,
		ourIPv6 + " local-address " + routerIPv6,
		ourLinkLocal + " local-address " + routerLinkLocal + " interface eth0",
	} {
		text += " peer " + peer + "\n  profile fast\n"
	}
	return text
}

// startRouter starts a daemon of FRR beside the switch.
func (h *hop) startRouter(daemon, config string) {
	h.t.Helper()
	file := filepath.Join(h.dir, daemon+".conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command("/usr/lib/frr/"+daemon, "-f", file, "-z", filepath.Join(h.dir, "zserv.api"),
		"-i", filepath.Join(h.dir, daemon+".pid"), "--vty_socket", h.dir, "-P", "0", "--log", "stdout")
	if daemon == "bfdd" {
		cmd.Args = append(cmd.Args, "--bfdctl", filepath.Join(h.dir, "bfdd.sock"))
	}
	cmd.Stdout, cmd.Stderr = h.log, h.log
	if err := h.spawner.Start(cmd); err != nil {
		h.t.Fatal(err)
	}
	h.router[daemon] = cmd
	// As the manager, so that what is looked at is the hop and not what else
	// this machine does.
	first := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(cmd.Process.Pid, first, 0); err != nil {
		h.t.Logf("%s runs as ordinary processes do: %v", daemon, err)
	}
	h.until(daemon+" answers", func() error {
		_, err := h.vtysh(daemon, "show version")
		return err
	})
}

func (h *hop) killRouter(daemon string) {
	if cmd := h.router[daemon]; cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		delete(h.router, daemon)
	}
}

func (h *hop) vtysh(daemon string, commands ...string) ([]byte, error) {
	args := []string{"--vty_socket", h.dir, "-d", daemon}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	var errs bytes.Buffer
	cmd := exec.Command("vtysh", args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%w: %s%s", err, errs.Bytes(), out)
	}
	return out, nil
}

// tell changes what the router has configured in a section under bfd.
func (h *hop) tell(section string, lines ...string) {
	h.t.Helper()
	commands := append([]string{"configure terminal", "bfd", section}, lines...)
	if out, err := h.vtysh("bfdd", commands...); err != nil {
		h.t.Fatalf("%v: %v %s", lines, err, out)
	}
}

// routerPeer is what the router says of a session.
type routerPeer struct {
	Peer             string `json:"peer"`
	Status           string `json:"status"`
	Diagnostic       string `json:"diagnostic"`
	RemoteDiagnostic string `json:"remote-diagnostic"`
	Receive          int    `json:"receive-interval"`
	Transmit         int    `json:"transmit-interval"`
	RemoteReceive    int    `json:"remote-receive-interval"`
	RemoteTransmit   int    `json:"remote-transmit-interval"`
	RemoteMult       int    `json:"remote-detect-multiplier"`
}

func (h *hop) routerSees(peer string) (routerPeer, error) {
	out, err := h.vtysh("bfdd", "show bfd peers json")
	if err != nil {
		return routerPeer{}, err
	}
	var peers []routerPeer
	if err := json.Unmarshal(out, &peers); err != nil {
		return routerPeer{}, fmt.Errorf("%w: %s", err, out)
	}
	for _, p := range peers {
		if p.Peer == peer {
			return p, nil
		}
	}
	return routerPeer{}, fmt.Errorf("the router has no peer %s: %s", peer, out)
}

// startManager runs BFD at this end.
func (h *hop) startManager() {
	h.t.Helper()
	h.do(h.here, func() (err error) {
		h.manager, err = bfd.New(bfd.Options{Realtime: true, Log: slog.New(slog.NewTextHandler(h.log, nil))})
		return err
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.here.Do(func() error { return h.manager.Run(ctx) }) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
		if h.t.Failed() {
			h.t.Log(h.log.tail())
		}
	})
}

// sighted is a session with its changes and when they came.
type sighted struct {
	*bfd.Handle
	mu      sync.Mutex
	changes []bfd.Change
	times   []time.Time
}

func (h *hop) add(c bfd.SessionConfig) *sighted {
	h.t.Helper()
	w := &sighted{}
	c.OnChange = func(change bfd.Change) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changes, w.times = append(w.changes, change), append(w.times, time.Now())
	}
	if c.Timers == (bfd.Timers{}) {
		c.Timers = hundredByThree
	}
	var err error
	if w.Handle, err = h.manager.Add(c); err != nil {
		h.t.Fatal(err)
	}
	return w
}

// last is the last change, and when it was told.
func (w *sighted) last() (bfd.Change, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changes) == 0 {
		return bfd.Change{}, time.Time{}
	}
	return w.changes[len(w.changes)-1], w.times[len(w.times)-1]
}

func (h *hop) until(what string, holds func() error) {
	h.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain: %s: %v\n%s", what, err, h.log.tail())
		}
	}
}

func (h *hop) is(w *sighted, want bfd.State) {
	h.t.Helper()
	h.until(fmt.Sprintf("%v is %v", w.Status().Peer, want), func() error {
		if got := w.State(); got != want {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

func address(text string) netip.Addr { return netip.MustParseAddr(text) }
