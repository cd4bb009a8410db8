package vrrp

import (
	"net/netip"
	"slices"
)

// concerns says whether an advert is for this virtual router (RFC 9568
// section 7.1, RFC 3768 section 7.1), and notes what is odd about it.
//
// Two rules are gentler than the RFCs', because a discarded advert makes a
// second holder, and a heeded one does not: lists of addresses that only
// overlap belong to one virtual router whose configuration is being rolled
// out, and a version 2 interval that differs is learned, as in version 3.
func (m *Machine) concerns(a *Advert, src netip.Addr) bool {
	switch {
	case a.VRID != m.cfg.VRID:
		m.emit(Note{Kind: NoteVRID, From: src})
		return false
	case a.Version != m.cfg.Version:
		m.emit(Note{Kind: NoteVersion, From: src})
		return false
	case !m.cfg.Family.has(src):
		m.emit(Note{Kind: NoteFamily, From: src})
		return false
	case src == m.cfg.Address:
		m.emit(Note{Kind: NoteEcho, From: src})
		return false
	}
	shared := m.shared(a.Addresses)
	if shared == 0 {
		m.emit(Note{Kind: NoteStranger, From: src})
		return false
	}
	if shared != len(m.cfg.Addresses) || shared != len(a.Addresses) {
		m.emit(Note{Kind: NoteAddresses, From: src})
	}
	if a.Interval != m.cfg.Interval {
		m.emit(Note{Kind: NoteInterval, From: src})
	}
	return true
}

// shared counts the addresses of an advert that are ours. The order does not
// matter; nobody's list is long.
func (m *Machine) shared(addresses []netip.Addr) int {
	n := 0
	for i, a := range addresses {
		if slices.Contains(m.cfg.Addresses, a) && !slices.Contains(addresses[:i], a) {
			n++
		}
	}
	return n
}

// beats says whether the sender of an advert wins against us when both are
// active (RFC 9568 section 6.4.3): by priority, then by address. Without an
// address of ours to compare, we give way: two that both insist would stay
// two for ever.
func (m *Machine) beats(a *Advert, src netip.Addr) bool {
	if a.Priority != m.priority {
		return a.Priority > m.priority
	}
	return !m.cfg.Address.IsValid() || m.cfg.Address.Less(src)
}
