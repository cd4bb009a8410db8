package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// received is a message from the peer, or one that cannot be read.
func (s *session) received(now time.Duration, id Line, m *packet.BGPMessage, bad *packet.MessageError) []Action {
	l := s.lines[id]
	if l == nil {
		return nil
	}
	if bad != nil {
		c := Cause{Kind: Malformed, Text: bad.Message}
		return append(s.lost(now, l, note(bad.TypeCode, bad.SubTypeCode, bad.Data), c), s.settle(c)...)
	}
	var actions []Action
	if n, ok := m.Body.(*packet.BGPNotification); ok {
		actions = s.lost(now, l, nil, told(n, s.config))
	} else {
		switch l.state {
		case OpenSent:
			actions = s.openSent(now, l, m)
		case OpenConfirm:
			actions = s.openConfirm(now, l, m)
		default:
			actions = s.exchange(now, l, m)
		}
	}
	return append(actions, s.settle(Cause{})...)
}

// openSent is RFC 4271 section 8.2.2, OpenSent: OPEN is awaited.
func (s *session) openSent(now time.Duration, l *line, m *packet.BGPMessage) []Action {
	o, ok := m.Body.(*packet.BGPOpen)
	if !ok {
		return s.unexpected(now, l, 1)
	}
	a := agree(s.config, o)
	if m, c := s.check(o, a); m != nil {
		return s.lost(now, l, m, c)
	}
	loser := s.collision(l, a)
	if loser == l {
		return s.lost(now, l, note(packet.BGP_ERROR_CEASE, packet.BGP_ERROR_SUB_CONNECTION_COLLISION_RESOLUTION, nil), Cause{})
	}
	l.state, l.agreed = OpenConfirm, a
	s.heard(now, l)
	s.beat(now, l)
	actions := []Action{Send{l.id, packet.NewBGPKeepAliveMessage()}}
	if loser != nil {
		actions = append(actions, s.lost(now, loser, note(packet.BGP_ERROR_CEASE, packet.BGP_ERROR_SUB_CONNECTION_COLLISION_RESOLUTION, nil), Cause{})...)
	}
	return actions
}

// collision is RFC 4271 section 6.8: of two lines whose OPEN has come, the one
// stays that was dialed by the router with the higher identifier, or AS where
// they are the same (RFC 6286 section 2.3). It returns the other, or nil.
func (s *session) collision(l *line, a Agreed) *line {
	for _, other := range s.ordered() {
		switch {
		case other == l || other.state < OpenConfirm:
		case other.state == Established:
			return l
		default:
			order := s.routerID.Compare(a.RouterID)
			if ours := order > 0 || order == 0 && s.config.ours > a.AS; ours == l.inbound {
				return l
			}
			return other
		}
	}
	return nil
}

// check is RFC 4271 section 6.2: nil, or how the OPEN is refused.
func (s *session) check(o *packet.BGPOpen, a Agreed) (*packet.BGPMessage, Cause) {
	const open = packet.BGP_ERROR_OPEN_MESSAGE_ERROR
	switch {
	case o.Version != 4:
		return note(open, packet.BGP_ERROR_SUB_UNSUPPORTED_VERSION_NUMBER, []byte{0, 4}), Cause{Kind: Malformed, Text: fmt.Sprintf("version %d", o.Version)}
	case a.AS != s.config.as:
		return note(open, packet.BGP_ERROR_SUB_BAD_PEER_AS, nil), Cause{Kind: WrongAS, AS: a.AS}
	case !a.RouterID.IsValid() || a.RouterID.IsUnspecified() || a.RouterID == s.routerID && s.config.internal():
		return note(open, packet.BGP_ERROR_SUB_BAD_BGP_IDENTIFIER, nil), Cause{Kind: SameID, Text: a.RouterID.String()}
	case o.HoldTime == 1 || o.HoldTime == 2:
		return note(open, packet.BGP_ERROR_SUB_UNACCEPTABLE_HOLD_TIME, nil), Cause{Kind: Malformed, Text: fmt.Sprintf("hold time %d", o.HoldTime)}
	case !a.Four && !a.Six:
		return note(open, packet.BGP_ERROR_SUB_UNSUPPORTED_CAPABILITY, nil), Cause{Kind: NoFamily}
	}
	return nil, Cause{}
}

