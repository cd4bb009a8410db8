package health

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var times = flag.Int("schedules", 1, "run so many times as many random schedules")

// schedules runs f with many random sources; a failure names its seed. The
// Judge has no goroutine for the race detector to watch.
func schedules(t *testing.T, n int, f func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	n *= *times
	if raceEnabled {
		n /= 20
	}
	for seed := range uint64(n) {
		f(t, rand.New(rand.NewPCG(seed, 3)))
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

// between draws a duration, to the millisecond below.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

func within(r *rand.Rand, least, most time.Duration) func() time.Duration {
	return func() time.Duration { return between(r, least, most) }
}

func (w *world) fail(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Errorf(format+"\n%s", append(args, w.transcript())...)
}

// TestCalm: no change of grade while every answer comes within 800 ms, or
// while the server stands still for 700 ms at a time.
func TestCalm(t *testing.T) {
	schedules(t, 2000, func(t *testing.T, r *rand.Rand) {
		s := server{rtt: between(r, 0, 5*ms), answer: within(r, 0, 790*ms), secure: within(r, 0, 200*ms)}
		if r.IntN(2) == 0 {
			s.answer, s.secure = within(r, 0, 80*ms), within(r, 0, 10*ms)
			for at := between(r, 0, time.Second); at < 30*time.Second; at += between(r, 1500*ms, 4*time.Second) {
				s.segments = append(s.segments, segment{at, frozen}, segment{at + between(r, 10*ms, 700*ms), well})
			}
		}
		w := newWorld(t, Default(), r.Float64(), s)
		w.run(30 * time.Second)
		if g := w.grades(); len(g) != 1 || g[0].Grade != Ready {
			w.fail(t, "changed its grade: %v", g)
		}
		if w.begun > 80 {
			w.fail(t, "%d probes in 30 s", w.begun)
		}
	})
}

// TestFaultIsFound: whatever the phase, a lasting fault changes the grade in
// time and to the right one, and is suspected in time.
func TestFaultIsFound(t *testing.T) {
	faults := []struct {
		mode             mode
		grade            Grade
		suspect, certain time.Duration
	}{
		{frozen, Frozen, 1400 * ms, 2100 * ms},
		{blackholed, Unreachable, 1400 * ms, 2100 * ms},
		{failing, NotReady, 1400 * ms, 1500 * ms},
		{parting, ShuttingDown, 1100 * ms, 1100 * ms},
		{refusing, Refused, ms, 30 * ms},
	}
	var worst [8]time.Duration
	schedules(t, 4000, func(t *testing.T, r *rand.Rand) {
		f := faults[r.IntN(len(faults))]
		at := between(r, 12*time.Second, 14*time.Second)
		s := server{rtt: between(r, 0, 5*ms), answer: within(r, 0, 60*ms), segments: []segment{{at, f.mode}}}
		slow := r.IntN(3) == 0 && f.grade <= Frozen && f.grade != Refused
		if slow {
			s.answer = within(r, 0, 790*ms)
		}
		w := newWorld(t, Default(), r.Float64(), s)
		w.run(at + 3*time.Second)
		g := w.grades()
		if len(g) == 3 && slow && g[1].Grade == Frozen && f.grade == Unreachable {
			g = g[:2] // the last probe had connected just before
		} else if len(g) != 2 || g[1].Grade != f.grade {
			w.fail(t, "grades %v, want %s at the end", g, f.grade)
			return
		}
		took := g[1].Since - at
		worst[f.mode] = max(worst[f.mode], took)
		if took > f.certain {
			w.fail(t, "%s took %s", modeNames[f.mode], took)
		}
		for _, v := range w.changes {
			if v.Since >= at && (v.Suspect || !v.Grade.Usable()) {
				if v.Since-at > f.suspect {
					w.fail(t, "%s was suspected after %s", modeNames[f.mode], v.Since-at)
				}
				break
			}
		}
	})
	for m, d := range worst {
		if d > 0 {
			t.Logf("%s: certain after %s at worst", modeNames[m], d.Round(ms))
		}
	}
}

// TestReturn: a server that is well again is usable within a second.
func TestReturn(t *testing.T) {
	schedules(t, 2000, func(t *testing.T, r *rand.Rand) {
		fault := []mode{frozen, blackholed, failing, refusing}[r.IntN(4)]
		at := between(r, 3*time.Second, 4*time.Second)
		back := at + between(r, 3*time.Second, 20*time.Second)
		s := server{rtt: between(r, 0, 5*ms), answer: within(r, 0, 60*ms), segments: []segment{{at, fault}, {back, well}}}
		w := newWorld(t, Default(), r.Float64(), s)
		w.run(back + 5*time.Second)
		g := w.grades()
		if len(g) != 3 || g[2].Grade != Ready || g[2].Since-back > time.Second {
			w.fail(t, "back at %s, grades %v", back, g)
		}
	})
}

// TestOnlyNewConnectionsCut: what only new connections meet with is found by
// the next fresh check, and not taken back because the kept connection still
// answers, but within a second of its end.
func TestOnlyNewConnectionsCut(t *testing.T) {
	schedules(t, 300, func(t *testing.T, r *rand.Rand) {
		fault := []struct {
			mode  mode
			grade Grade
		}{{cutNew, Unreachable}, {untrusted, NotReady}}[r.IntN(2)]
		at := between(r, 5*time.Second, 20*time.Second)
		back := at + time.Minute
		s := server{rtt: ms, answer: within(r, 0, 60*ms), segments: []segment{{at, fault.mode}, {back, well}}}
		w := newWorld(t, Default(), r.Float64(), s)
		w.run(back + 5*time.Second)
		g := w.grades()
		if len(g) != 3 || g[2].Grade != Ready || g[2].Since < back || g[2].Since-back > time.Second || g[1].Grade != fault.grade || g[1].Since-at > 12*time.Second {
			w.fail(t, "%s at %s, grades %v", modeNames[fault.mode], at, g)
		}
	})
}

// TestOnlyKeptConnectionsCut: a server that serves new connections is usable.
func TestOnlyKeptConnectionsCut(t *testing.T) {
	schedules(t, 300, func(t *testing.T, r *rand.Rand) {
		at := between(r, 5*time.Second, 20*time.Second)
		s := server{rtt: ms, answer: within(r, 0, 60*ms), segments: []segment{{at, cutKept}}}
		w := newWorld(t, Default(), r.Float64(), s)
		w.run(at + 10*time.Second)
		if g := w.grades(); len(g) != 1 {
			w.fail(t, "cut at %s, grades %v", at, g)
		}
	})
}

// TestEvidenceAloneFellsNobody, and a storm of it costs a bounded number of
// probes.
func TestEvidenceAloneFellsNobody(t *testing.T) {
	schedules(t, 300, func(t *testing.T, r *rand.Rand) {
		s := server{rtt: between(r, 0, 5*ms), answer: within(r, 0, 60*ms)}
		w := newWorld(t, Default(), r.Float64(), s)
		w.storm = func(now time.Duration) (Event, time.Duration) {
			ev := Event(Evidence(r.IntN(kindsOfEvidence)))
			if r.IntN(50) == 0 {
				ev = Lost{}
			}
			return ev, now + between(r, 0, 20*ms)
		}
		w.stormAt = time.Second
		w.run(time.Minute)
		if g := w.grades(); len(g) != 1 || g[0].Grade != Ready {
			w.fail(t, "changed its grade: %v", g)
		}
		if w.begun > 90 {
			w.fail(t, "%d probes in a minute", w.begun)
		}
	})
}

// TestEvidenceHastens: with clients at it, a fault is known at once.
func TestEvidenceHastens(t *testing.T) {
	schedules(t, 500, func(t *testing.T, r *rand.Rand) {
		fault := []mode{frozen, blackholed}[r.IntN(2)]
		at := between(r, 3*time.Second, 5*time.Second)
		s := server{rtt: ms, answer: within(r, 0, 60*ms), segments: []segment{{at, fault}}}
		w := newWorld(t, Default(), r.Float64(), s)
		w.stormAt = at + 100*ms
		w.storm = func(now time.Duration) (Event, time.Duration) { return Silent, now + 50*ms }
		w.run(at + 3*time.Second)
		g := w.grades()
		if len(g) != 2 || g[1].Since-at > 1500*ms {
			w.fail(t, "fault at %s, grades %v", at, g)
		}
	})
}

// TestAnyWeather: nothing breaks the Judge's own rules, whatever happens.
func TestAnyWeather(t *testing.T) {
	schedules(t, 1000, func(t *testing.T, r *rand.Rand) {
		timers := []Timers{Default(), Seed(), Anchors()}[r.IntN(3)]
		s := server{rtt: between(r, 0, 100*ms), answer: within(r, 0, 1500*ms), secure: within(r, 0, 500*ms)}
		for at := time.Duration(0); at < 2*time.Minute; at += between(r, 0, 10*time.Second) {
			s.segments = append(s.segments, segment{at, mode(r.IntN(len(modeNames)))})
		}
		w := newWorld(t, timers, r.Float64(), s)
		w.stormAt = 0
		w.storm = func(now time.Duration) (Event, time.Duration) {
			ev := []Event{Evidence(r.IntN(kindsOfEvidence)), Lost{}, Nudge{}, Answered{Probe: r.Uint64N(400)}, Progress{Probe: r.Uint64N(400), Stage: Connected}}[r.IntN(5)]
			if a, ok := ev.(Answered); ok && w.flying[a.Probe] {
				ev = Nudge{}
			}
			return ev, now + between(r, 0, 5*time.Second)
		}
		w.run(2 * time.Minute)
		if v := w.judge.Verdict(); v.Failures > v.Checks || int(v.Checks) > w.begun {
			w.fail(t, "%+v of %d probes", v, w.begun)
		}
		if most := int(2 * time.Minute / ms / 200); w.begun > most {
			w.fail(t, "%d probes", w.begun)
		}
	})
}

// TestOwnLatenessIsNobodysSilence: after a pause of the checker an answer that
// waited to be read still counts, and the pause is reported.
func TestOwnLatenessIsNobodysSilence(t *testing.T) {
	j, now := NewJudge(Default(), 0.5), time.Duration(0)
	actions, _ := j.Next(now)
	j.Step(now, Answered{actions[0].Probe, Result{Grade: Ready}})
	_, now = j.Next(now)
	actions, wake := j.Next(now) // a probe begins, and the checker is stopped
	if len(actions) != 1 {
		t.Fatalf("at %s: %v", now, actions)
	}
	now = wake + 5*time.Second
	j.Step(now, Nudge{}) // by chance the first to be told
	if _, wake = j.Next(now); wake < now {
		t.Errorf("wake %s before now %s", wake, now)
	}
	v := j.Verdict()
	if v.Grade != Ready || v.Failures != 0 || v.Doubt != "the checker itself was late by 5s" {
		t.Errorf("after a pause: %+v", v)
	}
	for end := now + doubtFor + time.Second; now < end; {
		for _, a := range actions {
			j.Step(now, Answered{a.Probe, Result{Grade: Ready}})
		}
		actions, now = j.Next(now)
	}
	if v := j.Verdict(); v.Doubt != "" {
		t.Errorf("doubt %q for ever", v.Doubt)
	}
}

// TestCouldNotCheck: what the checker lacks itself is no failure of the server.
func TestCouldNotCheck(t *testing.T) {
	j := NewJudge(Default(), 0)
	now := time.Duration(0)
	for range 20 {
		actions, wake := j.Next(now)
		for _, a := range actions {
			if a.Kind == Start {
				r := Result{Grade: Unknown, Reason: "could not check: too many open files"}
				if now < time.Second {
					r = Result{Grade: Ready}
				}
				j.Step(now, Answered{a.Probe, r})
			}
		}
		now = max(wake, now+ms)
	}
	if v := j.Verdict(); v.Grade != Ready || v.Suspect || v.Failures != 0 || v.Doubt == "" {
		t.Errorf("got %+v", v)
	}
}
