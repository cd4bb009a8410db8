package slices

import (
	"cmp"
	"context"
	"fmt"
	"io"
	stdslices "slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/daemon"
)

// StatusVersion is the schema version of Status. Fields may be added within a
// version; renaming or removing one needs a new one.
const StatusVersion = 1

// Status is what `holdfast slices status --json` prints: what the agent of one
// node knows.
type Status struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
	Zone    string `json:"zone"`
	// Apiserver is the own one.
	Apiserver ApiserverStatus `json:"apiserver"`
	// Read says that the endpoints have been read at least once.
	Read      bool             `json:"read"`
	Endpoints []EndpointStatus `json:"endpoints"`
	Zones     []ZoneStatus     `json:"zones"`
	// Reconciler is what is known of the apiservers' own: absent, unprobed,
	// probing, dormant, active, taken-over or occupied.
	Reconciler string `json:"reconciler"`
	// Combined lists the addresses of the slice kubernetes, and Taken says that
	// it is ours.
	Combined []string `json:"combined"`
	Taken    bool     `json:"taken"`
	// Traffic is trafficDistribution of the Service, Wanted what the datapath
	// honours.
	Traffic  string `json:"traffic"`
	Wanted   string `json:"wanted_traffic"`
	Datapath string `json:"datapath"`
	// Path says whether connections of this node stay in its zone: kept, strays,
	// unknown, or off where that is not watched.
	Path     string          `json:"path"`
	Problems []ProblemStatus `json:"problems"`
}

