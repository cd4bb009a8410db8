package pair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/daemon"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// statusVersion is the version of the document that /status and
// `pair status --json` print.
const statusVersion = 1

// Status is what an agent knows and intends, as one document.
type Status struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Peer    string `json:"peer"`
	// Summary says it in words.
	Summary string `json:"summary"`
	// Serves says that clients can write through this member.
	Serves bool          `json:"serves"`
	Etcd   ProcessStatus `json:"etcd"`
	// Record is the record as last read; none before the first.
	Record  *arbiter.Record `json:"record,omitempty"`
	Arbiter ArbiterStatus   `json:"arbiter"`
	// Do and Why are the last decision; Alarm says that a person should look.
	Do    Action `json:"do"`
	Why   string `json:"why"`
	Alarm bool   `json:"alarm"`
	// Failing is why the last action failed, if it did.
	Failing string `json:"failing,omitempty"`
	// Refusal is why this member cannot survive at present.
	Refusal string `json:"refusal,omitempty"`
	// Unasked is why the own etcd cannot be asked whether it has a quorum.
	Unasked string `json:"unasked,omitempty"`
	// EtcdAlarms are those that etcd has raised for either member: then neither takes writes.
	EtcdAlarms []string `json:"etcd_alarms,omitempty"`
	// CatchingUp is how much of the log the peer has, in percent, while it is a learner.
	CatchingUp *float64 `json:"catching_up_percent,omitempty"`
	// Receiving is how much of the survivor's database has come, while this member joins.
	Receiving *Transfer `json:"receiving,omitempty"`
	// Events are the last changes, oldest first.
	Events []Event `json:"events"`
}

// ProcessStatus is the own etcd.
type ProcessStatus struct {
	Running bool   `json:"running"`
	PID     int    `json:"pid,omitempty"`
	Voters  int    `json:"voters,omitempty"`
	Leads   bool   `json:"leads"`
	Member  string `json:"member,omitempty"`
	// LostMS is how long it has not proven a quorum; 0: it has.
	LostMS        int64  `json:"quorum_lost_ms"`
	PeerReachable bool   `json:"peer_reachable"`
	Ended         string `json:"ended,omitempty"`
}

// ArbiterStatus is what is known of the arbiter.
type ArbiterStatus struct {
	Where string `json:"where"`
	// AgeMS is how old the last answer is; -1: there was none.
	AgeMS   int64  `json:"age_ms"`
	Trouble string `json:"trouble,omitempty"`
}

// Status returns what the agent knew and decided in its last round.
func (a *Agent) Status() Status {
	a.mu.Lock()
	v, p, failing, refusal, alarms := a.view, a.plan, a.failing, a.state.Refusal, a.alarms
	a.mu.Unlock()
	v.Now = a.clock()
	a.obs.mu.Lock()
	progress, transfer, pid, ended, leads := a.obs.progress, a.obs.transfer, a.obs.pid, a.obs.ended, a.obs.status.Leader != 0 && a.obs.status.Leader == a.obs.status.Member
	a.obs.mu.Unlock()
	s := Status{
		Version: statusVersion, Name: a.settings.Name, Peer: a.settings.Peer.Name, Serves: serves(v, p, alarms) == nil,
		Etcd:    ProcessStatus{Running: v.Process.Running, Voters: v.Members.Voters, Leads: leads, PeerReachable: v.peerReachable()},
		Arbiter: ArbiterStatus{Where: a.store.Name(), AgeMS: -1, Trouble: v.Arbiter.Detail},
		Do:      p.Do, Why: p.Why, Alarm: p.Alarm || len(alarms) > 0, EtcdAlarms: alarms, Failing: failing, Refusal: refusal, Unasked: v.Quorum.Unasked,
		Events: a.history.all(),
	}
	if v.Members.Self != 0 {
		s.Etcd.Member = v.Members.Self.String()
	}
	if v.Process.Running {
		s.Etcd.PID = pid
	} else {
		s.Etcd.Ended = ended
	}
	if !v.quorate() {
		s.Etcd.LostMS = v.since(max(v.Quorum.Confirmed, 1)).Milliseconds()
	}
	if v.Arbiter.Known {
		s.Arbiter.AgeMS = v.since(v.Arbiter.Asked).Milliseconds()
	}
	if r := v.Arbiter.Record; r.Generation > 0 {
		s.Record = &r
	}
	if v.Members.Learner != 0 && v.Arbiter.Record.SoloOf(a.settings.Name) {
		percent := 100 * progress
		s.CatchingUp = &percent
	}
	if v.Arbiter.Record.SoloOf(a.settings.Peer.Name) && v.Process.Running && !v.quorate() && transfer.Of > 0 {
		s.Receiving = &transfer
	}
	s.Summary = s.summary()
	return s
}

