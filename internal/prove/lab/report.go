package lab

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Report is what `lab status` shows, and its JSON document.
type Report struct {
	Version     int               `json:"version"`
	Name        string            `json:"name"`
	Pid         int               `json:"pid"`
	Dir         string            `json:"dir"`
	Started     time.Time         `json:"started"`
	Environment map[string]string `json:"environment"`
	Sites       []Site            `json:"sites"`
	Nodes       []NodeReport      `json:"nodes"`
	Links       []LinkReport      `json:"links"`
	Cuts        []CutReport       `json:"cuts"`
	Matrix      []Cell            `json:"matrix"`
	// Mismatches lists what the matrix shows and the cuts do not explain.
	Mismatches []string       `json:"mismatches"`
	Members    []MemberReport `json:"members"`
	// APIServers is empty in a lab without them.
	APIServers []APIServerReport `json:"apiservers,omitempty"`
	// Components is empty in a lab without Kubernetes.
	Components []ComponentReport `json:"components,omitempty"`
}

// reportVersion counts incompatible changes of Report.
const reportVersion = 1

// NodeReport is a node with its addresses.
type NodeReport struct {
	Name string `json:"name"`
	Site string `json:"site"`
	IP   string `json:"ip"`
	IP6  string `json:"ip6"`
	// State is the Ready condition of the Kubernetes Node as an apiserver that
	// is ready tells it: "Ready", "NotReady", "Unknown", "not registered", or
	// "" in a lab without Kubernetes and where no apiserver answers.
	State string `json:"state,omitempty"`
}

// LinkReport is a link with the properties in force and the round trip
// measured over it between the first nodes of its sites (the least of three),
// 0 when cut.
type LinkReport struct {
	A        string  `json:"a"`
	B        string  `json:"b"`
	Method   string  `json:"method"`
	DelayMS  float64 `json:"delay_ms"`
	JitterMS float64 `json:"jitter_ms"`
	RateBPS  uint64  `json:"rate_bps"`
	Loss     float64 `json:"loss"`
	RTTMS    float64 `json:"rtt_ms"`
}

// CutReport is a cut in force.
type CutReport struct {
	Name  string    `json:"name"`
	What  string    `json:"what"`
	Since time.Time `json:"since"`
}

// MemberReport is an etcd member and what it says of itself.
type MemberReport struct {
	Cluster   string        `json:"cluster"`
	Name      string        `json:"name"`
	Site      string        `json:"site"`
	ClientURL string        `json:"client_url"`
	Running   bool          `json:"running"`
	Pid       int           `json:"pid,omitempty"`
	Status    *MemberStatus `json:"status,omitempty"`
	// LeaderName is the name of the member it takes for the leader.
	LeaderName string `json:"leader_name,omitempty"`
	Error      string `json:"error,omitempty"`
}

// APIServerReport is a kube-apiserver and what its /readyz says.
type APIServerReport struct {
	Name    string `json:"name"`
	Site    string `json:"site"`
	URL     string `json:"url"`
	Running bool   `json:"running"`
	Pid     int    `json:"pid,omitempty"`
	Ready   bool   `json:"ready"`
	// Error says why it is not ready.
	Error string `json:"error,omitempty"`
	// Config is a kubeconfig of its administrator.
	Config string `json:"kubeconfig"`
}

// ComponentReport is a Kubernetes program of a node and what its /healthz says.
type ComponentReport struct {
	Kind    string `json:"kind"`
	Node    string `json:"node"`
	Running bool   `json:"running"`
	Pid     int    `json:"pid,omitempty"`
	Healthy bool   `json:"healthy"`
	// Error says why it is not.
	Error string `json:"error,omitempty"`
}

// Report measures the matrix, asks every member, and puts it all together.
func (l *Lab) Report(ctx context.Context) (Report, error) {
	r := Report{
		Version: reportVersion, Name: l.spec.Name, Dir: l.dir, Environment: l.Environment(), Sites: l.spec.Sites,
		Cuts: []CutReport{}, Mismatches: []string{}, Members: []MemberReport{}, Links: []LinkReport{},
	}
	for _, n := range l.nodes {
		r.Nodes = append(r.Nodes, NodeReport{Name: n.name, Site: n.site, IP: n.ip4.String(), IP6: n.ip6.String()})
	}
	// A change that is being verified would show as a mismatch.
	l.change.Lock()
	m, wrong, err := l.settle(ctx)
	l.change.Unlock()
	if err != nil {
		return r, err
	}
	r.Matrix = m.Cells
	for _, d := range wrong {
		r.Mismatches = append(r.Mismatches, d.String())
	}
	for _, c := range l.Cuts() {
		r.Cuts = append(r.Cuts, CutReport{c.Name, c.String(), c.Since})
	}
	r.Links = l.reportLinks(ctx)
	r.Members = l.reportMembers(ctx)
	r.APIServers = l.reportAPIServers(ctx)
	r.Components = l.reportComponents(ctx)
	l.reportNodes(ctx, r)
	return r, nil
}

