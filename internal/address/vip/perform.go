package vip

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/gate"
	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// perform does what the routers decided at now.
func (o *owner) perform(now time.Duration, steps []vrrp.Step) {
	// What is done may decide more, which would overwrite the list.
	for _, s := range slices.Clone(steps) {
		m := o.members[s.Member]
		switch a := s.Action.(type) {
		case vrrp.Become:
			o.become(m, now, a)
		case vrrp.Send:
			o.send(m, now, a.Priority)
		case vrrp.Announce:
			m.holder.Again()
		case vrrp.Note:
			o.note(m, a)
		}
	}
}

func (o *owner) become(m *member, now time.Duration, b vrrp.Become) {
	m.group.next = string(b.Cause)
	was := m.state
	m.state = b.State
	switch {
	case b.State == vrrp.Active:
		m.spell++
		o.take(m, now)
	case b.State == vrrp.Yielding:
		m.holder.Yield()
	case m.virtual.Name != "":
		// Switches know the virtual hardware address to be where they have just
		// heard it from: a word of ours would call the packets back.
		o.drop(m)
	case was == vrrp.Active && b.Cause == vrrp.CauseSuperior:
		// The better router may not have heard of us, and its clients believe the
		// last who spoke: one more advert has it announce the addresses.
		o.send(m, now, o.router.Member(m.place).Priority())
		o.fade(m)
	case was.Holds() && b.Cause == vrrp.CauseHandedOver:
		o.fade(m)
	default:
		o.drop(m)
	}
}

// fade stops answering in a moment, unless the addresses are taken again.
func (o *owner) fade(m *member) {
	m.holder.Yield()
	o.glow(m, m.spell, o.now(), m.holder.afterglow(m.router.Interval))
}

// glow answers on for a while, and until the other holder, whose advert was heard at
// heard, has announced the addresses. Of ours that comes before the advert; of others
// it may come after, and late: keepalived adds its addresses in between. Never for
// more than half an advert.
func (o *owner) glow(m *member, spell uint64, heard, while time.Duration) {
	o.fading.Add(1)
	time.AfterFunc(while, func() {
		o.inbox.put(func(now time.Duration) {
			o.fading.Add(-1)
			announced := m.claimed != 0 && m.claimed > heard-m.router.Interval
			switch {
			case m.spell != spell:
			case !announced && m.group.settings.announces(announceARP) && now-heard < m.router.Interval/2:
				o.glow(m, spell, heard, afterglow)
			default:
				o.drop(m)
			}
		})
	})
}

func (o *owner) drop(m *member) {
	m.spell++
	if err := m.holder.Drop(); err != nil {
		o.agent.log.Warn("address not removed; the gate keeps it mute", keyGroup, m.group.settings.Name, keyError, err)
	}
}

// take makes the addresses answer. Whoever cannot is no holder.
func (o *owner) take(m *member, now time.Duration) {
	begun := o.origin.Add(now)
	err := m.holder.Take(begun, m.term())
	switch {
	case err == nil:
		o.agent.stats.took(m.group.settings.Name, time.Since(begun))
	case errors.Is(err, gate.ErrLate):
		// This process stood still; the router will notice by itself.
		o.agent.log.Warn("address not taken", keyGroup, m.group.settings.Name, keyError, err)
	default:
		o.inbox.put(func(time.Duration) { o.failed(m, err) })
	}
}

// retryHold is how long after a failure to hold an address it is tried again.
const retryHold = time.Second

func (o *owner) failed(m *member, err error) {
	o.fault(m, faultHold, err.Error())
	time.AfterFunc(retryHold, func() {
		o.inbox.put(func(time.Duration) { o.fault(m, faultHold, "") })
	})
}

// send sends an advert and renews the gate for three intervals. An advert that
// this process comes to send late would unseat whoever took over meanwhile.
func (o *owner) send(m *member, now time.Duration, priority uint8) {
	if late := o.now() - now; late > m.router.Interval {
		o.agent.log.Warn("advert not sent: too late", keyGroup, m.group.settings.Name, keyLate, late)
		return
	}
	if m.socket != nil && m.source.IsValid() {
		err := m.socket.Send(o.router.Member(m.place).Advert(priority), m.source)
		if o.said(m, "send", err) {
			o.agent.log.Warn("advert not sent", keyGroup, m.group.settings.Name, keyError, err)
		}
		if err == nil {
			m.sent[priority]++
		} else {
			// Our own address may be gone, which nothing else tells of in time:
			// others hear nothing, and take over.
			o.inbox.put(func(time.Duration) { o.look() })
		}
	}
	if !o.router.Member(m.place).State().Holds() {
		return
	}
	if err := m.holder.Renew(m.term()); err != nil {
		o.reopen(m, now, err)
	}
}

// reopen opens a gate that fell shut although the router still holds: somebody
// removed the rules, or this process was slow.
func (o *owner) reopen(m *member, now time.Duration, cause error) {
	err := m.holder.Take(o.origin.Add(now), m.term())
	if o.said(m, "reopen", err) {
		o.agent.log.Warn("gate not opened again; it is tried with each advert", keyGroup, m.group.settings.Name, keyCause, cause, keyError, err)
	}
	m.reopened++
}

// said says whether an error is to be logged: not the same one again.
func (o *owner) said(m *member, what string, err error) bool {
	key := m.group.settings.Name + "/" + m.router.Family.Multicast().String() + "/" + what
	if err == nil {
		delete(o.noted, key)
		return false
	}
	was := o.noted[key]
	o.noted[key] = true
	return !was
}

// clashes are notes that a person has to do something about.
var clashes = map[vrrp.NoteKind]string{
	vrrp.NoteStranger:  "another virtual router has our VRID with other addresses; give one of them another vrid",
	vrrp.NoteVersion:   "a router speaks another VRRP version with our VRID; set version to that of the peers",
	vrrp.NoteAddresses: "a peer has another list of addresses; make them equal",
	vrrp.NoteInterval:  "a peer has another interval; make them equal",
	vrrp.NoteOwner:     "another router says it owns the addresses; one may",
}

func (o *owner) note(m *member, n vrrp.Note) {
	if n.Kind == vrrp.NoteVRID {
		return // other virtual routers on the link are nobody's fault
	}
	m.notes[n.Kind]++
	text := clashes[n.Kind]
	key := m.group.settings.Name + "/" + string(n.Kind) + "/" + n.From.String()
	switch {
	case n.Kind == vrrp.NoteLapsed:
		o.agent.log.Warn("this process stood still, and holds nothing any more", keyGroup, m.group.settings.Name, keyLate, n.Late)
	case text != "" && !o.noted[key]:
		o.noted[key] = true
		o.agent.log.Warn(text, keyGroup, m.group.settings.Name, keyFrom, n.From)
	}
}

// source is our address on the interface, for adverts and between equals.
func (o *owner) setSource(m *member, a netip.Addr) {
	if a == m.source {
		return
	}
	m.source = a
	o.router.Member(m.place).SetAddress(a)
}
