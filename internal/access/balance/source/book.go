package source

import (
	"net"
	"slices"
)

// book remembers what each source said and makes one list of it. It has no
// clock and no goroutine.
type book struct {
	listen []string // of the balancer itself
	lists  []*entry // static first, then in order of the settings
	result []Backend
}

// entry is what one source said last, and what was wrong with it.
type entry struct {
	Listed
	trusted  bool
	rejected uint64
	reasons  []string
}

// add makes room for a source; known is its last good list, or nil.
func (b *book) add(name string, trusted bool, known Listed) {
	if known.Standing == Static {
		known.Standing = LastGood
	}
	b.lists = append(b.lists, &entry{Listed: Listed{name, known.Standing, known.Backends}, trusted: trusted})
}

// static puts the list from the settings first.
func (b *book) static(list []Backend, local []net.Addr) {
	e := &entry{Listed: Listed{Name: "static"}, trusted: true}
	b.lists = append([]*entry{e}, b.lists...)
	e.take(list, b.rules(e, local))
	e.Standing = Static
}

// publish takes the answer of a source. An empty one, also one of which
// nothing is usable, leaves the list before it, unconfirmed.
func (b *book) publish(name string, list []Backend, local []net.Addr) {
	if e := b.entry(name); e != nil {
		e.take(list, b.rules(e, local))
	}
}

func (e *entry) take(list []Backend, r rules) {
	good, reasons := r.vet(list)
	e.rejected += uint64(len(reasons))
	e.reasons = reasons[:min(len(reasons), maxReasons)]
	if len(good) == 0 {
		e.Standing = LastGood
		return
	}
	e.Standing, e.Backends = Confirmed, good
}

func (b *book) entry(name string) *entry {
	for _, e := range b.lists {
		if e.Name == name {
			return e
		}
	}
	return nil
}

func (b *book) rules(e *entry, local []net.Addr) rules {
	r := rules{trusted: e.trusted, own: ownIDs(b.listen, local), known: map[string]bool{}}
	for _, old := range e.Backends {
		r.known[old.ID()] = true
	}
	return r
}

// merge brings the result up to date and says whether it changed.
func (b *book) merge() bool {
	var lists []Listed
	for _, e := range b.lists {
		lists = append(lists, e.Listed)
	}
	result := Merge(lists, b.result)
	changed := !slices.Equal(result, b.result)
	b.result = result
	return changed
}

// known returns what was found by discovery, for the file and for a successor.
func (b *book) known() []Listed {
	var lists []Listed
	for _, e := range b.lists {
		if e.Standing != Static && len(e.Backends) > 0 {
			lists = append(lists, e.Listed)
		}
	}
	return lists
}
