package drill

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
)

// askAddressEvery is how often everybody is asked who has the address, and
// ceasedAfter how many such questions in a row must stay without an answer of a
// machine before it has ceased to answer: one may be lost, or be late.
const (
	askAddressEvery = 10 * time.Millisecond
	ceasedAfter     = 6 * askAddressEvery
)

// spells tell who answers for an address. They are pure: answers in, events out.
type spells struct {
	// last is when a machine that answers did so for the last time.
	last map[string]time.Time
}

func newSpells() *spells { return &spells{last: map[string]time.Time{}} }

// heard takes one answer.
func (s *spells) heard(node string, at time.Time) []record.Event {
	_, known := s.last[node]
	s.last[node] = at
	if known {
		return nil
	}
	return []record.Event{{
		At: at, Source: "wire", Kind: record.KindAnswering, Keys: map[string]string{"node": node},
		Message: node + " answers for the address",
	}}
}

// lapse ends the spells of those that have not answered for a while. A spell ends
// with its last answer.
func (s *spells) lapse(now time.Time) []record.Event {
	var out []record.Event
	for _, node := range slices.Sorted(maps.Keys(s.last)) {
		if at := s.last[node]; now.Sub(at) > ceasedAfter {
			delete(s.last, node)
			out = append(out, record.Event{
				At: at, Source: "wire", Kind: record.KindCeased, Keys: map[string]string{"node": node},
				Message: node + " does not answer for the address any more",
			})
		}
	}
	return out
}

// answering lists who answers now.
func (s *spells) answering() []string { return slices.Sorted(maps.Keys(s.last)) }

// neighbourEvent is what somebody on the link believes of the address. It is
// stale when the machine that it leads to does not answer for it.
func neighbourEvent(at time.Time, who, believes string, answering []string) record.Event {
	stale := believes != "" && !slices.Contains(answering, believes)
	ev := record.Event{
		At: at, Source: "wire", Kind: record.KindNeighbour,
		Keys:    map[string]string{"who": who, "node": believes, "answering": strings.Join(answering, ","), "stale": fmt.Sprint(stale)},
		Message: fmt.Sprintf("%s sends packets for the address to %s", who, believes),
	}
	switch {
	case believes == "":
		ev.Message = who + " has no neighbour entry for the address"
	case stale:
		ev.Message += ", which does not answer for it"
	}
	return ev
}