// openConfirm is RFC 4271 section 8.2.2, OpenConfirm: KEEPALIVE is awaited.
func (s *session) openConfirm(now time.Duration, l *line, m *packet.BGPMessage) []Action {
	if m.Header.Type != packet.BGP_MSG_KEEPALIVE {
		return s.unexpected(now, l, 2)
	}
	s.heard(now, l)
	l.state, l.since = Established, now
	s.backoff.up()
	actions := s.settle(Cause{})
	// What was dialed beside it is not needed any more.
	for _, other := range s.ordered() {
		if other != l {
			actions = append(actions, s.lost(now, other, note(packet.BGP_ERROR_CEASE, packet.BGP_ERROR_SUB_CONNECTION_COLLISION_RESOLUTION, nil), Cause{})...)
		}
	}
	actions = append(actions, s.flush(l)...)
	// RFC 4724 section 2: no more to come, so that a router that waits with its
	// choice need not wait longer.
	for _, f := range l.agreed.families() {
		actions = append(actions, Send{l.id, packet.NewEndOfRib(f)})
	}
	return actions
}

// exchange is RFC 4271 section 8.2.2, Established. Routes of the peer are of no
// use here, and not even read.
func (s *session) exchange(now time.Duration, l *line, m *packet.BGPMessage) []Action {
	switch m.Header.Type {
	case packet.BGP_MSG_OPEN:
		return s.unexpected(now, l, 3)
	case packet.BGP_MSG_ROUTE_REFRESH:
		r, ok := m.Body.(*packet.BGPRouteRefresh)
		if !ok || r.Demarcation != 0 {
			break
		}
		for p := range s.routes.sent {
			if p.Addr().Is4() == (r.AFI == packet.AFI_IP) {
				delete(s.routes.sent, p)
			}
		}
		s.heard(now, l)
		return s.flush(l)
	}
	s.heard(now, l)
	return nil
}

// unexpected is a message that does not belong into the state, RFC 6608.
func (s *session) unexpected(now time.Duration, l *line, subcode uint8) []Action {
	return s.lost(now, l, note(packet.BGP_ERROR_FSM_ERROR, subcode, nil), Cause{Kind: Malformed, Text: "a message out of turn"})
}

// families are those agreed on.
func (a Agreed) families() []packet.Family {
	var all []packet.Family
	if a.Four {
		all = append(all, packet.RF_IPv4_UC)
	}
	if a.Six {
		all = append(all, packet.RF_IPv6_UC)
	}
	return all
}

// routes are what is announced: a prefix, and whether peers are asked to prefer
// others (GRACEFUL_SHUTDOWN).
type routes struct{ want, sent map[netip.Prefix]bool }

// set announces prefixes, in place of those before.
func (s *session) set(want map[netip.Prefix]bool) []Action {
	s.routes.want = want
	if l := s.established(); l != nil {
		return s.flush(l)
	}
	return nil
}

// batch keeps a message of IPv6 prefixes, with all communities that settings may
// have, within 4096 octets.
const batch = 100

// flush sends what the peer does not know yet.
func (s *session) flush(l *line) []Action {
	var actions []Action
	// emit sends a list and says whether the peer knows of it.
	emit := func(list []netip.Prefix, build func([]netip.Prefix) (*packet.BGPMessage, error)) bool {
		for part := range slices.Chunk(list, batch) {
			m, err := build(part)
			if err != nil {
				if c := (Cause{Kind: NoNextHop, Text: err.Error()}); s.told != c.String() {
					s.told = c.String()
					actions = append(actions, Trouble{c})
				}
				return false
			}
			actions = append(actions, Send{l.id, m})
		}
		return true
	}
	for _, four := range []bool{true, false} {
		if four && !l.agreed.Four || !four && !l.agreed.Six {
			continue
		}
		var gone []netip.Prefix
		news := map[bool][]netip.Prefix{}
		for p := range s.routes.sent {
			if _, ok := s.routes.want[p]; !ok && p.Addr().Is4() == four {
				gone = append(gone, p)
			}
		}
		for p, gshut := range s.routes.want {
			if old, ok := s.routes.sent[p]; p.Addr().Is4() == four && (!ok || old != gshut) {
				news[gshut] = append(news[gshut], p)
			}
		}
		slices.SortFunc(gone, netip.Prefix.Compare)
		if emit(gone, withdrawal) {
			for _, p := range gone {
				delete(s.routes.sent, p)
			}
		}
		for _, gshut := range []bool{false, true} {
			slices.SortFunc(news[gshut], netip.Prefix.Compare)
			build := func(list []netip.Prefix) (*packet.BGPMessage, error) {
				return update(s.config, l.agreed, l.local, list, gshut)
			}
			if emit(news[gshut], build) {
				for _, p := range news[gshut] {
					s.routes.sent[p] = gshut
				}
			}
		}
	}
	return actions
}