// summary says in one line how the pair stands.
func (s Status) summary() string {
	r := s.Record
	switch {
	case r == nil:
		return cmp.Or(s.Why, "no record yet")
	case r.State == arbiter.Paired && s.Serves:
		return fmt.Sprintf("%s and %s serve together, generation %d", s.Name, s.Peer, r.Generation)
	case r.State == arbiter.Paired:
		return fmt.Sprintf("%s and %s are a pair, generation %d; %s does not serve: %s", s.Name, s.Peer, r.Generation, s.Name, s.whyNot())
	}
	other := r.Peer(r.Survivor).Name
	text := fmt.Sprintf("%s serves alone since %s, generation %d", r.Survivor, since(*r).Local().Format("2006-01-02 15:04"), r.Generation)
	switch {
	case r.Survivor == s.Name && !s.Serves:
		return fmt.Sprintf("%s may serve alone since %s, generation %d, and does not: %s", s.Name, since(*r).Local().Format("2006-01-02 15:04"), r.Generation, s.whyNot())
	case s.CatchingUp != nil && *s.CatchingUp == 0:
		return fmt.Sprintf("%s; %s receives the database", text, other)
	case s.CatchingUp != nil:
		return fmt.Sprintf("%s; %s is catching up, %.0f %%", text, other, *s.CatchingUp)
	case r.Held:
		return text + ", because a person asked for it (holdfast pair release ends that)"
	case s.Receiving != nil:
		return fmt.Sprintf("%s; %s has received %d of %d MB", text, s.Name, s.Receiving.Bytes>>20, s.Receiving.Of>>20)
	case r.Survivor != s.Name:
		return text + "; " + s.Name + ": " + s.Why
	}
	return text + "; " + other + " is not there"
}

// fetchStatus asks a running agent at base, such as http://127.0.0.1:9386.
func fetchStatus(ctx context.Context, base string) (Status, error) {
	return daemon.Ask[Status](ctx, base, "holdfast pair run", statusVersion)
}

// verdict is the error of `pair status`.
func (s Status) verdict() error {
	if s.Serves {
		return nil
	}
	return exit.With(1, errors.New("this member does not serve: "+s.whyNot()))
}

// whyNot says why it does not serve, where it does not.
func (s Status) whyNot() string {
	if len(s.EtcdAlarms) > 0 && s.Etcd.LostMS == 0 {
		return s.EtcdAlarms[0]
	}
	return s.Why
}

func (s Status) print(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "%s\n\n", s.Summary)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("member", "%s, etcd %s", s.Name, s.Etcd.words())
	row("peer", "%s, %s", s.Peer, map[bool]string{true: "its etcd can be reached", false: "its etcd cannot be reached"}[s.Etcd.PeerReachable])
	row("arbiter", "%s, %s", s.Arbiter.Where, s.Arbiter.words())
	row("next", "%s: %s", s.Do, s.Why)
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	for _, text := range s.EtcdAlarms {
		_, _ = fmt.Fprintf(w, "! %s\n", text)
	}
	for name, text := range map[string]string{"the last action failed": s.Failing, "this member cannot survive": s.Refusal, "the own etcd cannot be asked": s.Unasked} {
		if text != "" {
			_, _ = fmt.Fprintf(w, "! %s: %s\n", name, text)
		}
	}
	s.printEvents(w)
	return nil
}

// printEvents writes the newest few.
func (s Status) printEvents(w io.Writer) {
	const few = 8
	events := s.Events[max(0, len(s.Events)-few):]
	if len(events) > 0 {
		_, _ = fmt.Fprintln(w)
	}
	for _, e := range events {
		_, _ = fmt.Fprintf(w, "%s  %-9s %s (%s)\n", e.Time.Local().Format("01-02 15:04:05"), e.Do, e.Why, e.Record)
	}
}

func (p ProcessStatus) words() string {
	switch {
	case !p.Running && p.Ended != "":
		return "stopped (" + p.Ended + ")"
	case !p.Running:
		return "stopped"
	case p.LostMS > 0:
		return fmt.Sprintf("runs, without a quorum for %s", round(time.Duration(p.LostMS)*time.Millisecond))
	case p.Leads:
		return fmt.Sprintf("leads, %d voters", p.Voters)
	}
	return fmt.Sprintf("follows, %d voters", p.Voters)
}

func (a ArbiterStatus) words() string {
	switch {
	case a.AgeMS < 0 && a.Trouble != "":
		return "never read: " + a.Trouble
	case a.AgeMS < 0:
		return "never read"
	case a.Trouble != "":
		return fmt.Sprintf("read %s ago, and now: %s", round(time.Duration(a.AgeMS)*time.Millisecond), a.Trouble)
	}
	return fmt.Sprintf("read %s ago", round(time.Duration(a.AgeMS)*time.Millisecond))
}
