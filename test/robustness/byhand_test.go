package robustness

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"
)

// takeover is how one member comes to serve alone.
type takeover struct {
	fault    string // which is struck first: "loser", "survivor", or "cut"
	survivor string // "leader" or "follower"
	after    int64  // revisions since the last one, at least
	delay    time.Duration
}

func (o takeover) String() string {
	return fmt.Sprintf("after %d revisions %s first, %s later the other, %s survives", o.after, o.fault, o.delay, o.survivor)
}

// byHand is a run in which the harness takes the agents' place.
type byHand struct {
	version   string
	extra     []string
	takeovers []takeover
}

// chooseByHand makes a run of a seed. Seeds that follow one another have other versions.
func chooseByHand(seed uint64) byHand {
	r := rand.New(rand.NewPCG(seed, 1))
	run := byHand{version: versions[seed%3]}
	if r.IntN(2) == 0 {
		run.extra = []string{"--snapshot-count", "200"}
	}
	for range in(r, 1, 3) {
		run.takeovers = append(run.takeovers, takeover{
			fault:    []string{"loser", "survivor", "cut"}[r.IntN(3)],
			survivor: []string{"leader", "follower"}[r.IntN(2)],
			after:    int64(in(r, 100, 300)),
			delay:    time.Duration(r.IntN(300)) * time.Millisecond,
		})
	}
	return run
}

func TestByHand(t *testing.T) {
	for _, seed := range seeds(t, number(t, "HOLDFAST_ROBUST_BYHAND", 3)) {
		run := chooseByHand(seed)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			t.Logf("etcd %s %v: %v", run.version, run.extra, run.takeovers)
			run.play(t, surgery, true).accept(t, 150)
		})
	}
}

// The control: with etcd's own way out, the same runs must be found illegal.
func TestForceNewClusterIsIllegal(t *testing.T) {
	nightly(t)
	illegal := map[string]int{}
	for i, seed := range seeds(t, 40) {
		run := chooseByHand(seed)
		// What the survivor drops is known to be acknowledged by nobody but the clients.
		run.takeovers = []takeover{{fault: "loser", survivor: "follower", after: 300}}
		v := run.play(t, forceNewCluster, false).judge(t, 150)
		t.Logf("seed %d, etcd %s: %s %s", seed, run.version, v.Broken, v.Why)
		if v.Broken == "counts" || v.Broken == "assumptions" {
			t.Fatal("the run says nothing")
		}
		if v.Broken != "" {
			illegal[v.Broken]++
		}
		if len(illegal) > 0 && i >= 11 {
			t.Logf("illegal in %v of %d runs", illegal, i+1)
			return
		}
	}
	t.Error("40 legal runs: this finds nothing")
}

// play runs it. Where the takeovers lose writes the other member is not taken back.
func (run byHand) play(t *testing.T, rescue func(*testing.T, *site), rejoin bool) record {
	dir := workspace(t)
	a, b := pair(t, dir, run.version, run.extra...)
	l := drive(t, a, b)
	for _, o := range run.takeovers {
		a, b = o.choose(t, a, b)
		a.advances(t, o.after)
		o.strike(t, a, b)
		rescue(t, a)
		a.await(t, 20*time.Second)
		a.advances(t, 50)
		heal(a, b)
		b.etcd.kill()
		b.rejoin(t, a)
	}
	b.advances(t, 100)
	reports := l.end(t)
	sameKeys(t, a, b)
	a.etcd.kill()
	b.etcd.kill()
	r := record{dir: dir, reports: reports, logs: logs(a, b)}
	if !rejoin {
		r.logs = logs(a)
	}
	return r
}

// choose says who survives.
func (o takeover) choose(t *testing.T, a, b *site) (survivor, loser *site) {
	t.Helper()
	if a.leads(t) != (o.survivor == "leader") {
		return b, a
	}
	return a, b
}

// strike ends with a survivor that is stopped and a loser that is dead, or alive beyond a cut.
func (o takeover) strike(t *testing.T, survivor, loser *site) {
	t.Helper()
	pause := time.After(o.delay)
	switch o.fault {
	case "loser":
		loser.etcd.kill()
		<-pause
		survivor.etcd.kill()
	case "survivor":
		survivor.etcd.kill()
		<-pause
		loser.etcd.kill()
	case "cut":
		cut(survivor, loser)
		<-pause
		survivor.etcd.kill()
	}
}

// surgery is what the agent of a survivor does between stop and start.
func surgery(t *testing.T, s *site) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var errs bytes.Buffer
	edit := exec.CommandContext(ctx, holdfast, "pair", "wal", "edit", "--data-dir", s.data, "--fenced", "--json")
	edit.Stderr = &errs
	if _, err := edit.Output(); err != nil {
		t.Fatalf("edit %s: %v: %s", s.name, err, errs.String())
	}
	s.start(t)
}

// forceNewCluster is etcd's own way out.
func forceNewCluster(t *testing.T, s *site) {
	t.Helper()
	s.start(t, "--force-new-cluster")
}
