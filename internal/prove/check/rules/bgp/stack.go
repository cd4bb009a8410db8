package bgp

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/stack"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Stack lists how routers notice that a machine which announces is gone.
func Stack(f *fact.Facts) []stack.Path {
	var all []stack.Path
	for _, s := range sessions(f) {
		d, ok := s.detector(f)
		if !ok {
			continue
		}
		all = append(all, stack.Path{
			Fault: "losing a machine that announces by BGP", Detectors: s.kept(d),
			Client: "the share of connections that the session of " + s.who + " with " + s.peer + " is for",
		})
	}
	return all
}

// detector is BFD where the session has it and its timers are known, and the hold
// time where it has none.
func (s session) detector(f *fact.Facts) (stack.Detector, bool) {
	d := stack.Detector{At: s.at}
	if !s.bfd {
		d.Name, d.Set, d.Window = "BGP: hold time of "+s.who, fmt.Sprintf("hold %s, keepalive %s", s.hold, s.keepalive), scenario.Hold(s.hold, s.keepalive)
		return d, true
	}
	multiplier, interval, how := s.watched(f)
	if multiplier == 0 {
		return d, false
	}
	d.Name, d.Set, d.Window = "BFD: "+s.who, fmt.Sprintf("%d × %s (%s)", multiplier, interval, how), scenario.BFD(multiplier, interval)
	return d, true
}

// kept adds graceful restart, by which the routers keep the routes of who is gone.
func (s session) kept(d stack.Detector) []stack.Detector {
	if s.stale == 0 || s.bfd {
		return []stack.Detector{d}
	}
	whole := scenario.GracefulRestart(d.Window, s.stale)
	stale := scenario.Window{Min: whole.Min - d.Window.Min, Max: whole.Max - d.Window.Max, Why: whole.Why[len(d.Window.Why):]}
	return []stack.Detector{d, {
		Name: "BGP: graceful restart of " + s.who, Set: fmt.Sprintf("restart time %s", s.stale), Window: stale, At: s.at,
	}}
}

// watched is the timers of a session's BFD and where they are from; 0 where they are
// in a place that is not read here.
func (s session) watched(f *fact.Facts) (multiplier int, interval time.Duration, how string) {
	switch {
	case s.file != nil:
		return s.frrTimers()
	case s.profile != "":
		return s.metallbTimers(f)
	}
	return 0, 0, "" // kube-vip's are microseconds, which a rule is about
}

// frrTimers are those of the neighbour in the section bfd, of its profile, or FRR's
// own. Both sides are taken to have the same.
func (s session) frrTimers() (multiplier int, interval time.Duration, how string) {
	multiplier, interval, how = defaultMultiplier, defaultInterval, "FRR's defaults"
	section := conf.FRR(s.file.Data).First("bfd")
	for _, name := range [][]string{{"profile", s.profile}, {"peer", s.peer}} {
		var block *conf.Block
		if section != nil && name[1] != "" {
			block = section.First(name...)
		}
		switch {
		case block == nil && name[0] == "profile" && s.profile != "":
			return 0, 0, "" // FRR waits for the profile to be made
		case block == nil:
			continue
		}
		multiplier = positive(block.First("detect-multiplier").Word(1), multiplier)
		rx := millis(block.First("receive-interval").Word(1), interval)
		interval, how = max(rx, millis(block.First("transmit-interval").Word(1), interval)), name[0]+" "+name[1]
	}
	return multiplier, interval, how
}

// metallbTimers are those of the BFDProfile, with MetalLB's defaults, which are FRR's.
func (s session) metallbTimers(f *fact.Facts) (multiplier int, interval time.Duration, how string) {
	for _, p := range f.CustomOf("metallb.io", "BFDProfile") {
		if p.At.Object.Name != s.profile {
			continue
		}
		get := func(key string) string { return fmt.Sprint(p.Object.Get("spec", key)) }
		rx := millis(get("receiveInterval"), defaultInterval)
		return positive(get("detectMultiplier"), defaultMultiplier), max(rx, millis(get("transmitInterval"), defaultInterval)), "BFDProfile " + s.profile
	}
	return 0, 0, ""
}

func millis(text string, or time.Duration) time.Duration {
	return time.Duration(positive(text, int(or/time.Millisecond))) * time.Millisecond
}

func positive(text string, or int) int {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n
	}
	return or
}
