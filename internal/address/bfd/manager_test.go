package bfd

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// patient timers survive a machine that is busy with something else.
func patient() Timers {
	return Timers{DesiredMinTx: 20 * ms, RequiredMinRx: 20 * ms, DetectMult: 200}
}

// journal is a log that a test can read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), text)
}

// host is a manager on an address of the loopback.
type host struct {
	*Manager
	address netip.Addr
	log     *journal
	cancel  context.CancelFunc
	ended   chan struct{}
}

func newHost(t *testing.T, address string) *host {
	t.Helper()
	h := &host{address: netip.MustParseAddr(address), log: &journal{}, ended: make(chan struct{})}
	m, err := New(Options{Listen: []netip.Addr{h.address}, Log: slog.New(slog.NewTextHandler(h.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.Manager, h.cancel = m, cancel
	go func() {
		defer close(h.ended)
		if err := m.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-h.ended
	})
	return h
}

// add adds a session with other and returns its changes.
func (h *host) add(t *testing.T, other *host, timers Timers) (*Handle, chan Change) {
	t.Helper()
	changes := make(chan Change, 100)
	s, err := h.Add(SessionConfig{Peer: other.address, Local: h.address, Timers: timers, OnChange: func(c Change) { changes <- c }})
	if err != nil {
		t.Fatal(err)
	}
	return s, changes
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * ms)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func pair(t *testing.T, a, b string) (x, y *host, onX, onY *Handle, ofX, ofY chan Change) {
	t.Helper()
	x, y = newHost(t, a), newHost(t, b)
	onX, ofX = x.add(t, y, patient())
	onY, ofY = y.add(t, x, patient())
	eventually(t, "both up", func() bool { return onX.State() == Up && onY.State() == Up })
	return x, y, onX, onY, ofX, ofY
}

func drained(changes chan Change) (all []string) {
	for {
		select {
		case c := <-changes:
			all = append(all, c.From.String()+">"+c.To.String())
		default:
			return all
		}
	}
}

func TestTwoManagersComeUpAndPart(t *testing.T) {
	x, y, onX, onY, ofX, ofY := pair(t, "127.58.80.1", "127.58.80.2")
	eventually(t, "timers agreed", func() bool {
		s := onX.Status()
		return s.TxInterval == 20*ms && s.Detection == 200*20*ms && s.Remote == Up
	})
	s, r := onX.Status(), onY.Status()
	if s.Discr == 0 || s.RemoteDiscr != r.Discr || s.Ups != 1 || s.Failures != 0 || s.Received == 0 || s.Since.IsZero() {
		t.Errorf("%+v", s)
	}
	began := time.Now()
	onX.Remove()
	eventually(t, "y down", func() bool { return onY.State() == Down })
	eventually(t, "x told", func() bool { return len(ofX) >= 2 })
	if all := drained(ofX); !slices.Equal(all[len(all)-1:], []string{"Up>AdminDown"}) {
		t.Errorf("x: %v", all)
	}
	eventually(t, "y told", func() bool { return len(ofY) >= 2 })
	if s := onY.Status(); s.Failures != 0 || s.Diag != DiagNeighborDown || s.RemoteDiag != DiagAdminDown {
		t.Errorf("y: %+v", s)
	}
	eventually(t, "x forgets", func() bool { return len(x.all()) == 0 })
	t.Logf("parted after %v", time.Since(began))
	again, _ := x.add(t, y, patient())
	eventually(t, "up again", func() bool { return again.State() == Up && onY.State() == Up })
}

func TestEndOfRunTellsThePeers(t *testing.T) {
	x, _, onX, onY, _, _ := pair(t, "127.58.81.1", "127.58.81.2")
	x.cancel()
	<-x.ended
	if port := onX.sender.port; port < 49152 || port > 65535 {
		t.Errorf("sent from port %d, RFC 5881 wants 49152 to 65535", port)
	}
	if s := onY.Status(); s.State != Down || s.RemoteDiag != DiagAdminDown || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := x.Add(SessionConfig{Peer: x.address, Timers: patient()}); err != ErrClosed {
		t.Errorf("got %v", err)
	}
}

func TestAdminDownAndTimersWhileRunning(t *testing.T) {
	_, _, onX, onY, _, _ := pair(t, "127.58.82.1", "127.58.82.2")
	slow := Timers{DesiredMinTx: 60 * ms, RequiredMinRx: 40 * ms, DetectMult: 100}
	if err := onX.SetTimers(slow); err != nil {
		t.Fatal(err)
	}
	eventually(t, "new timers agreed", func() bool {
		x, y := onX.Status(), onY.Status()
		return x.TxInterval == 60*ms && x.RxInterval == 40*ms && y.TxInterval == 40*ms && y.Detection == 100*60*ms
	})
	if onX.Status().Ups != 1 || onY.Status().Ups != 1 {
		t.Error("the session did not stay up")
	}
	onX.SetAdminDown(true)
	eventually(t, "y down", func() bool { return onY.State() == Down && onX.State() == AdminDown })
	onX.SetAdminDown(false)
	eventually(t, "up again", func() bool { return onY.State() == Up && onX.State() == Up })
	if err := onX.SetTimers(Timers{}); err == nil {
		t.Error("timers of 0 are accepted")
	}
}

// TestLateLoopDrainsBeforeItJudges holds the loop of x for more than its
// detection time while the peer goes on sending.
func TestLateLoopDrainsBeforeItJudges(t *testing.T) {
	x, y := newHost(t, "127.58.83.1"), newHost(t, "127.58.83.2")
	// y is detected by x after 3 packets, x by y after 200.
	onX, _ := x.add(t, y, patient())
	onY, _ := y.add(t, x, Timers{DesiredMinTx: 60 * ms, RequiredMinRx: 20 * ms, DetectMult: 3})
	eventually(t, "timers agreed", func() bool { return onX.Status().Detection == 180*ms && onY.Status().Remote == Up })
	ups := onX.Status().Ups
	onX.mu.Lock()
	sent, began := onY.Status().Sent, time.Now()
	eventually(t, "y sends on", func() bool { return onY.Status().Sent > sent+6 })
	onX.mu.Unlock()
	took := time.Since(began)
	sent = onY.Status().Sent
	eventually(t, "y sends on", func() bool { return onY.Status().Sent > sent+3 })
	if s := onX.Status(); s.State != Up || s.Ups != ups || s.Failures != 0 {
		t.Errorf("after %v without its loop: %+v", took, s)
	}
	if h := x.Health(); h.Late == 0 || h.Latest < 100*ms {
		t.Errorf("late by %v, but its health says %+v", took, h)
	}
}

func TestStampsOfAClockThatWasSet(t *testing.T) {
	for _, c := range []struct{ stamp, want time.Duration }{
		{1050 * ms, 1050 * ms}, // as it was
		{-time.Hour, time.Second},
		{time.Hour, 1100 * ms},
	} {
		if got := arrived(c.stamp, time.Second, 1100*ms); got != c.want {
			t.Errorf("a stamp of %v becomes %v, want %v", c.stamp, got, c.want)
		}
	}
}

// forge sends a packet to h by hand.
func forge(t *testing.T, h *host, from string, ttl int, payload []byte) {
	t.Helper()
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from+":0")), net.UDPAddrFromAddrPort(netip.AddrPortFrom(h.address, Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = set(int(fd), []option{{0, 2, ttl}}) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(payload); err != nil {
		t.Fatal(err)
	}
}

func TestForeignPacketsChangeNothingAndAreCounted(t *testing.T) {
	x, y, onX, onY, _, _ := pair(t, "127.58.84.1", "127.58.84.2")
	mine, theirs := onX.Status().Discr, onY.Status().Discr
	down := Packet{State: Down, DetectMult: 3, MyDiscr: theirs, YourDiscr: mine, DesiredMinTx: time.Second, RequiredMinRx: time.Second}
	authenticated := down.Append(nil)
	authenticated[1] |= flagAuthentication
	unknown := down
	unknown.YourDiscr = mine + 1
	unasked := down
	unasked.YourDiscr = 0
	peer, stranger := y.address.String(), "127.58.84.9"
	for range 3 {
		forge(t, x, peer, 254, down.Append(nil))
		forge(t, x, peer, 255, authenticated)
		forge(t, x, peer, 255, unknown.Append(nil))
		forge(t, x, stranger, 255, down.Append(nil))
		forge(t, x, stranger, 255, unasked.Append(nil))
		forge(t, x, peer, 255, []byte("short"))
	}
	want := map[Reason]uint64{ReasonTTL: 3, ReasonAuthentication: 3, ReasonSession: 6, ReasonSource: 3, ReasonLength: 3}
	eventually(t, "all counted", func() bool {
		got := x.Health().Dropped
		return !slices.ContainsFunc(Reasons[:], func(r Reason) bool { return got[r] != want[r] })
	})
	s := onX.Status()
	if s.State != Up || s.Failures != 0 || s.Dropped[ReasonTTL] != 3 || s.Dropped[ReasonSession] != 3 || s.Dropped[ReasonSource] != 0 {
		t.Errorf("%+v", s)
	}
	for text, n := range map[string]int{"reason=ttl": 1, "reason=authentication": 1, "reason=length": 1, "reason=session": 0, "from=127.58.84.9": 1} {
		if got := x.log.count(text); got != n {
			t.Errorf("%d lines with %s, want %d", got, text, n)
		}
	}
}

func TestMistakesAreOneLineWithARemedy(t *testing.T) {
	x := newHost(t, "127.58.85.1")
	if _, err := New(Options{Listen: []netip.Addr{x.address}}); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("got %v", err)
	}
	good := SessionConfig{Peer: netip.MustParseAddr("127.58.85.2"), Timers: patient()}
	if _, err := x.Add(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*SessionConfig){
		"peer: missing":                           func(c *SessionConfig) { c.Peer = netip.Addr{} },
		"peer: 224.0.0.1 is not":                  func(c *SessionConfig) { c.Peer = netip.MustParseAddr("224.0.0.1") },
		"peer: 127.58.85.2 has a session":         func(c *SessionConfig) {},
		"interface: missing, but peer fe80::1":    func(c *SessionConfig) { c.Peer = netip.MustParseAddr("fe80::1") },
		"peer: zone of fe80::1%a and interface b": func(c *SessionConfig) { c.Peer, c.Interface = netip.MustParseAddr("fe80::1%a"), "b" },
		"local: fd00::1 and peer":                 func(c *SessionConfig) { c.Local = netip.MustParseAddr("fd00::1") },
		"interface: \"sixteen-letters-\" is":      func(c *SessionConfig) { c.Interface = "sixteen-letters-" },
		"peer 127.58.85.2: detect-mult":           func(c *SessionConfig) { c.Timers.DetectMult = 0 },
	} {
		c := good
		change(&c)
		if _, err := x.Add(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s…", err, want)
		}
	}
}

func TestMissingInterfaceIsOneLine(t *testing.T) {
	x := newHost(t, "127.58.86.1")
	h, err := x.Add(SessionConfig{Peer: netip.MustParseAddr("127.58.86.2"), Interface: "nowhere0", Timers: patient()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "two attempts", func() bool { return h.Status().SendErrors >= 2 })
	if s := h.Status(); !strings.Contains(s.Trouble, "nowhere0") || s.State != Down {
		t.Errorf("%+v", s)
	}
	if got := x.log.count("cannot send BFD packet"); got != 1 {
		t.Errorf("%d lines, want 1", got)
	}
}
