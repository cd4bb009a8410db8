package leader

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/holdfast-ha/holdfast/internal/base/daemon"
)

// statusVersion is the version of the document that /status and
// `leader status --json` print.
const statusVersion = 1

// Status is what an agent knows and intends, as one document.
type Status struct {
	Version int    `json:"version"`
	Self    string `json:"self"`
	Name    string `json:"name"`
	Leader  string `json:"leader"`
	Term    uint64 `json:"term"`
	DryRun  bool   `json:"dry_run,omitempty"`
	// Members holds a row a member, sorted by name.
	Members []MemberStatus `json:"members"`
	// Decision is "move" or the reason why leadership stays; Target and
	// WaitMS belong to it.
	Decision  string   `json:"decision"`
	Target    string   `json:"target,omitempty"`
	WaitMS    int64    `json:"wait_ms,omitempty"`
	Penalty   float64  `json:"penalty"`
	Reasoning []string `json:"reasoning"`
	// Warnings are things to mend at any member, one line each.
	Warnings []string `json:"warnings,omitempty"`
	// Conditions are the things a person should mend, by name.
	Conditions map[string]string `json:"conditions"`
}

// MemberStatus is one member as its newest row tells.
type MemberStatus struct {
	ID         string                `json:"id"`
	Name       string                `json:"name"`
	Zone       string                `json:"zone,omitempty"`
	Known      bool                  `json:"known"`
	Voter      bool                  `json:"voter"`
	AgeMS      int64                 `json:"age_ms"`
	Reachable  bool                  `json:"reachable"`
	Leaderless int64                 `json:"leaderless_ms,omitempty"`
	Leader     string                `json:"leader"`
	Etcd       string                `json:"etcd,omitempty"`
	FsyncMS    float64               `json:"fsync_ms,omitempty"`
	Alarms     []string              `json:"alarms,omitempty"`
	Links      map[string]LinkStatus `json:"links"` // by name of the other end
}

// LinkStatus is one end's word about a link.
type LinkStatus struct {
	State   string  `json:"state"`
	SinceMS int64   `json:"since_ms"`
	RTTMS   float64 `json:"rtt_ms,omitempty"`
	Loss    float64 `json:"loss,omitempty"`
}

// Status returns what the agent knew and decided in its last round.
func (a *Agent) Status() Status {
	a.mu.Lock()
	snap, plan, state := a.snap, a.plan, a.state
	a.mu.Unlock()
	s := Status{
		Version: statusVersion, Self: snap.Self.String(), Name: a.name(snap, snap.Self),
		Leader: a.name(snap, snap.Own.Leader), Term: snap.Own.Term, DryRun: a.settings.DryRun,
		Decision: string(plan.Refused), WaitMS: ms(plan.Wait), Penalty: state.Penalty(a.cfg, a.clock()),
		Reasoning: Explain(a.cfg, state, snap, plan), Warnings: Warnings(a.cfg, snap), Conditions: a.cond.all(),
	}
	if plan.Move != nil {
		s.Decision = "move"
	}
	if plan.Target != 0 {
		s.Target = a.name(snap, plan.Target)
	}
	for _, v := range snap.Voters {
		s.Members = append(s.Members, a.memberStatus(snap, v))
	}
	slices.SortFunc(s.Members, func(x, y MemberStatus) int { return cmp.Compare(x.Name, y.Name) })
	return s
}

func (a *Agent) memberStatus(snap Snapshot, v Voter) MemberStatus {
	row, known := snap.Rows[v.ID]
	if v.ID == snap.Self {
		row, known = snap.Own, true
	}
	m := MemberStatus{
		ID: v.ID.String(), Name: a.name(snap, v.ID), Zone: row.Zone, Known: known, Voter: true, AgeMS: ms(row.Age),
		Reachable: row.Reachable, Etcd: row.Version, FsyncMS: msf(row.Fsync), Alarms: row.Alarms,
		Links: map[string]LinkStatus{},
	}
	if row.Leader != 0 {
		m.Leader = a.name(snap, row.Leader)
	} else if row.Reachable {
		m.Leaderless = ms(row.LeaderlessFor)
	}
	for id, l := range row.Links {
		m.Links[a.name(snap, id)] = LinkStatus{State: l.State.String(), SinceMS: ms(l.Since), RTTMS: msf(l.RTT), Loss: l.Loss}
	}
	return m
}

// fetchStatus asks a running agent at base, such as http://127.0.0.1:9384.
func fetchStatus(ctx context.Context, base string) (Status, error) {
	return daemon.Ask[Status](ctx, base, "holdfast leader run", statusVersion)
}

// print writes the document for people: a row a member, the matrix in it,
// then the reasoning in words.
func (s Status) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(tw, strings.Join(cells, "\t")) }
	head := []string{"MEMBER", "ZONE", "LEADER", "ROW", "ETCD"}
	for _, m := range s.Members {
		head = append(head, "→ "+m.Name)
	}
	row(head...)
	for _, m := range s.Members {
		cells := []string{m.Name, dash(m.Zone), leaderCell(m), rowCell(m), dash(m.Etcd)}
		for _, other := range s.Members {
			cells = append(cells, linkCell(m, other.Name))
		}
		row(cells...)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	_, _ = fmt.Fprintln(w)
	for _, line := range s.Reasoning {
		_, _ = fmt.Fprintln(w, line)
	}
	for _, line := range s.Warnings {
		_, _ = fmt.Fprintln(w, "! "+line)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Conditions)) {
		_, _ = fmt.Fprintf(w, "! %s: %s\n", name, s.Conditions[name])
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func leaderCell(m MemberStatus) string {
	switch {
	case !m.Known || !m.Reachable:
		return "?"
	case m.Leader == "":
		return "none for " + short(fromMS(m.Leaderless))
	case m.Leader == m.Name:
		return "leads"
	}
	return m.Leader
}

func rowCell(m MemberStatus) string {
	if !m.Known {
		return "never seen"
	}
	return short(fromMS(m.AgeMS)) + " old"
}

func linkCell(m MemberStatus, to string) string {
	l, ok := m.Links[to]
	switch {
	case to == m.Name:
		return "·"
	case !ok || !m.Known:
		return "?"
	case l.State == Up.String() && l.Loss > 0:
		return fmt.Sprintf("up %.1f ms, %.0f %% lost", l.RTTMS, 100*l.Loss)
	case l.State == Up.String():
		return fmt.Sprintf("up %.1f ms", l.RTTMS)
	}
	return l.State + " " + short(fromMS(l.SinceMS))
}
