package zonal

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// stage is a world and a process that acts in it whenever something happens.
type stage struct {
	*world
	p      *process
	log    lines
	writes int
}

func newStage(t *testing.T) *stage {
	s := &stage{world: newWorld()}
	s.p = newProcess(defaultSettings(), slog.New(slog.NewTextHandler(&s.log, nil)))
	s.wrote = func(string, string, object) { s.writes++ }
	s.real(t, "web", "true", object{})
	return s
}

// run passes as the loop would when it is nudged without end, and tells how many
// writes were tried.
func (s *stage) run(t *testing.T, d time.Duration) (writes int) {
	t.Helper()
	s.writes = 0
	step := min(10*time.Millisecond+d/300, time.Second)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(step) {
		s.look(s.p.view)
		plan := Decide(s.p.view.snapshot())
		if err := s.p.act(t.Context(), s, plan); err != nil {
			t.Fatal(err)
		}
		s.p.speak(plan)
	}
	return s.writes
}

func (s *stage) web() MirrorStatus {
	return s.p.describe(Decide(s.p.view.snapshot()))[0]
}

// Whatever keeps a mirror from being what it should is not fought at the speed of
// the API, and named.
func TestNothingIsRepeatedAtTheSpeedOfTheAPI(t *testing.T) {
	merged := func(patch string) func(*testing.T, *stage) {
		return func(t *testing.T, s *stage) { s.edit(t, servicesPath+"web-zonal", patch) }
	}
	refused := func(code int) func(*testing.T, *stage) {
		return func(_ *testing.T, s *stage) {
			s.fail = func(string, string) error {
				s.writes++
				return &kubeapi.StatusError{Op: "x", Code: code, Message: "no"}
			}
			delete(s.objects, servicesPath+"web-zonal")
		}
	}
	for _, c := range []struct {
		name           string
		trouble        func(*testing.T, *stage) // after each write
		reason, remedy string
	}{
		{"a webhook sets a field", merged(`{"spec":{"trafficDistribution":"PreferClose"}}`), "ChangedBack", "traffic policy of services shop/web-zonal is changed back after each write; find"},
		{"a controller fights", merged(`{"spec":{"selector":{"app":"x"}}}`), "ChangedBack", "selector of services shop/web-zonal"},
		{"somebody deletes it", func(_ *testing.T, s *stage) { delete(s.objects, servicesPath+"web-zonal") }, "ChangedBack", "removed after each time it is made"},
		{"a slice is emptied", func(t *testing.T, s *stage) { s.edit(t, slicesPath+"web-zonal", `{"endpoints":[]}`) }, "ChangedBack", "endpoints of endpointslices shop/web-zonal"},
		{"not allowed", refused(http.StatusForbidden), "WriteRefused", "may not create services"},
		{"a policy refuses", refused(http.StatusUnprocessableEntity), "WriteRefused", "422"},
		{"a webhook fails", refused(http.StatusInternalServerError), "WriteRefused", "500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.run(t, time.Minute)
				if m := s.web(); m.State != Kept || m.Reason != "" {
					t.Fatalf("at first: %+v", m)
				}
				s.wrote = func(string, string, object) { s.writes++; c.trouble(t, s) }
				c.trouble(t, s)
				// 0, 1, 2, 4 … s; a mirror that is deleted takes its slice along.
				if n := s.run(t, 5*time.Minute); n < 3 || n > 25 {
					t.Errorf("%d writes in five minutes", n)
				}
				if m := s.web(); m.State != Refused || m.Reason != c.reason || !strings.Contains(m.Message, c.remedy) {
					t.Errorf("%+v", m)
				}
				if n := strings.Count(s.log.String(), `msg="no mirror"`); n != 1 {
					t.Errorf("told %d times", n)
				}
				// And when it ends, the mirror comes, and is well after a while.
				s.wrote, s.fail = nil, nil
				s.run(t, repeatMax+time.Second)
				if s.objects[slicesPath+"web-zonal"] == nil || len(Decide(s.p.view.snapshot()).Actions) != 0 {
					t.Error("it did not come back")
				}
				s.run(t, 2*repeatMax)
				if m := s.web(); m.State != Kept || len(s.p.cond.all()) != 0 || len(s.p.restraint) != 0 {
					t.Errorf("%+v, %v", m, s.p.cond.all())
				}
			})
		})
	}
}

// A write that the API takes without effect is seen at once: its answer says so.
func TestAWriteWithoutEffectIsNamedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.run(t, time.Minute)
		spoil := func() {
			s.edit(t, servicesPath+"web-zonal", `{"spec":{"internalTrafficPolicy":"Local"}}`)
		}
		spoil()
		s.mutate = func(o object) { sub(o, "spec")["internalTrafficPolicy"] = "Local" }
		if n := s.run(t, 500*time.Millisecond); n != 1 {
			t.Errorf("%d writes", n)
		}
		if m := s.web(); m.Reason != "ChangedBack" {
			t.Errorf("%+v", m)
		}
	})
}

// What is wanted is followed at once, however often it changes, and so is the
// first thing that a person spoils.
func TestFollowingIsNotRestrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.run(t, 100*time.Millisecond)
		for n := range 20 {
			s.edit(t, servicesPath+"web", `{"spec":{"ports":[{"name":"http","port":`+string(rune('1'+n%9))+`}]}}`)
			if s.run(t, 20*time.Millisecond); len(Decide(s.p.view.snapshot()).Actions) != 0 {
				t.Fatalf("change %d was not followed", n)
			}
		}
		s.edit(t, slicesPath+"web-zonal", `{"endpoints":[]}`)
		if s.run(t, 20*time.Millisecond); len(Decide(s.p.view.snapshot()).Actions) != 0 {
			t.Error("the slice stayed empty")
		}
	})
}

// Somebody is faster again and again, as when the watch lags behind.
func TestAViewThatLagsBehindIsNotWrittenFromAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.run(t, time.Minute)
		s.edit(t, servicesPath+"web-zonal", `{"spec":{"selector":{"app":"x"}}}`)
		s.look(s.p.view)
		old := Decide(s.p.view.snapshot())
		s.edit(t, servicesPath+"web-zonal", `{"metadata":{"labels":{"team":"x"}}}`)
		tried := 0
		s.fail = func(string, string) error { tried++; return nil }
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if err := s.p.act(t.Context(), s, old); err != nil {
				t.Fatal(err)
			}
		}
		if tried > 10 { // 0.2, 0.4, 0.8 … s
			t.Errorf("tried %d times in a minute", tried)
		}
	})
}

// The answer to a write arrives after the watch has told what came after it.
func TestALateAnswerDoesNotHideWhatCameAfter(t *testing.T) {
	w, v := newWorld(), newTestView()
	w.real(t, "web", "true", object{})
	w.settle(v)
	path := servicesPath + "web-zonal"
	answer := encoded(w.objects[path])
	w.edit(t, path, `{"spec":{"selector":{"app":"x"}}}`)
	w.look(v)
	if err := v.note(Services, answer); err != nil {
		t.Fatal(err)
	}
	expect(t, "changed after our write", w.transcript(v), "patch services/web-zonal")

	made := encoded(w.objects[path])
	gone := Service{Metadata: Meta{Name: "web-zonal", Namespace: "shop", ResourceVersion: "999"}}
	delete(w.objects, path)
	v.applyService(kubeapi.Event[Service]{Deleted: true, Object: gone})
	if err := v.note(Services, made); err != nil || v.version(Services, Key{"shop", "web-zonal"}) != "" {
		t.Errorf("a Service that was deleted is back: %v", err)
	}
}
