package pair

import (
	"slices"
	"sync"
	"time"
)

// historyLength is how many events an agent remembers.
const historyLength = 32

// Event is one change of what an agent does or knows.
type Event struct {
	Time   time.Time `json:"time"`
	Do     Action    `json:"do"`
	Why    string    `json:"why"`
	Record string    `json:"record"`
	Alarm  bool      `json:"alarm,omitempty"`
}

// history holds the last events, oldest first.
type history struct {
	mu     sync.Mutex
	events []Event
}

func (h *history) add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	if n := len(h.events); n > historyLength {
		h.events = slices.Delete(h.events, 0, n-historyLength)
	}
}

func (h *history) all() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}
