package vip

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/link"
	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
	"github.com/holdfast-ha/holdfast/internal/address/vip/wire"
	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// Why a member cannot serve. Each stands until it is taken back.
const (
	faultInterface = "interface"
	faultSocket    = "socket"
	faultProbe     = "probe"
	faultInUse     = "address in use"
	faultHold      = "hold"
	faultHealth    = "health"
)

// member is one virtual router: the addresses of one family of a group.
type member struct {
	place  int // in the owner's vrrp.Group
	group  *group
	router vrrp.Config
	// virtual is the interface with the virtual hardware address, if any.
	virtual link.Virtual
	holder  *presence
	facts   hold.Facts
	source  netip.Addr // of our adverts
	socket  *wire.Socket
	opened  int // index of the interface that the socket is on
	end     context.CancelFunc
	faults  map[string]string
	// state is the last one that was acted on; spell counts the times that we
	// began or ended to answer.
	state vrrp.State
	spell uint64
	heard time.Duration // when an advert of this virtual router was heard last
	// claimed is when another was last heard announcing the addresses; 0: never.
	claimed time.Duration
	sent    map[uint8]uint64
	got     uint64
	// reopened counts gates that fell shut while the router still held.
	reopened uint64
	notes    map[vrrp.NoteKind]uint64
	// explained are the refused adverts that a line was written about.
	explained map[string]bool
	// rejected are counters of sockets that are gone.
	rejected map[vrrp.Reason]uint64
}

func (m *member) down() time.Duration {
	// RFC 9568 section 6.1, with the longest skew.
	return 4 * m.router.Interval
}

func (m *member) term() time.Duration { return 3 * m.router.Interval }

// own chooses our primary address of the family.
func (m *member) own() netip.Addr {
	if m.router.Family == vrrp.IPv6 {
		return m.facts.Six
	}
	return m.facts.Four
}

func (m *member) reason() string { return reasons(m.faults) }

// reasons joins faults for people.
func reasons(faults map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(faults)) {
		all = append(all, fmt.Sprintf("%s: %s", k, faults[k]))
	}
	return strings.Join(all, "; ")
}

// shut closes the socket of an interface that is gone or has changed.
func (m *member) shut() {
	if m.socket == nil {
		return
	}
	m.end()
	for r, n := range m.socket.Rejected() {
		m.rejected[r] += n
	}
	_ = m.socket.Close()
	m.socket, m.opened = nil, 0
}
