package balance

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/balance/source"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// StatusVersion is the schema version of Status. Fields may be added within a
// version; renaming or removing one needs a new one.
const StatusVersion = 1

// Status is what `holdfast balance status --json` prints.
type Status struct {
	Version  int            `json:"version"`
	PID      int            `json:"pid"`
	Started  time.Time      `json:"started"`
	Settings SettingsStatus `json:"settings"`
	// Draining says that nobody is accepted any more: after SIGTERM.
	Draining    bool             `json:"draining"`
	Connections int              `json:"connections"`
	Frontends   []FrontendStatus `json:"frontends"`
}

// SettingsStatus says which settings are in force.
type SettingsStatus struct {
	File string `json:"file,omitempty"`
	// Tried is when they were read last; Error is why those were not taken.
	Tried time.Time `json:"tried,omitzero"`
	Error string    `json:"error,omitempty"`
}

// FrontendStatus is a frontend or one of its routes.
type FrontendStatus struct {
	Name   string   `json:"name"`
	Listen []string `json:"listen,omitempty"`
	Names  []string `json:"names,omitempty"` // of a route
	Zone   string   `json:"zone,omitempty"`
	// Removed says that the settings no longer have it; it is listed until its
	// last connection has ended.
	Removed bool `json:"removed,omitempty"`
	// Doubt says that every backend failed at once and the node doubts itself.
	Doubt    bool            `json:"doubt"`
	Backends []BackendStatus `json:"backends"`
	Sources  []source.Status `json:"sources"`
}

// BackendStatus is one backend.
type BackendStatus struct {
	ID       string       `json:"id"`
	Zone     string       `json:"zone,omitempty"`
	Source   string       `json:"source,omitempty"`
	Grade    health.Grade `json:"grade"`
	Suspect  bool         `json:"suspect"`
	Held     bool         `json:"held"`
	Backup   bool         `json:"backup"`
	Leaving  bool         `json:"leaving"`
	Draining bool         `json:"draining"`
	Reason   string       `json:"reason,omitempty"`
	// Since is when the grade was reached, Transitions how often it changed and
	// History the last changes, oldest first.
	Since       time.Time    `json:"since,omitzero"`
	Transitions uint64       `json:"transitions"`
	History     []Transition `json:"history"`
	RTTMS       float64      `json:"rtt_ms"`
	Connections int          `json:"connections"`
	Connecting  int          `json:"connecting"`
	Total       uint64       `json:"total"`
	Failed      uint64       `json:"failed"`
	// Broken counts established connections that the backend ended out of order.
	Broken   uint64 `json:"broken"`
	BytesIn  uint64 `json:"bytes_in"`
	BytesOut uint64 `json:"bytes_out"`
	Checks   uint64 `json:"checks"`
	// CredentialsRefused says that the checks' credentials are not accepted.
	CredentialsRefused bool `json:"credentials_refused,omitempty"`
}

// Transition is a change of a backend's grade.
type Transition struct {
	At     time.Time    `json:"at"`
	From   health.Grade `json:"from"`
	To     health.Grade `json:"to"`
	Reason string       `json:"reason,omitempty"`
}

// maxHistory is how many changes are kept for each backend, shownHistory how
// many of a frontend the table shows.
const (
	maxHistory   = 8
	shownHistory = 5
)

// status reports what is in force now.
func (p *process) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{
		Version: StatusVersion, PID: os.Getpid(), Started: p.started, Connections: p.engine.Active(),
		Settings: SettingsStatus{File: p.file, Tried: p.reloaded}, Frontends: []FrontendStatus{},
	}
	if p.reloadErr != nil {
		s.Settings.Error = p.reloadErr.Error()
	}
	s.Draining = p.closing
	for _, set := range p.settings.Frontends {
		f := p.frontends[set.Name]
		st := f.pool.status()
		st.Listen = set.Listen
		s.Frontends = append(s.Frontends, st)
		for i, r := range set.Routes {
			st := f.routes[i].status()
			st.Names = r.Names
			s.Frontends = append(s.Frontends, st)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.retired)) {
		st := p.retired[name].status()
		st.Removed = true
		s.Frontends = append(s.Frontends, st)
	}
	return s
}

