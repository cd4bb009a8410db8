package vip

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/health"
)

// healthGate runs the checks of a group.
type healthGate struct {
	settings []HealthSettings
	checkers []atomic.Pointer[health.Checker]
	paths    *paths // for checks of kind bfd
	group    string
	log      *slog.Logger
}

func newHealthGate(g *GroupSettings, log *slog.Logger) *healthGate {
	return &healthGate{settings: g.Health, checkers: make([]atomic.Pointer[health.Checker], len(g.Health)), group: g.Name, log: log}
}

// run checks until ctx ends, and calls changed after each change.
func (h *healthGate) run(ctx context.Context, changed func()) {
	var all sync.WaitGroup
	for i := range h.settings {
		all.Go(func() { h.check(ctx, i, changed) })
	}
	all.Wait()
}

// retryCheck is how often credentials that are not there yet are looked for.
const retryCheck = 2 * time.Second

func (h *healthGate) check(ctx context.Context, i int, changed func()) {
	s, said := &h.settings[i], false
	tell := func(v health.Verdict) {
		h.log.Info("check", keyGroup, h.group, keyCheck, s.Name, keyState, v.Grade, keyReason, v.Reason)
		changed()
	}
	if s.Kind == kindBFD {
		h.paths.of(s).follow(tell)
		return
	}
	for ctx.Err() == nil {
		p, err := s.prober()
		if err != nil {
			if !said {
				said = true
				h.log.Warn("check cannot be made yet; it is tried again", keyGroup, h.group, keyCheck, s.Name, keyError, err)
			}
			pause(ctx, retryCheck)
			continue
		}
		c := health.NewChecker(p, s.timers(), tell)
		h.checkers[i].Store(c)
		c.Run(ctx)
	}
}

// of is what a check says.
func (h *healthGate) of(i int) health.Verdict {
	if s := &h.settings[i]; s.Kind == kindBFD && h.paths != nil {
		return h.paths.of(s).Verdict()
	}
	if c := h.checkers[i].Load(); c != nil {
		return c.Verdict()
	}
	return health.Verdict{}
}

// verdict returns why the group has to be given up, or "", and what the weights
// add to the priority. What has not been checked yet is not good, and not bad.
func (h *healthGate) verdict() (reason string, weight int) {
	for i := range h.settings {
		s, v := &h.settings[i], h.of(i)
		grade, why := v.Grade, v.Reason
		switch {
		case s.Weight > 0 && grade.Usable():
			weight += s.Weight
		case s.Weight < 0 && grade != health.Unknown && !grade.Usable():
			weight += s.Weight
		case s.Weight == 0 && !grade.Usable() && reason == "":
			reason = fmt.Sprintf("%s is %s", s.Name, grade)
			if why != "" {
				reason += ": " + why
			}
		}
	}
	return reason, weight
}

// CheckStatus is one check as it stands.
type CheckStatus struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Weight int    `json:"weight,omitempty"`
}

func (h *healthGate) status() []CheckStatus {
	all := make([]CheckStatus, 0, len(h.settings))
	for i := range h.settings {
		v := h.of(i)
		all = append(all, CheckStatus{Name: h.settings[i].Name, State: v.Grade.String(), Reason: v.Reason, Weight: h.settings[i].Weight})
	}
	return all
}
