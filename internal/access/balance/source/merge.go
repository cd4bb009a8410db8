package source

import (
	"maps"
	"slices"
	"strings"
)

// Standing says how far a list can be relied on.
type Standing int8

const (
	// Static is from settings: it stands as long as they do.
	Static Standing = iota
	// Confirmed is what a discovery last answered.
	Confirmed
	// LastGood is what a discovery answered before a restart, or before it
	// answered nothing. Unverified; it demotes no other.
	LastGood
)

func (s Standing) String() string {
	return [...]string{"static", "confirmed", "last good"}[s]
}

// lastGood stands for the source of a backend that only LastGood lists have.
const lastGood = "last good"

// Listed is what one source lists.
type Listed struct {
	Name     string
	Standing Standing
	Backends []Backend // without duplicates
}

// Merge unites lists by address and returns the result sorted by ID. Facts of
// an earlier list win over those of a later one, field by field where the
// earlier has none. When nothing is left, the previous result stays, marked
// "last good": the result is empty only if there never was a backend. Pure;
// the arguments are not changed.
func Merge(lists []Listed, previous []Backend) []Backend {
	m := merger{all: map[string]*Backend{}, discovered: map[string]bool{}}
	for _, l := range lists {
		for _, b := range l.Backends {
			m.add(l, b)
		}
	}
	if len(m.all) == 0 {
		return stay(previous)
	}
	var result []Backend
	for _, id := range slices.SortedFunc(maps.Keys(m.all), compareIDs) {
		b := *m.all[id]
		b.Demoted = m.confirms && !m.discovered[id]
		if b.Source == "" {
			b.Source = lastGood
		}
		result = append(result, b)
	}
	return result
}

type merger struct {
	all        map[string]*Backend
	discovered map[string]bool // by any but static lists
	confirms   bool            // some confirmed list has a backend
}

func (m *merger) add(l Listed, b Backend) {
	b.Demoted, b.Source = false, ""
	switch l.Standing {
	case Confirmed:
		if b.Terminating && !b.Serving {
			return // on its way out and no longer able: as good as not listed
		}
		m.confirms = true
	default:
		b.Serving, b.Terminating = true, false
	}
	if l.Standing != LastGood {
		b.Source = l.Name
	}
	id := b.ID()
	if l.Standing != Static {
		m.discovered[id] = true
	}
	if old, ok := m.all[id]; ok {
		old.combine(b)
	} else {
		m.all[id] = &b
	}
}

// combine takes over what the other list knows in addition.
func (b *Backend) combine(other Backend) {
	fill(&b.Zone, other.Zone)
	fill(&b.Node, other.Node)
	fill(&b.Name, other.Name)
	fill(&b.Weight, other.Weight)
	fill(&b.MaxConns, other.MaxConns)
	b.Backup = b.Backup || other.Backup
	b.Serving = b.Serving && other.Serving
	b.Terminating = b.Terminating || other.Terminating
	if other.Source != "" && !slices.Contains(strings.Split(b.Source, ", "), other.Source) {
		b.Source = strings.TrimPrefix(b.Source+", "+other.Source, ", ")
	}
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// stay marks a list that nobody confirms any more.
func stay(previous []Backend) []Backend {
	kept := slices.Clone(previous)
	for i := range kept {
		kept[i].Source, kept[i].Demoted = lastGood, false
	}
	return kept
}

// compareIDs orders the lengths of digits away: no more than a stable order
// for people is needed, so plain comparison does.
func compareIDs(a, b string) int { return strings.Compare(a, b) }