func (l *Lab) reportLinks(ctx context.Context) []LinkReport {
	l.mu.Lock()
	links := []LinkReport{}
	for i, lp := range l.links {
		links = append(links, LinkReport{
			A: lp.A, B: lp.B, Method: l.wires[i].method(),
			DelayMS: ms(lp.Delay), JitterMS: ms(lp.Jitter), RateBPS: lp.Rate, Loss: lp.Loss,
		})
	}
	l.mu.Unlock()
	want, patience := l.Expected(), l.patience()
	for i, link := range links {
		a, _ := l.plan.site(link.A)
		b, _ := l.plan.site(link.B)
		if want.Open(a.nodes[0].name, b.nodes[0].name, KindKept) {
			links[i].RTTMS = ms(l.prober.rtt(ctx, a.nodes[0].name, b.nodes[0].name, patience))
		}
	}
	return links
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (l *Lab) reportMembers(ctx context.Context) []MemberReport {
	rows := []MemberReport{}
	names := map[uint64]string{}
	var mu sync.Mutex
	var g errgroup.Group
	for _, c := range l.clusters {
		for _, m := range c.members {
			i := len(rows)
			rows = append(rows, MemberReport{})
			g.Go(func() error {
				row := m.report(ctx)
				mu.Lock()
				defer mu.Unlock()
				rows[i] = row
				if row.Status != nil {
					names[row.Status.ID] = row.Name
				}
				return nil
			})
		}
	}
	_ = g.Wait() // an unreachable member is a row, not an error
	for i := range rows {
		if st := rows[i].Status; st != nil && st.Leader != 0 {
			rows[i].LeaderName = names[st.Leader]
		}
	}
	return rows
}

func (l *Lab) reportAPIServers(ctx context.Context) []APIServerReport {
	rows := make([]APIServerReport, len(l.apiservers))
	var g errgroup.Group
	for i, a := range l.apiservers {
		g.Go(func() error {
			rows[i] = a.report(ctx)
			return nil
		})
	}
	_ = g.Wait() // one that is not ready is a row, not an error
	return rows
}

func (a *APIServer) report(ctx context.Context) APIServerReport {
	row := APIServerReport{Name: a.node.name, Site: a.node.site, URL: a.URL(), Config: a.files.AdminConf}
	child := a.Child()
	if child == nil {
		return row
	}
	row.Running, row.Pid = true, child.Pid()
	if err := a.Ready(ctx); err != nil {
		row.Error = err.Error()
		return row
	}
	row.Ready = true
	return row
}

// part is a program of Kubernetes as reports see it.
type part struct {
	kind string
	*program
	// well asks the program; nil says that it answered.
	well func(context.Context) error
}

// parts lists the Kubernetes programs other than the apiservers.
func (l *Lab) parts() []part {
	var all []part
	for _, c := range l.components() {
		all = append(all, part{c.kind, &c.program, c.Healthy})
	}
	for _, n := range l.nodes {
		if w := n.worker.Load(); w != nil {
			all = append(all,
				part{"kubelet", &w.kubelet.program, w.kubelet.Healthy},
				part{"kube-proxy", &w.proxy.program, w.proxy.Healthy},
				part{"containerd", &w.containerd.program, w.containerd.Healthy})
		}
	}
	return all
}

func (l *Lab) reportComponents(ctx context.Context) []ComponentReport {
	all := l.parts()
	rows := make([]ComponentReport, len(all))
	var g errgroup.Group
	for i, p := range all {
		g.Go(func() error {
			rows[i] = p.report(ctx)
			return nil
		})
	}
	_ = g.Wait() // one that is not well is a row, not an error
	return rows
}

func (p part) report(ctx context.Context) ComponentReport {
	row := ComponentReport{Kind: p.kind, Node: p.node.name}
	child := p.Child()
	if child == nil {
		return row
	}
	row.Running, row.Pid = true, child.Pid()
	if err := p.well(ctx); err != nil {
		row.Error = fmt.Sprintf("%s %s: %v", p.kind, p.node.name, err)
		return row
	}
	row.Healthy = true
	return row
}

// reportNodes fills the states of Nodes in, from the first apiserver that said
// it was ready.
func (l *Lab) reportNodes(ctx context.Context, r Report) {
	if !l.spec.Kubernetes {
		return
	}
	for i, row := range r.APIServers {
		if !row.Ready {
			continue
		}
		states, err := l.apiservers[i].nodeStates(ctx)
		if err != nil {
			continue
		}
		for k := range r.Nodes {
			r.Nodes[k].State = cmp.Or(states[r.Nodes[k].Name], "not registered")
		}
		return
	}
}

func (m *Member) report(ctx context.Context) MemberReport {
	row := MemberReport{Cluster: m.cluster.Name, Name: m.node.name, Site: m.node.site, ClientURL: m.ClientURL()}
	child := m.Child()
	if child == nil {
		return row
	}
	row.Running, row.Pid = true, child.Pid()
	st, err := m.Status(ctx)
	if err != nil {
		row.Error = err.Error()
		return row
	}
	row.Status = &st
	return row
}
