package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a source that says what a test tells it to say.
type scripted struct {
	name    string
	say     chan []Backend
	runs    int
	give    error // ends Run once
	current Status
}

func newScripted(name string) *scripted {
	return &scripted{name: name, say: make(chan []Backend), current: Status{Name: name, OK: true}}
}

func (s *scripted) Name() string   { return s.name }
func (s *scripted) Status() Status { return s.current }

func (s *scripted) Run(ctx context.Context, publish func([]Backend)) error {
	s.runs++
	if err := s.give; err != nil {
		s.give = nil
		return err
	}
	for {
		select {
		case list := <-s.say:
			publish(list)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// running runs a Set in the bubble until the test ends; got collects what it
// told and when.
type running struct {
	*Set
	start time.Time
	got   []string
	stop  func()
}

func run(t *testing.T, o Options) *running {
	t.Helper()
	o.Name = "test"
	r := &running{Set: NewSet(o), start: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx, func(list []Backend) {
			r.got = append(r.got, fmt.Sprintf("%v %s", time.Since(r.start), strings.Join(ids(list), " ")))
		}); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	}()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	synctest.Wait()
	return r
}

func (r *running) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(r.got, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(r.got, "\n"), strings.Join(want, "\n"))
	}
	r.got = nil
}

func TestSetTellsAtOnceThenGathersChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newScripted("one"), newScripted("two")
		r := run(t, Options{Static: bs("10.0.0.9"), Sources: []Source{one, two}})
		r.expect(t, "0s 10.0.0.9:6443")
		one.say <- bs("10.0.0.1")
		two.say <- bs("10.0.0.2")
		time.Sleep(debounce)
		r.expect(t, "50ms 10.0.0.1:6443 10.0.0.2:6443 10.0.0.9:6443")
		one.say <- bs("10.0.0.1") // nothing new
		two.say <- nil            // nothing at all: sources change, the set stays
		time.Sleep(time.Second)
		if current := r.Current(); len(current) != 3 || current[1].Source != lastGood {
			t.Errorf("current %+v", current)
		}
	})
}

func TestSetSaysNothingWhereThereIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newScripted("one")
		r := run(t, Options{Sources: []Source{one}})
		one.say <- nil
		time.Sleep(time.Second)
		r.expect(t)
		one.say <- bs("10.0.0.1")
		time.Sleep(debounce)
		r.expect(t, "1.05s 10.0.0.1:6443")
	})
}

func TestSetRunsASourceThatEndedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newScripted("one")
		one.give = errors.New("out of order")
		run(t, Options{Sources: []Source{one}})
		time.Sleep(rerun)
		synctest.Wait()
		if one.runs != 2 {
			t.Errorf("ran %d times", one.runs)
		}
	})
}

func TestSetStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newScripted("one")
		one.current = Status{Name: "one", Error: "may not", Rejected: 1, Reasons: []string{"FQDN"}}
		r := run(t, Options{Static: bs("10.0.0.9", "0.0.0.0"), Sources: []Source{one}, Listen: []string{"10.0.0.5:6443"}})
		one.say <- bs("10.0.0.1", "10.0.0.5", "127.0.0.1")
		synctest.Wait()
		got := r.Status()
		if len(got) != 2 || got[0].Name != "static" || got[0].Backends != 1 || got[0].Rejected != 1 ||
			got[1].Backends != 1 || got[1].Rejected != 3 || got[1].OK || len(got[1].Reasons) != 3 || !strings.Contains(got[1].Reasons[1], "in a circle") {
			t.Errorf("%+v", got)
		}
	})
}

// A restart without an API server: the list of before is there at once,
// unverified, and goes when its source has spoken.
func TestSetRemembersAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "dir", "test.json")
		one := newScripted("one")
		r := run(t, Options{Static: bs("10.0.0.9"), Sources: []Source{one, newScripted("two")}, StateFile: path})
		one.say <- bs("10.0.0.1 zone=a weight=3 backup", "10.0.0.2")
		time.Sleep(time.Second)
		r.stop()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		if data, _ := os.ReadFile(path); strings.Contains(string(data), "10.0.0.9") {
			t.Errorf("static ones are kept: %s", data)
		}

		one = newScripted("one")
		r = run(t, Options{Static: bs("10.0.0.8"), Sources: []Source{one}, StateFile: path})
		if want := bs("10.0.0.1 zone=a weight=3 backup by=last_good", "10.0.0.2 by=last_good", "10.0.0.8 by=static"); !slices.Equal(r.Current(), want) {
			t.Errorf("after restart %+v", r.Current())
		}
		one.say <- bs("10.0.0.2", "10.0.0.3")
		time.Sleep(time.Second)
		if want := bs("10.0.0.2 by=one", "10.0.0.3 by=one", "10.0.0.8 demoted by=static"); !slices.Equal(r.Current(), want) {
			t.Errorf("once answered %+v", r.Current())
		}
	})
}

// After a reload the successor knows what discovery knew, and that it was
// confirmed: no static backend comes out of its demotion for a moment.
func TestSetHandsOverToASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newScripted("one")
		r := run(t, Options{Static: bs("10.0.0.9"), Sources: []Source{one}})
		one.say <- bs("10.0.0.1")
		time.Sleep(time.Second)
		before := r.Current()
		next := NewSet(Options{Name: "test", Static: bs("10.0.0.9"), Sources: []Source{newScripted("one")}, Known: r.Known()})
		if !slices.Equal(next.Current(), before) {
			t.Errorf("before %+v\nafter  %+v", before, next.Current())
		}
	})
}

func TestSetServesWhereTheStateFileFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		one := newScripted("one")
		r := run(t, Options{Sources: []Source{one}, StateFile: filepath.Join(file, "test.json"), Log: slog.New(slog.NewTextHandler(&log, nil))})
		one.say <- bs("10.0.0.1")
		time.Sleep(5 * saveAgain)
		r.expect(t, "50ms 10.0.0.1:6443")
		status := r.Status()
		if last := status[len(status)-1]; last.OK || !strings.Contains(last.Error, "balancing goes on") {
			t.Errorf("%+v", last)
		}
		// Mended, it is written without a further change.
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(saveAgain)
		synctest.Wait()
		if status = r.Status(); !status[len(status)-1].OK {
			t.Errorf("%+v", status)
		}
		r.stop()
		if n := strings.Count(log.String(), "write state file"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}
