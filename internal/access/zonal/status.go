package zonal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// StatusVersion is the schema version of Status. Fields may be added within a
// version; renaming or removing one needs a new one.
const StatusVersion = 1

// Status is what `holdfast zonal status --json` prints.
type Status struct {
	Version int `json:"version"`
	// Identity is of the replica asked, Holder of the one that acts.
	Identity string `json:"identity"`
	Holder   string `json:"holder,omitempty"`
	Acting   bool   `json:"acting"`
	DryRun   bool   `json:"dry_run,omitempty"`
	// Complete says that everything was read once; before it, Mirrors is empty.
	Complete bool           `json:"complete"`
	Datapath string         `json:"datapath"`
	Prefer   string         `json:"traffic_distribution"`
	Mirrors  []MirrorStatus `json:"mirrors"`
	// Conditions are the things a person should mend, by name.
	Conditions map[string]string `json:"conditions"`
}

// MirrorStatus is one Service that asks for a mirror.
type MirrorStatus struct {
	Namespace string   `json:"namespace"`
	Service   string   `json:"service"`
	Mirror    string   `json:"mirror"`
	State     State    `json:"state"`
	Reason    string   `json:"reason,omitempty"`
	Message   string   `json:"message,omitempty"`
	Endpoints []string `json:"endpoints"`
	Warnings  []string `json:"warnings"`
}

func (m *MirrorStatus) real() Key { return Key{m.Namespace, m.Service} }

func statusOf(m Mirror) MirrorStatus {
	st := MirrorStatus{
		Namespace: m.Real.Namespace, Service: m.Real.Name, Mirror: m.Name.Name, State: m.State,
		Reason: m.Reason, Message: m.Message, Endpoints: m.Endpoints, Warnings: []string{},
	}
	if st.Endpoints == nil {
		st.Endpoints = []string{}
	}
	return st
}

// status is what this process knows.
func (p *process) status() Status {
	p.mu.Lock()
	plan, d := p.plan, p.datapath
	p.mu.Unlock()
	s := Status{
		Version: StatusVersion, Identity: p.lock.Identity, Holder: p.lock.Holder(), Acting: p.lock.Held(), DryRun: p.settings.DryRun,
		Complete: p.view.complete(p.settings.scope()), Datapath: d.String(), Prefer: d.Prefer(),
		Mirrors: p.describe(plan), Conditions: p.cond.all(),
	}
	if s.Mirrors == nil {
		s.Mirrors = []MirrorStatus{}
	}
	for i := range s.Mirrors {
		s.Mirrors[i].standBy(&s)
		if s.Mirrors[i].Warnings == nil {
			s.Mirrors[i].Warnings = []string{}
		}
	}
	return s
}

// standBy says where to ask about a mirror that another replica makes: only who
// writes knows what is refused or changed back.
func (m *MirrorStatus) standBy(s *Status) {
	if s.Acting || s.DryRun || m.State != Pending || m.Message != "" {
		return
	}
	m.Reason = "StandingBy"
	if m.Message = "no replica acts now; it is made when one has the Lease"; s.Holder != "" {
		m.Message = "this replica stands by and cannot tell why; ask the one that acts, " + podOf(s.Holder)
	}
}

// podOf is the name of a replica's host, without what makes it unique.
func podOf(identity string) string {
	if i := strings.LastIndexByte(identity, '_'); i > 0 {
		return identity[:i]
	}
	return identity
}

// fetchStatus asks a running process at address.
func fetchStatus(ctx context.Context, address string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", nil)
	if err != nil {
		return Status{}, fmt.Errorf("--agent: %q is not HOST:PORT", address)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Status{}, fmt.Errorf("nothing answers at %s: %w; run this where the agent runs (kubectl exec), or name it by --agent", address, errors.Unwrap(err))
	}
	defer func() { _ = resp.Body.Close() }()
	var s Status
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return Status{}, fmt.Errorf("read answer of %s: %w", address, err)
	}
	if err := json.Unmarshal(body, &s); err != nil || s.Version == 0 {
		return Status{}, fmt.Errorf("what answers at %s is not holdfast zonal; name it by --agent", address)
	}
	return s, nil
}

// verdict is the exit code: 1 when a Service that asks for a mirror has none, 2
// when that cannot be told, or not yet.
func (s Status) verdict() error {
	if !s.Complete {
		return exit.With(exit.Unknown, errors.New("could not tell: the agent has not read Services and EndpointSlices yet; see the conditions"))
	}
	var pending error
	for _, m := range s.Mirrors {
		switch {
		case m.State == Refused:
			return exit.With(exit.Failed, fmt.Errorf("%s/%s has no mirror: %s", m.Namespace, m.Service, m.Message))
		case m.State == Pending && !s.DryRun && pending == nil:
			pending = fmt.Errorf("could not tell: the mirror of %s/%s is still to be made; %s", m.Namespace, m.Service, cmp.Or(m.Message, "ask again in a moment"))
		}
	}
	if pending != nil {
		return exit.With(exit.Unknown, pending)
	}
	return nil
}

// print writes the status for people.
func (s Status) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "replica %s %s; datapath %s (set trafficDistribution %s)\n", s.Identity, s.role(), s.Datapath, s.Prefer)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(s.Mirrors) > 0 {
		fmt.Fprintln(w, "NAMESPACE\tSERVICE\tMIRROR\tSTATE\tENDPOINTS")
	} else if s.Complete {
		fmt.Fprintf(&b, "no Service asks for a mirror: kubectl annotate service NAME %s=true\n", annotation)
	}
	for _, m := range s.Mirrors {
		state := string(m.State)
		if m.Reason != "" {
			state += " (" + m.Reason + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Namespace, m.Service, m.Mirror, state, strings.Join(m.Endpoints, " "))
	}
	_ = w.Flush() // into a builder, which never fails
	for _, m := range s.Mirrors {
		if m.Message != "" {
			fmt.Fprintf(&b, "%s/%s: %s\n", m.Namespace, m.Service, m.Message)
		}
		for _, text := range m.Warnings {
			fmt.Fprintf(&b, "%s/%s: warning: %s\n", m.Namespace, m.Service, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Conditions)) {
		fmt.Fprintf(&b, "condition %s: %s\n", name, s.Conditions[name])
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

func (s Status) role() string {
	switch {
	case s.DryRun:
		return "only looks (dry run)"
	case s.Acting:
		return "acts"
	case s.Holder != "":
		return "stands by for " + s.Holder
	}
	return "stands by"
}
