package bgp

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

func testConfig() *peerConfig {
	return &peerConfig{
		address: netip.MustParseAddr("192.0.2.1"), as: 65001, ours: 65010, hold: 30 * time.Second,
		four: true, six: true, pref: 100,
	}
}

// bench is a session with a hand on everything around it.
type bench struct {
	t   *testing.T
	s   *session
	now time.Duration
	log []string
}

func newBench(t *testing.T, c *peerConfig) *bench {
	return &bench{t: t, s: newSession(c, netip.MustParseAddr("192.0.2.2"), rand.New(rand.NewPCG(1, 2)))}
}

// did writes actions down, and checks what the shell would.
func (b *bench) did(actions []Action) *bench {
	for _, a := range actions {
		switch a := a.(type) {
		case Dial:
			b.log = append(b.log, map[bool]string{false: "dial", true: "dial now"}[a.Urgent])
		case Send:
			b.log = append(b.log, fmt.Sprintf("send %d %s", a.Line, name(a.Message)))
		case Hangup:
			b.log = append(b.log, fmt.Sprintf("hang up %d", a.Line))
		case Change:
			text := fmt.Sprintf("%v to %v", a.From, a.To)
			if a.Cause.Kind != "" {
				text += " for " + string(a.Cause.Kind)
			}
			b.log = append(b.log, text)
		case Trouble:
			b.log = append(b.log, "trouble "+string(a.Cause.Kind))
		}
	}
	return b
}

func name(m *packet.BGPMessage) string {
	switch body := m.Body.(type) {
	case *packet.BGPOpen:
		return "OPEN"
	case *packet.BGPNotification:
		return fmt.Sprintf("NOTIFICATION %d/%d", body.ErrorCode, body.ErrorSubcode)
	case *packet.BGPUpdate:
		if end, _ := body.IsEndOfRib(); end {
			return "end of routes"
		}
		if len(body.NLRI) == 0 && len(body.WithdrawnRoutes) > 0 {
			return "withdrawal"
		}
		return "update"
	}
	return "KEEPALIVE"
}

// saw checks what was done since the last time.
func (b *bench) saw(want ...string) *bench {
	b.t.Helper()
	if !slices.Equal(b.log, want) {
		b.t.Fatalf("got:  %s\nwant: %s", strings.Join(b.log, ", "), strings.Join(want, ", "))
	}
	b.log = nil
	return b
}

func (b *bench) after(d time.Duration) *bench {
	b.now += d
	return b.did(b.s.tick(b.now))
}

func (b *bench) hears(l Line, m *packet.BGPMessage) *bench {
	data, err := m.Serialize()
	if err != nil {
		b.t.Fatal(err)
	}
	back, err := packet.ParseBGPMessage(data)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.did(b.s.received(b.now, l, back, nil))
}

func (b *bench) opened(inbound bool) *bench {
	_, actions := b.s.opened(b.now, inbound, Local{Four: netip.MustParseAddr("192.0.2.2"), Six: netip.MustParseAddr("2001:db8::2")})
	return b.did(actions)
}

