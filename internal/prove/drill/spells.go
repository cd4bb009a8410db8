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
// unansweredFor how many such questions in a row must stay without an answer of a
// machine before it has ceased to answer: one may be lost, or be late. Questions
// count, not time, since an observer that stood still has not asked.
const (
	askAddressEvery = 10 * time.Millisecond
	unansweredFor   = 6
)

// spells tell who answers for an address. They are pure: questions and answers in,
// events out.
type spells struct {
	// last is when a machine that answers did so for the last time, unanswered how
	// many questions were asked since.
	last       map[string]time.Time
	unanswered map[string]int
}

func newSpells() *spells { return &spells{last: map[string]time.Time{}, unanswered: map[string]int{}} }

// heard takes one answer.
func (s *spells) heard(node string, at time.Time) []record.Event {
	_, known := s.last[node]
	s.last[node], s.unanswered[node] = at, 0
	if known {
		return nil
	}
	return []record.Event{{
		At: at, Source: "wire", Kind: record.KindAnswering, Keys: map[string]string{"node": node},
		Message: node + " answers for the address",
	}}
}

// asked takes one question to all, and ends the spells of those that have not
// answered for a while. A spell ends with its last answer.
func (s *spells) asked() []record.Event {
	var out []record.Event
	for _, node := range slices.Sorted(maps.Keys(s.last)) {
		at := s.last[node]
		if s.unanswered[node]++; s.unanswered[node] > unansweredFor {
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
// stale when the machine that it leads to does not answer for it, and another does.
func neighbourEvent(at time.Time, who, believes string, answering []string) record.Event {
	stale := believes != "" && len(answering) > 0 && !slices.Contains(answering, believes)
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
