package arbiter

import (
	"fmt"
	"io"
	"time"
)

// Words says in a line what a record lets whom do.
func (r Record) Words() string {
	switch {
	case r.State == Paired:
		return fmt.Sprintf("%s and %s serve together; either may be made the survivor", r.Members[0].Name, r.Members[1].Name)
	case r.Forced:
		return fmt.Sprintf("%s alone may serve, by a person who accepted the loss of what only %s has", r.Survivor, r.Peer(r.Survivor).Name)
	case r.Held:
		return fmt.Sprintf("%s alone may serve, by a person; %s is not taken back before `holdfast pair release`", r.Survivor, r.Peer(r.Survivor).Name)
	}
	return fmt.Sprintf("%s alone may serve; %s is taken back once it is there", r.Survivor, r.Peer(r.Survivor).Name)
}

// Shown is what `holdfast pair arbiter show` prints as JSON.
type Shown struct {
	Version int `json:"version"`
	// Arbiter names the store.
	Arbiter string  `json:"arbiter"`
	Record  *Record `json:"record"` // null: there is none
}

func (s Shown) print(w io.Writer) error {
	if s.Record == nil {
		_, err := fmt.Fprintf(w, "arbiter     %s\nrecord      none yet; the first agents that find their cluster of two make it\n", s.Arbiter)
		return err
	}
	r := *s.Record
	_, err := fmt.Fprintf(w, "arbiter     %s\nrecord      %s\ngeneration  %d, written %s by %s\ncluster     %v\nmembers     %s %v, %s %v\n",
		s.Arbiter, r.Words(), r.Generation, r.Time.UTC().Format(time.RFC3339), r.By, r.Cluster,
		r.Members[0].Name, r.Members[0].ID, r.Members[1].Name, r.Members[1].ID)
	return err
}

// Tested is what `holdfast pair arbiter test` prints as JSON.
type Tested struct {
	Version int    `json:"version"`
	Arbiter string `json:"arbiter"`
	// Fit is the verdict, Why its reason where it is not.
	Fit bool   `json:"fit"`
	Why string `json:"why,omitempty"`
	Trial
	SlowestMS float64 `json:"slowest_ms"`
	// Elsewhere says that it does not rest on the pair; null: nobody asked.
	Elsewhere *bool `json:"elsewhere"`
}

func (t Tested) print(w io.Writer) error {
	verdict := "fit: of 16 changes to one version exactly one succeeded, in every round"
	if !t.Fit {
		verdict = "UNFIT: " + t.Why
	}
	elsewhere := "not looked at; give --endpoint to find out if it rests on the pair itself"
	if t.Elsewhere != nil {
		elsewhere = "it does not rest on the pair itself"
		if !*t.Elsewhere {
			elsewhere = "it rests on the pair itself"
		}
	}
	_, err := fmt.Fprintf(w, "arbiter   %s\nverdict   %s\nrounds    %d, and %d that told nothing\nslowest   change answered after %.0f ms, with 15 others\nplace     %s\n",
		t.Arbiter, verdict, t.Rounds, t.Contended, t.SlowestMS, elsewhere)
	return err
}