// open is the peer's OPEN.
func open(t *testing.T, as uint32, id string, edit ...func(*peerConfig)) *packet.BGPMessage {
	t.Helper()
	p := testConfig()
	p.ours, p.hold = as, 9*time.Second
	for _, f := range edit {
		f(p)
	}
	m, err := opening(p, netip.MustParseAddr(id))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func keepalive() *packet.BGPMessage { return packet.NewBGPKeepAliveMessage() }

// up brings the session up on line 1.
func (b *bench) up() *bench {
	b.t.Helper()
	b.did(b.s.start(b.now)).opened(false).hears(1, open(b.t, 65001, "192.0.2.1")).hears(1, keepalive())
	if b.s.state != Established {
		b.t.Fatalf("it is %v: %v", b.s.state, b.log)
	}
	b.log = nil
	return b
}

func TestComesUp(t *testing.T) {
	b := newBench(t, testConfig())
	b.did(b.s.set(map[netip.Prefix]bool{netip.MustParsePrefix(anycast4): false, netip.MustParsePrefix(anycast6): true})).saw()
	b.did(b.s.start(0)).saw("dial", "idle to connect")
	b.opened(false).saw("send 1 OPEN", "connect to open-sent")
	b.hears(1, open(t, 65001, "192.0.2.1")).saw("send 1 KEEPALIVE", "open-sent to open-confirm")
	b.hears(1, keepalive()).saw("open-confirm to established", "send 1 update", "send 1 update", "send 1 end of routes", "send 1 end of routes")
	// Hold is the smaller of both, 9 s: a sign of life within 3 s.
	b.after(2 * time.Second).saw()
	b.after(time.Second).saw("send 1 KEEPALIVE")
	b.did(b.s.set(nil)).saw("send 1 withdrawal", "send 1 update")
	b.after(3 * time.Second).saw("send 1 KEEPALIVE")
	b.after(3*time.Second).saw("send 1 NOTIFICATION 4/0", "hang up 1", "established to active for hold")
	b.after(firstWait).saw("dial", "active to connect")
}

func TestRoutesAreAskedForAgain(t *testing.T) {
	b := newBench(t, testConfig()).up()
	b.did(b.s.set(map[netip.Prefix]bool{netip.MustParsePrefix(anycast4): false, netip.MustParsePrefix(anycast6): false}))
	b.saw("send 1 update", "send 1 update")
	b.hears(1, packet.NewBGPRouteRefreshMessage(packet.AFI_IP6, 0, packet.SAFI_UNICAST)).saw("send 1 update")
}

// TestRefusals: each is one trouble, and tried again after a pause that grows.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer *packet.BGPMessage
		config func(*peerConfig)
		sent   string
		kind   Kind
	}{
		{"wrong AS", open(t, 65002, "192.0.2.1"), nil, "NOTIFICATION 2/2", WrongAS},
		{"own AS refused", packet.NewBGPNotificationMessage(2, 2, nil), nil, "", RefusedAS},
		{"same identifier", open(t, 65010, "192.0.2.2"), func(p *peerConfig) { p.as = 65010 }, "NOTIFICATION 2/3", SameID},
		{"no family", open(t, 65001, "192.0.2.1", func(p *peerConfig) { p.four = false }), func(p *peerConfig) { p.six = false }, "NOTIFICATION 2/7", NoFamily},
		{"shutdown", packet.NewBGPNotificationMessage(6, 2, communication("maintenance")), nil, "", Shutdown},
		{"too many prefixes", packet.NewBGPNotificationMessage(6, 1, nil), nil, "", Refused},
		{"KEEPALIVE instead of OPEN", keepalive(), nil, "NOTIFICATION 5/1", Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := testConfig()
			if c.config != nil {
				c.config(p)
			}
			b := newBench(t, p)
			b.did(b.s.start(0))
			var pauses []time.Duration
			for i := range 8 {
				b.opened(false)
				b.log = nil
				line := Line(i + 1)
				b.hears(line, c.answer)
				var want []string
				if c.sent != "" {
					want = append(want, fmt.Sprintf("send %d %s", line, c.sent))
				}
				want = append(want, fmt.Sprintf("hang up %d", line), "open-sent to active")
				if i == 0 {
					want = append(want, "trouble "+string(c.kind))
				}
				b.saw(want...)
				pauses = append(pauses, b.s.due()-b.now)
				b.after(b.s.due()-b.now).saw("dial", "active to connect")
			}
			for i, p := range pauses {
				if most := min(refusedMost, refusedWait<<i); p > most || p < most*3/4 {
					t.Errorf("pause %d is %v, want about %v", i, p, most)
				}
			}
		})
	}
}

