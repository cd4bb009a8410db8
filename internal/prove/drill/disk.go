package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// slowDisks makes the disks of a step slow, and measures by what the members say
// themselves that they are.
func (e *engine) slowDisks(ctx context.Context, s scenario.Step) error {
	if len(s.SlowDisk) == 0 {
		return nil
	}
	before, err := e.diskTimes(ctx)
	if err != nil {
		return err
	}
	e.syncs = before
	for _, t := range s.SlowDisk {
		if err := e.each(t, func(p scenario.Process) error { return e.members[p].SlowDisk(s.Sync) }); err != nil {
			return err
		}
	}
	return e.awaitSlow(ctx, s)
}

// slowWithin is how long a member may take to tell of a slow sync: several that
// follow one another, and a machine that is busy.
func slowWithin(sync time.Duration) time.Duration { return 5*sync + 5*time.Second }

// awaitSlow waits until a sync of each struck member has taken its time. The first
// may have begun before the fault, so the latest two readings count.
func (e *engine) awaitSlow(ctx context.Context, s scenario.Step) error {
	for _, t := range s.SlowDisk {
		err := e.each(t, func(p scenario.Process) error {
			var took time.Duration
			var err error
			last := e.syncs[p]
			felt := until(ctx, slowWithin(s.Sync), func() bool {
				var now lab.Syncs
				if now, err = e.members[p].Syncs(ctx); err != nil || now.Count == last.Count {
					return false
				}
				took, last = now.Since(last), now
				return took >= s.Sync
			})
			if !felt {
				return fmt.Errorf("fault is not in force: %w", cmp.Or(err, fmt.Errorf("a sync took %s by the member's own word, not %s", took, s.Sync)))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cureDisks makes the disks of a step as fast as they are, and says what members
// measured meanwhile. A disk that was slow and not to be makes the run prove nothing.
func (e *engine) cureDisks(ctx context.Context, s scenario.Step) error {
	if len(s.SlowDisk) == 0 {
		return nil
	}
	now, err := e.diskTimes(ctx)
	var errs []error
	for _, t := range s.SlowDisk {
		errs = append(errs, e.each(t, func(p scenario.Process) error { return e.members[p].SlowDisk(0) }))
	}
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	e.noteDisks(s, now)
	return errors.Join(errs...)
}

// noteDisks compares what members said of their disks at the injection and now.
func (e *engine) noteDisks(s scenario.Step, now map[scenario.Process]lab.Syncs) {
	ev := record.Event{At: e.clock.now(), Source: "observer", Kind: record.KindDisk, Keys: map[string]string{}}
	var words []string
	for p, then := range now {
		mean := then.Since(e.syncs[p]).Round(100 * time.Microsecond)
		ev.Keys[p.String()] = mean.String()
		words = append(words, fmt.Sprintf("%s on %s", mean, p))
		if !slices.Contains(s.SlowDisk, p.String()) && mean >= s.Sync/2 {
			e.trouble("a sync took %s on %s, whose disk was not to be slow", mean, p)
		}
	}
	slices.Sort(words)
	ev.Message = "a sync took " + strings.Join(words, ", ")
	e.w.Event(ev)
}

// diskTimes asks every member that runs.
func (e *engine) diskTimes(ctx context.Context) (map[scenario.Process]lab.Syncs, error) {
	out := map[scenario.Process]lab.Syncs{}
	for p, m := range e.members {
		if m.Child() == nil {
			continue
		}
		s, err := m.Syncs(ctx)
		if err != nil {
			return nil, err
		}
		out[p] = s
	}
	return out, nil
}
