package link

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Interface is the state of one.
type Interface struct {
	Index   int
	Name    string
	MAC     string
	Up      bool // by the administrator
	Carrier bool // by the wire
}

// Kind says what has changed.
type Kind string

// The changes that a Watcher reports.
const (
	Appeared    Kind = "appeared"
	Gone        Kind = "gone"
	Renamed     Kind = "renamed"
	WentUp      Kind = "went up"
	WentDown    Kind = "went down"
	CarrierUp   Kind = "carrier up"
	CarrierDown Kind = "carrier down"
	NewMAC      Kind = "new hardware address"
	// AddressThere and AddressGone are of watched addresses. Gone is told
	// whoever removed it: the agent, the end of its lifetime, or a stranger.
	AddressThere Kind = "address there"
	AddressGone  Kind = "address gone"
)

// Event is a change.
type Event struct {
	Kind Kind
	// Interface is its state after the change, or the last one before it went.
	Interface Interface
	// Before is the former name of one that was renamed.
	Before string
	// Address is set for changes of an address.
	Address netip.Addr
}

// String is the event in words, for a log line.
func (e Event) String() string {
	switch {
	case e.Address.IsValid():
		return fmt.Sprintf("%s %s on %s", e.Kind, e.Address, e.Interface.Name)
	case e.Kind == Renamed:
		return fmt.Sprintf("interface %s renamed to %s", e.Before, e.Interface.Name)
	}
	return fmt.Sprintf("interface %s %s", e.Interface.Name, e.Kind)
}

// view is what a Watcher knows, and turns news into events. It is pure.
type view struct {
	names      []string // asked for
	watched    map[netip.Addr]bool
	interfaces map[int]Interface // with one of the names, now or before
	addresses  map[place]bool
}

// place is an address on an interface; one address may be on several.
type place struct {
	index int
	addr  netip.Addr
}

func newView(names []string, addrs []netip.Addr) *view {
	v := &view{names: names, watched: map[netip.Addr]bool{}, interfaces: map[int]Interface{}, addresses: map[place]bool{}}
	for _, a := range addrs {
		v.watched[a] = true
	}
	return v
}

// present takes in that an interface is there, in this state.
func (v *view) present(now Interface) []Event {
	was, known := v.interfaces[now.Index]
	if !known && !slices.Contains(v.names, now.Name) {
		return nil
	}
	v.interfaces[now.Index] = now
	if !known {
		return []Event{{Kind: Appeared, Interface: now}}
	}
	var events []Event
	add := func(changed bool, k Kind) {
		if changed {
			events = append(events, Event{Kind: k, Interface: now})
		}
	}
	if was.Name != now.Name {
		events = append(events, Event{Kind: Renamed, Interface: now, Before: was.Name})
	}
	add(was.MAC != now.MAC, NewMAC)
	add(!was.Up && now.Up, WentUp)
	add(was.Up && !now.Up, WentDown)
	add(!was.Carrier && now.Carrier, CarrierUp)
	add(was.Carrier && !now.Carrier, CarrierDown)
	return events
}

// absent takes in that an interface is gone, and its addresses with it: the
// kernel tells of them before, but those messages may be lost.
func (v *view) absent(index int) []Event {
	was, known := v.interfaces[index]
	if !known {
		return nil
	}
	var events []Event
	for _, p := range v.places() {
		if p.index == index {
			events = append(events, v.lost(p)...)
		}
	}
	delete(v.interfaces, index)
	was.Up, was.Carrier = false, false
	return append(events, Event{Kind: Gone, Interface: was})
}

// places lists the addresses in a fixed order.
func (v *view) places() []place {
	return slices.SortedFunc(maps.Keys(v.addresses), func(a, b place) int {
		if a.index != b.index {
			return a.index - b.index
		}
		return a.addr.Compare(b.addr)
	})
}

// found takes in that an address is on an interface.
func (v *view) found(p place) []Event {
	if !v.watched[p.addr] || v.addresses[p] {
		return nil
	}
	v.addresses[p] = true
	return []Event{{Kind: AddressThere, Address: p.addr, Interface: v.at(p.index)}}
}

// lost takes in that it is not there any more.
func (v *view) lost(p place) []Event {
	if !v.addresses[p] {
		return nil
	}
	delete(v.addresses, p)
	return []Event{{Kind: AddressGone, Address: p.addr, Interface: v.at(p.index)}}
}

// at describes an interface that may not be one of those asked for.
func (v *view) at(index int) Interface {
	if i, ok := v.interfaces[index]; ok {
		return i
	}
	return Interface{Index: index, Name: fmt.Sprintf("interface %d", index)}
}

// replace takes in a whole list, for the beginning and after lost messages.
func (v *view) replace(interfaces []Interface, entries []Entry) []Event {
	var events []Event
	there, addressed := map[int]bool{}, map[place]bool{}
	for _, i := range interfaces {
		there[i.Index] = true
	}
	for _, e := range entries {
		addressed[place{e.Index, e.Prefix.Addr()}] = true
	}
	for _, index := range slices.Sorted(maps.Keys(v.interfaces)) {
		if !there[index] {
			events = append(events, v.absent(index)...)
		}
	}
	for _, i := range interfaces {
		events = append(events, v.present(i)...)
	}
	for _, p := range v.places() {
		if !addressed[p] {
			events = append(events, v.lost(p)...)
		}
	}
	for _, e := range entries {
		events = append(events, v.found(place{e.Index, e.Prefix.Addr()})...)
	}
	return events
}