// TestAway: a peer that is away is dialed every second at least.
func TestAway(t *testing.T) {
	b := newBench(t, testConfig())
	b.did(b.s.start(0)).saw("dial", "idle to connect")
	b.did(b.s.unreachable(b.now, Cause{Kind: NoAnswer})).saw("connect to active", "trouble no-answer")
	for range 20 {
		if d := b.s.due() - b.now; d > awayMost {
			t.Fatalf("waits %v", d)
		}
		b.after(b.s.due()-b.now).saw("dial", "active to connect")
		b.did(b.s.unreachable(b.now, Cause{Kind: NoAnswer})).saw("connect to active")
	}
	b.did(b.s.pathUp(b.now)).saw("dial now", "active to connect")
	b.did(b.s.unreachable(b.now, Cause{Kind: NoPort})).saw("connect to active", "trouble no-port")
}

// TestBlip: after a session that has lasted, the next try comes at once.
func TestBlip(t *testing.T) {
	b := newBench(t, testConfig()).up()
	for range 3 {
		b.after(3 * time.Second)
		b.hears(1, keepalive())
	}
	b.after(2 * time.Second)
	b.log = nil
	b.did(b.s.pathDown(b.now)).saw("send 1 NOTIFICATION 6/10", "hang up 1", "established to active for bfd")
	if d := b.s.due() - b.now; d > firstWait {
		t.Errorf("waits %v", d)
	}
	b.did(b.s.pathDown(b.now)).saw()
	// One that comes and goes is tried ever less often.
	for i := range 8 {
		b.after(b.s.due() - b.now).opened(false)
		line := Line(i + 2)
		b.hears(line, open(t, 65001, "192.0.2.1")).hears(line, keepalive())
		b.after(time.Second)
		b.did(b.s.closed(b.now, line, Cause{Kind: Closed}))
	}
	if d := b.s.due() - b.now; d < shortMost*3/4 || d > shortMost {
		t.Errorf("after eight short sessions: waits %v", d)
	}
}

// TestCollision is RFC 4271 section 6.8 with both outcomes.
func TestCollision(t *testing.T) {
	for _, c := range []struct {
		id      string
		outlive Line // 1 was dialed here, 2 by the peer
	}{{"192.0.2.1", 1}, {"192.0.2.3", 2}} {
		for _, first := range []Line{1, 2} {
			b := newBench(t, testConfig())
			b.did(b.s.start(0)).opened(false).opened(true)
			b.hears(first, open(t, 65001, c.id))
			b.log = nil
			b.hears(3-first, open(t, 65001, c.id))
			loser := 3 - c.outlive
			if got := strings.Join(b.log, ", "); !strings.Contains(got, fmt.Sprintf("send %d NOTIFICATION 6/7, hang up %d", loser, loser)) {
				t.Errorf("identifier %s, OPEN of %d first: %s", c.id, first, got)
			}
			b.log = nil
			b.hears(c.outlive, keepalive())
			if b.s.established() == nil || b.s.established().id != c.outlive {
				t.Errorf("identifier %s, OPEN of %d first: %d is not established: %v", c.id, first, c.outlive, b.log)
			}
			b.log = nil
			b.opened(true).saw("send 3 NOTIFICATION 6/5", "hang up 3")
		}
	}
}

func TestStop(t *testing.T) {
	b := newBench(t, testConfig()).up()
	b.did(b.s.stop(b.now, "the agent ends")).saw("send 1 NOTIFICATION 6/2", "hang up 1", "established to idle for stopped")
	b.after(time.Hour).saw()
	b.did(b.s.pathUp(b.now)).saw()
	b.opened(true).saw("send 2 NOTIFICATION 6/5", "hang up 2")
	b.did(b.s.start(b.now)).saw("dial", "idle to connect")
}

// TestMute: a peer that takes the connection and says nothing.
func TestMute(t *testing.T) {
	b := newBench(t, testConfig())
	b.did(b.s.start(0)).opened(false)
	b.log = nil
	b.after(patience).saw("send 1 NOTIFICATION 4/0", "hang up 1", "open-sent to active", "trouble mute")
}
