package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

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
	router               *daemons
	manager              *bfd.Manager
	log                  *buffer
}

func newHop(t *testing.T) *hop {
	t.Helper()
	needFRR(t)
	h := &hop{t: t, log: &buffer{}}
	for _, s := range []**space.Space{&h.here, &h.between, &h.there} {
		var err error
		if *s, err = space.New(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*s).Close() })
	}
	h.router = newFRR(t, h.there)
	h.do(h.between, func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "switch"}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		return netlink.LinkSetUp(bridge)
	})
	h.plug("here", h.here, ourMAC, ourIPv4, ourIPv6)
	h.plug("there", h.there, routerMAC, routerIPv4, routerIPv6)
	return h
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

// tell changes what the router has configured in a section under bfd.
func (h *hop) tell(section string, lines ...string) {
	h.t.Helper()
	commands := append([]string{"configure terminal", "bfd", section}, lines...)
	if out, err := h.router.vtysh("bfdd", commands...); err != nil {
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
	out, err := h.router.vtysh("bfdd", "show bfd peers json")
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
	until(h.t, what, holds)
}

// until waits for what has to come.
func until(t *testing.T, what string, holds func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s: %v", what, err)
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