// ApiserverStatus is the own apiserver.
type ApiserverStatus struct {
	// Health is ready, unready or unknown.
	Health string    `json:"health"`
	Grade  string    `json:"grade"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Lease  string    `json:"lease,omitempty"`
}

// EndpointStatus is one slice that belongs to the Service, but for the one
// named kubernetes.
type EndpointStatus struct {
	Slice   string `json:"slice"`
	Node    string `json:"node"`
	Zone    string `json:"zone"`
	Address string `json:"address"`
	Port    int32  `json:"port"`
	Ready   bool   `json:"ready"`
	// Hints are the zones sent here, Adopted those of them that are not its own.
	Hints   []string `json:"hints"`
	Adopted []string `json:"adopted"`
	// UnreadyBy is the node whose agent marked it unready.
	UnreadyBy string `json:"unready_by,omitempty"`
	Ours      bool   `json:"ours"`
	// Agent is fresh, late, lapsed, none or self.
	Agent string `json:"agent"`
	RTTMS int    `json:"rtt_ms,omitempty"`
	// Unreached says that this node fails to connect to it. That is known only
	// while the own zone depends on others.
	Unreached bool `json:"unreached,omitempty"`
}

// ZoneStatus is a zone with nodes.
type ZoneStatus struct {
	Name     string   `json:"name"`
	Nodes    int      `json:"nodes"`
	ServedBy []string `json:"served_by"`
	Adopted  bool     `json:"adopted"`
}

// ProblemStatus is something that a person has to mend.
type ProblemStatus struct {
	Code   string `json:"code"`
	Object string `json:"object"`
	Text   string `json:"text"`
}

// status reports what is known now.
func (a *agent) status() Status {
	s, self := a.world.look(), a.me()
	a.mu.Lock()
	facts, traffic := a.facts, a.traffic
	a.mu.Unlock()
	v := a.checker.Verdict()
	out := Status{
		Version: StatusVersion, Node: self.Node, Zone: self.Zone, Read: a.world.complete(),
		Apiserver: ApiserverStatus{
			Health: map[plan.Health]string{plan.Ready: "ready", plan.Unready: "unready", plan.Unknown: "unknown"}[self.Health],
			Grade:  v.Grade.String(), Reason: v.Reason, Since: v.At, Lease: a.ownIdentity(),
		},
		Reconciler: facts.Phase.String(), Traffic: s.view.Service.Traffic, Wanted: traffic.Prefer(), Datapath: traffic.String(), Path: a.pathState(),
		Endpoints: a.endpoints(&s, &self, &facts), Zones: zonesOf(&s.view), Combined: []string{}, Problems: []ProblemStatus{},
	}
	if c := s.view.Combined; c != nil {
		out.Taken = c.Owner == plan.Ours
		for _, m := range c.Members {
			out.Combined = append(out.Combined, m.Address)
		}
	}
	for _, p := range a.problems.all() {
		out.Problems = append(out.Problems, ProblemStatus{p.Code, p.Object, p.Text})
	}
	return out
}

func (a *agent) endpoints(s *sight, self *plan.Self, facts *plan.Facts) []EndpointStatus {
	near := map[string]int{}
	for _, d := range a.near.distances() {
		near[d.Node] = d.Millis
	}
	all := []EndpointStatus{}
	for i := range s.view.Slices {
		o := &s.view.Slices[i]
		e := EndpointStatus{
			Slice: o.Name, Node: o.Node, Zone: o.Zone, Address: o.Address, Port: o.Port, Ready: o.Ready,
			Hints: append([]string{}, o.Hints...), Adopted: []string{}, UnreadyBy: o.UnreadyBy, Ours: o.Owner == plan.Ours,
			Agent: agentOf(&s.view, o.Node, self, facts), RTTMS: near[o.Node],
			Unreached: stdslices.Contains(facts.Unreached, o.Node),
		}
		for _, h := range o.Hints {
			if h != o.Zone {
				e.Adopted = append(e.Adopted, h)
			}
		}
		all = append(all, e)
	}
	return all
}

func agentOf(v *plan.View, node string, self *plan.Self, facts *plan.Facts) string {
	switch {
	case node == self.Node:
		return "self"
	case stdslices.ContainsFunc(facts.Lapsed, func(l plan.Lapse) bool { return l.Node == node }):
		return "lapsed"
	case stdslices.ContainsFunc(facts.Quiet, func(q plan.Silence) bool { return q.Node == node }):
		return "late"
	case !stdslices.ContainsFunc(v.Leases, func(l plan.Lease) bool { return l.Role == plan.Agent && l.Node == node }):
		return "none"
	}
	return "fresh"
}

func zonesOf(v *plan.View) []ZoneStatus {
	all := []ZoneStatus{}
	for _, zone := range v.Zones {
		z := ZoneStatus{Name: zone.Name, Nodes: zone.Nodes, ServedBy: []string{}}
		own := false
		for i := range v.Slices {
			o := &v.Slices[i]
			if o.Ready && o.Hinted(zone.Name) && !stdslices.Contains(z.ServedBy, o.Node) {
				z.ServedBy = append(z.ServedBy, o.Node)
				own = own || o.Zone == zone.Name
			}
		}
		z.Adopted = !own && len(z.ServedBy) > 0
		all = append(all, z)
	}
	return all
}

// fetchStatus asks a running agent at base, such as http://127.0.0.1:9387.
func fetchStatus(ctx context.Context, base string) (Status, error) {
	return daemon.Ask[Status](ctx, base, "holdfast slices run", StatusVersion)
}

// print writes the document for people.
func (s Status) print(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "node %s, zone %s: own apiserver %s (%s)%s\n", s.Node, cmp.Or(s.Zone, "-"), s.Apiserver.Health, s.Apiserver.Grade, because(s.Apiserver.Reason))
	_, _ = fmt.Fprintf(w, "reconciler of the apiservers: %s; trafficDistribution: %s (%s honours %s)\n", s.Reconciler, cmp.Or(s.Traffic, "-"), s.Datapath, s.Wanted)
	_, _ = fmt.Fprintf(w, "connections of this node: %s\n\n", s.path())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "SLICE\tNODE\tZONE\tADDRESS\tREADY\tADOPTS\tAGENT\tRTT")
	for _, e := range s.Endpoints {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Slice, cmp.Or(e.Node, "-"), cmp.Or(e.Zone, "-"), e.Address, e.readiness(), cmp.Or(strings.Join(e.Adopted, ","), "-"), e.Agent, e.distance())
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	_, _ = fmt.Fprintln(w)
	_, _ = fmt.Fprintln(t, "ZONE\tNODES\tSERVED BY")
	for _, z := range s.Zones {
		served := cmp.Or(strings.Join(z.ServedBy, ", "), "nobody: its pods are sent to all endpoints")
		if z.Adopted {
			served += " (adopted)"
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%s\n", z.Name, z.Nodes, served)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	for i, p := range s.Problems {
		if i == 0 {
			_, _ = fmt.Fprintln(w)
		}
		_, _ = fmt.Fprintf(w, "! %s: %s\n", p.Code, p.Text)
	}
	return nil
}

// path says where connections land, in words.
func (s Status) path() string {
	zone := cmp.Or(s.Zone, "-")
	switch s.Path {
	case "kept":
		return "stay in zone " + zone
	case "strays":
		return "leave zone " + zone
	case "off":
		return "not watched"
	}
	return "not known whether they stay in zone " + zone
}

func (e EndpointStatus) readiness() string {
	switch {
	case e.Ready:
		return "ready"
	case e.UnreadyBy != "":
		return "no (by " + e.UnreadyBy + ")"
	}
	return "no"
}

func (e EndpointStatus) distance() string {
	switch {
	case e.Unreached:
		return "unreached"
	case e.RTTMS == 0:
		return "-"
	}
	return fmt.Sprintf("%d ms", e.RTTMS)
}