func (p *pool) status() FrontendStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh()
	s := FrontendStatus{Name: p.name, Zone: p.cfg.Zone, Doubt: p.roster.doubt, Backends: []BackendStatus{}, Sources: p.set.Status()}
	for _, e := range p.roster.entries {
		m := p.members[e.id]
		b := m.status()
		v := e.verdict
		b.Zone, b.Source, b.Backup = e.backend.Zone, e.backend.Source, e.backend.Backup || e.backend.Demoted
		b.Grade, b.Suspect, b.Held, b.Reason = v.Grade, v.Suspect, p.roster.held[e.id], v.Reason
		b.RTTMS, b.Checks, b.CredentialsRefused = float64(v.RTT.Microseconds())/1000, v.Checks, v.CredentialsRefused
		s.Backends = append(s.Backends, b)
	}
	for _, id := range slices.Sorted(maps.Keys(p.leaving)) {
		b := p.leaving[id].status()
		b.Leaving = true
		s.Backends = append(s.Backends, b)
	}
	return s
}

// since is when the last change was; zero before the first.
func (m *member) since() time.Time {
	if len(m.history) == 0 {
		return time.Time{}
	}
	return m.history[len(m.history)-1].At
}

func (m *member) status() BackendStatus {
	t := m.target
	return BackendStatus{
		ID: t.ID, Since: m.since(), Transitions: m.transitions, History: append([]Transition{}, m.history...), Draining: m.draining != nil,
		Connections: t.Active(), Connecting: t.Connecting(), Total: t.Total(), Failed: t.Failed(), Broken: t.Broken(), BytesIn: t.BytesIn(), BytesOut: t.BytesOut(),
	}
}

// print writes the status as tables for people.
func (s Status) print(w io.Writer) error {
	if s.Settings.Error != "" {
		if _, err := fmt.Fprintf(w, "The settings in %s were not taken at %s, the old ones stay in force:\n  %s\n\n", s.Settings.File, s.Settings.Tried.Format(time.TimeOnly), s.Settings.Error); err != nil {
			return fmt.Errorf("print status: %w", err)
		}
	}
	if s.Draining {
		if _, err := fmt.Fprintf(w, "This process drains %d connections and accepts none.\n\n", s.Connections); err != nil {
			return fmt.Errorf("print status: %w", err)
		}
	}
	for i, f := range s.Frontends {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		if err := f.print(w); err != nil {
			return fmt.Errorf("print status: %w", err)
		}
	}
	return nil
}

func (f FrontendStatus) print(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "%s  %s%s\n", f.Name, strings.Join(append(f.Listen, f.Names...), ", "), f.mood())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "  BACKEND\tZONE\tGRADE\tSINCE\tCONNS\tTOTAL\tFAILED\tRTT\tREASON")
	for _, b := range f.Backends {
		since := "start"
		if !b.Since.IsZero() {
			since = b.Since.Format(time.TimeOnly)
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%d\t%d\t%d\t%.1f ms\t%s\n", b.ID, cmp.Or(b.Zone, "-"), b.words(), since, b.Connections, b.Total, b.Failed, b.RTTMS, b.Reason)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print frontend: %w", err)
	}
	f.printHistory(w)
	for _, src := range f.Sources {
		if !src.OK {
			_, _ = fmt.Fprintf(w, "  source %s: %s\n", src.Name, src.Error)
		}
	}
	return nil
}

// printHistory shows the newest changes of all backends; the first verdict of
// each is none.
func (f FrontendStatus) printHistory(w io.Writer) {
	type change struct {
		backend string
		Transition
	}
	var all []change
	for _, b := range f.Backends {
		for _, t := range b.History {
			if t.From != health.Unknown {
				all = append(all, change{b.ID, t})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return a.At.Compare(b.At) })
	for _, c := range all[max(0, len(all)-shownHistory):] {
		_, _ = fmt.Fprintf(w, "  %s  %s: %s, was %s%s\n", c.At.Format(time.TimeOnly), c.backend, c.To, c.From, because(c.Reason))
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func (f FrontendStatus) mood() string {
	if f.Removed {
		return "  (removed from the settings: its connections drain)"
	}
	if f.Doubt {
		return "  (every backend failed at once: this node doubts itself and tries them all)"
	}
	return ""
}

// words is the grade with what else matters.
func (b BackendStatus) words() string {
	words := b.Grade.String()
	for _, also := range []struct {
		is   bool
		word string
	}{
		{b.Suspect && b.Grade.Usable(), "suspect"}, {b.Held, "held"}, {b.Backup, "backup"}, {b.Leaving, "leaving"},
		{b.Draining, "draining"}, {b.CredentialsRefused, "credentials refused"},
	} {
		if also.is {
			words += ", " + also.word
		}
	}
	return words
}
