package source

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

// debounce gathers what several sources say at once, and the first list with
// the events right behind it, into one change.
const debounce = 50 * time.Millisecond

// rerun is the wait before a source is run again that ended though it should
// not have.
const rerun = 5 * time.Second

// Options are the settings of a Set.
type Options struct {
	// Name is the frontend's; it stands in log lines and in the state file.
	Name string
	// Static are the backends from the settings.
	Static []Backend
	// Sources discover backends. Facts of earlier ones win.
	Sources []Source
	// Listen are the balancer's own addresses, of all frontends, as
	// ParseAddress reads them: no backend may be one of them.
	Listen []string
	// StateFile keeps the last good list; empty means none is kept.
	StateFile string
	// Known is what a Set before this one knew (Set.Known), after a reload.
	// It wins over StateFile.
	Known []Listed
	// Log may be nil.
	Log *slog.Logger
}

// Set runs sources and makes one list of what they say. Its methods are safe
// for concurrent use.
type Set struct {
	options Options
	log     *slog.Logger
	state   *state
	nudge   chan struct{}

	mu   sync.Mutex
	book book
}

// NewSet reads the last good list. It does not fail: what is wrong with the
// state file or with entries stands in Status and in the log.
func NewSet(o Options) *Set {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{
		options: o, log: o.Log.With("frontend", o.Name),
		nudge: make(chan struct{}, 1), book: book{listen: o.Listen},
	}
	s.state = newState(o.StateFile, o.Name, s.log)
	known := o.Known
	if known == nil {
		known = s.state.load()
	}
	for _, src := range o.Sources {
		s.book.add(src.Name(), isTrusted(src), find(known, src.Name()))
	}
	s.book.static(o.Static, localAddresses())
	s.book.merge()
	return s
}

// trusted marks sources that only the operator writes.
type trusted interface{ trusted() }

func isTrusted(src Source) bool { _, ok := src.(trusted); return ok }

func find(lists []Listed, name string) Listed {
	for _, l := range lists {
		if l.Name == name {
			return l
		}
	}
	return Listed{Standing: LastGood}
}

// localAddresses are asked for at each answer: interfaces come and go.
func localAddresses() []net.Addr {
	all, _ := net.InterfaceAddrs()
	return all
}

// Run runs the sources until ctx ends, and returns its cause. changed is told
// the list that there is at the start, unless it is empty, and each that
// differs from the one before; never two at once.
func (s *Set) Run(ctx context.Context, changed func([]Backend)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.state.run(ctx) })
	if current := s.Current(); len(current) > 0 {
		s.tell(nil, current)
		changed(current)
	}
	for _, src := range s.options.Sources {
		wg.Go(func() { s.follow(ctx, src) })
	}
	for {
		select {
		case <-s.nudge:
			wait(ctx, debounce)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if ctx.Err() == nil {
			s.update(changed)
		}
	}
}

// follow runs one source for ever.
func (s *Set) follow(ctx context.Context, src Source) {
	publish := func(list []Backend) {
		local := localAddresses()
		s.mu.Lock()
		s.book.publish(src.Name(), list, local)
		s.mu.Unlock()
		select {
		case s.nudge <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		err := src.Run(ctx, publish)
		if ctx.Err() == nil {
			s.log.Error("backend source ended; running it again", "source", src.Name(), "error", err)
			wait(ctx, rerun)
		}
	}
}

func (s *Set) update(changed func([]Backend)) {
	s.mu.Lock()
	before := s.book.result
	differs := s.book.merge()
	after, known := slices.Clone(s.book.result), s.book.known()
	s.mu.Unlock()
	s.state.save(known)
	if differs {
		s.tell(before, after)
		changed(after)
	}
}

// tell logs a change of the list: one line with what came and went.
func (s *Set) tell(before, after []Backend) {
	var added, removed []string
	for _, b := range after {
		if !contains(before, b) {
			added = append(added, b.ID())
		}
	}
	for _, b := range before {
		if !contains(after, b) {
			removed = append(removed, b.ID())
		}
	}
	s.log.Info("backends listed", "count", len(after), "added", added, "removed", removed)
}

func contains(list []Backend, b Backend) bool {
	return slices.ContainsFunc(list, func(x Backend) bool { return x.ID() == b.ID() })
}

// Current returns the list as of now, sorted by ID.
func (s *Set) Current() []Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.book.result)
}

// Known returns what discovery found, for Options.Known of a successor.
func (s *Set) Known() []Listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.known()
}

// Status returns one row for the static list, one for each source, and one for
// the state file when it is kept.
func (s *Set) Status() []Status {
	rows := map[string]Status{}
	for _, src := range s.options.Sources {
		rows[src.Name()] = src.Status()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status
	for _, e := range s.book.lists {
		row, ok := rows[e.Name]
		if !ok {
			row = Status{Name: e.Name, OK: true}
		}
		row.Backends = len(e.Backends)
		row.Rejected += e.rejected
		row.Reasons = append(slices.Clone(row.Reasons), e.reasons...)
		row.Reasons = row.Reasons[:min(len(row.Reasons), maxReasons)]
		all = append(all, row)
	}
	if row, ok := s.state.status(); ok {
		all = append(all, row)
	}
	return all
}

// wait returns after d or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
