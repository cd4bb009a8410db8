package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// posted is an Event as the server gets it.
type posted struct {
	InvolvedObject Reference `json:"involvedObject"`
	Reason         string    `json:"reason"`
	Message        string    `json:"message"`
	Type           string    `json:"type"`
	Count          int       `json:"count"`
	at             time.Duration
}

// record runs Events in a bubble against a server that answers code.
func record(t *testing.T, code int, during time.Duration, do func(*Events)) (got []posted, e *Events) {
	start := time.Now()
	keep := func(w http.ResponseWriter, r *http.Request) {
		p := posted{at: time.Since(start)}
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil || r.URL.Path != "/api/v1/namespaces/shop/events" {
			t.Errorf("%s: %v", r.URL, err)
		}
		got = append(got, p)
		w.WriteHeader(code)
		_, _ = w.Write([]byte("{}"))
	}
	var steps []step
	for range 500 {
		steps = append(steps, keep)
	}
	s := newScript(t, steps...)
	client, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	e = &Events{Client: func() (*Client, error) { return client, nil }, Component: "test", Instance: "n"}
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	go do(e)
	e.Run(ctx)
	return got, e
}

var about = Reference{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web", UID: "u"}

func TestEventsAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, e := record(t, http.StatusCreated, 11*time.Minute, func(e *Events) {
			for range 60 { // ten minutes of a pass each ten seconds
				e.Record(about, Warning, "Foreign", "the name is taken")
				time.Sleep(10 * time.Second)
			}
		})
		if len(got) != 2 || got[0].Count != 1 || got[1].Count != 30 || got[1].at != eventEvery || e.Dropped() != 0 {
			t.Errorf("%+v, dropped %d", got, e.Dropped())
		}
		if p := got[0]; p.InvolvedObject != about || p.Type != Warning || p.Reason != "Foreign" || p.Message != "the name is taken" {
			t.Errorf("%+v", p)
		}
	})
}

func TestEventsAreBoundedInRateAndNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, e := record(t, http.StatusCreated, time.Minute, func(e *Events) {
			for i := range 2000 {
				e.Record(about, Normal, "Many", fmt.Sprint(i))
			}
		})
		if len(got) < eventBurst || len(got) > eventBurst+12 || e.Dropped() < 1900 {
			t.Errorf("%d written, %d dropped", len(got), e.Dropped())
		}
	})
}

func TestAnEventThatIsRefusedIsTriedAgainWhenItIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, e := record(t, http.StatusForbidden, 2*time.Minute, func(e *Events) {
			for range 12 {
				e.Record(about, Warning, "Foreign", "the name is taken")
				time.Sleep(10 * time.Second)
			}
		})
		if len(got) != 4 || e.Dropped() != 4 {
			t.Errorf("%d tried, %d dropped", len(got), e.Dropped())
		}
	})
}
