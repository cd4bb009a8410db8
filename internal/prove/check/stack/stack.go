package stack

import (
	"slices"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Detector is one thing that notices a fault, or the end of what another one has
// begun.
type Detector struct {
	// Name says who notices, and by what: "keepalived: adverts of VI_1".
	Name string
	// Set says which timers it has, or whose defaults: "advert_int 1s, priority 100".
	Set string
	// Window counts from the end of the detector before it.
	Window scenario.Window
	// At is where the timers stand, or what has the defaults.
	At fact.Location
}

// Path is what stands between one fault and one kind of client.
type Path struct {
	// Fault is what happens: "losing the machine that has 10.0.0.100".
	Fault string
	// Client is who waits, and what they do meanwhile.
	Client string
	// Detectors are in the order in which they act; there is at least one.
	Detectors []Detector
}

// Window is how long the client waits: its detectors, one after the other.
func (p Path) Window() scenario.Window {
	w := p.Detectors[0].Window
	for _, d := range p.Detectors[1:] {
		w = w.Then(d.Window)
	}
	return w
}

// Slowest keeps, of paths that have the same fault and client, the one with the
// longest window: that is how long a client may have to wait. Paths of the same fault
// come together; the order stays otherwise.
func Slowest(paths []Path) []Path {
	var all []Path
	for _, p := range paths {
		i := slices.IndexFunc(all, func(x Path) bool { return x.Fault == p.Fault && x.Client == p.Client })
		switch {
		case i < 0:
			all = append(all, p)
		case p.Window().Max > all[i].Window().Max:
			all[i] = p
		}
	}
	first := map[string]int{}
	for i, p := range all {
		if _, seen := first[p.Fault]; !seen {
			first[p.Fault] = i
		}
	}
	slices.SortStableFunc(all, func(a, b Path) int { return first[a.Fault] - first[b.Fault] })
	return all
}
