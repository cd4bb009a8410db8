package vip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/holdfast-ha/holdfast/internal/address/announce/bgp"
	"github.com/holdfast-ha/holdfast/internal/address/announce/route"
)

// routing is what tells routers of addresses: one speaker of BGP, one table of
// routes and one loop of BFD for a process, each only where settings want it.
type routing struct {
	log     *slog.Logger
	paths   *paths
	speaker *bgp.Speaker
	table   *route.Table
}

// announces says whether any group or pool is announced that way.
func (s *Settings) announces(what string) bool {
	if s.Services != nil && slices.ContainsFunc(s.Services.Pools, func(p PoolSettings) bool { return slices.Contains(p.Announce, what) }) {
		return true
	}
	return slices.ContainsFunc(s.Groups, func(g GroupSettings) bool { return g.announces(what) })
}

// openRouting opens what the settings want. What an earlier run left in the table
// of routes is gone then.
func openRouting(s *Settings, log *slog.Logger) (*routing, error) {
	r := &routing{log: log}
	if err := r.open(s); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *routing) open(s *Settings) (err error) {
	if r.paths, err = openPaths(s, r.log); err != nil {
		return err
	}
	if s.announces(announceBGP) {
		o := bgp.Options{Log: r.log}
		if r.paths != nil {
			o.BFD = r.paths
		}
		if r.speaker, err = bgp.New(*s.BGP, o); err != nil {
			return fmt.Errorf("bgp: %w", err)
		}
	}
	if s.announces(announceRoute) {
		o := *s.Route
		o.Log = r.log
		if r.table, err = route.Open(o); err != nil {
			return fmt.Errorf("route: %w", err)
		}
	}
	return nil
}

// of are the announcers of a group, besides ARP.
func (r *routing) of(g *GroupSettings) []Announcer {
	var all []Announcer
	if g.announces(announceBGP) {
		all = append(all, r.speaker)
	}
	if g.announces(announceRoute) {
		all = append(all, r.table)
	}
	return all
}

// run speaks until ctx ends, and then takes leave of the routers. BFD outlasts
// BGP, or its end would look like that of the path.
func (r *routing) run(ctx context.Context) {
	outlasting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var all, last sync.WaitGroup
	start := func(g *sync.WaitGroup, what string, f func() error) {
		g.Go(func() {
			if err := f(); err != nil {
				r.log.Error(what+" has ended", keyError, err)
			}
		})
	}
	if r.paths != nil {
		start(&last, "BFD", func() error { return r.paths.run(outlasting) })
	}
	if r.speaker != nil {
		start(&all, "BGP", func() error { return r.speaker.Run(ctx) })
	}
	if r.table != nil {
		start(&all, "the table of routes", func() error { return r.keepTable(ctx) })
	}
	<-ctx.Done()
	all.Wait()
	end()
	last.Wait()
}

// keepTable has the table follow what others do to it.
func (r *routing) keepTable(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := r.table.Run(ctx); err != nil {
			r.log.Warn("changes of routes are not followed; it is tried again", keyError, err)
			pause(ctx, retryHold)
		}
	}
	return nil
}

// end gives back what outlasts run.
func (r *routing) end() error {
	if r.table == nil {
		return nil
	}
	return r.table.Close()
}

// close gives up what did not run.
func (r *routing) close() error {
	if r.paths != nil {
		r.paths.close()
	}
	if r.speaker != nil {
		r.speaker.Close()
	}
	return r.end()
}
