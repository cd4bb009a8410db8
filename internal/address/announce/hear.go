package announce

import (
	"fmt"
	"net/netip"
	"time"
)

// Kind says what was heard about a watched address.
type Kind int

const (
	// Claim is a frame that says that another station has the address.
	Claim Kind = iota
	// Probe is the question whether the address is free: another station is
	// about to take it (RFC 5227, RFC 4862).
	Probe
)

func (k Kind) String() string {
	if k == Probe {
		return "probe"
	}
	return "claim"
}

// Heard is something that another station said about a watched address.
type Heard struct {
	Address netip.Addr
	MAC     MAC
	Kind    Kind
	At      time.Time // when it was read, with a monotonic clock
}

// InUse is the error of Speaker.Probe: a stranger has the address.
type InUse struct {
	Address   netip.Addr
	MAC       MAC
	Interface string
}

func (e *InUse) Error() string {
	return fmt.Sprintf("address %s is in use by %s on %s: refused; choose another address or take it away from that machine", e.Address, e.MAC, e.Interface)
}

// heardARP judges an ARP packet. Only the sender fields make a claim: the
// target of somebody's question says nothing.
func heardARP(a ARP) (addr netip.Addr, mac MAC, kind Kind, ok bool) {
	if a.IsProbe() {
		return a.Target, a.SenderMAC, Probe, true
	}
	return a.Sender, a.SenderMAC, Claim, !a.Sender.IsUnspecified()
}

// heardNeighbor judges a neighbor message: an advertisement claims its target,
// a solicitation its source, unless it is a probe. Without the option the
// frame's own address speaks (RFC 4861 section 7.2.4 allows its omission).
func heardNeighbor(n Neighbor) (addr netip.Addr, mac MAC, kind Kind, ok bool) {
	mac = n.LinkLayer
	if mac == (MAC{}) {
		mac = n.From
	}
	switch {
	case n.Type == Advertisement:
		return n.Target, mac, Claim, true
	case n.IsProbe():
		return n.Target, mac, Probe, true
	}
	return n.Source, mac, Claim, true
}
