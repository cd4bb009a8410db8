package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// TargetClusterIP is the target of a path from a pod, through kube-proxy, to the
// case's Service; what is asked there is a page (kind web).
const TargetClusterIP = "clusterip"

// Whom a Service sends its clients to.
const (
	// TrafficCluster is any ready pod, the default of Kubernetes.
	TrafficCluster = "cluster"
	// TrafficSameZone prefers those of the client's zone (trafficDistribution:
	// PreferSameZone).
	TrafficSameZone = "same-zone"
	// TrafficLocal has those on the client's node alone (internalTrafficPolicy:
	// Local).
	TrafficLocal = "local"
)

// What a readiness probe asks.
const (
	// ProbeHTTP sends the request of a client.
	ProbeHTTP = "http"
	// ProbeTCP connects, which the kernel answers for a program that hangs.
	ProbeTCP = "tcp"
)

// Service is a Service with pods of its own. Without is the same in the run without
// the remedy; what it leaves out is as in the other run.
type Service struct {
	Backing `yaml:",inline"`
	Without *Backing `yaml:"without,omitempty"`
}

// Backing is what stands behind a Service.
type Backing struct {
	// Pods are the sites of the pods: a site that is named twice has two. They are
	// called web-SITE-1, web-SITE-2 and so on.
	Pods []string `yaml:"pods,omitempty"`
	// Traffic is cluster (default), same-zone or local.
	Traffic   string    `yaml:"traffic,omitempty"`
	Readiness Readiness `yaml:"readiness,omitempty"`
}

// Readiness is the readiness probe of a pod.
type Readiness struct {
	// Kind is http (default) or tcp.
	Kind string `yaml:"kind,omitempty"`
	// Period, Timeout and Failures are whole seconds and a count, as the kubelet has
	// them (default 10 s, 1 s, 3).
	Period   time.Duration `yaml:"period,omitempty"`
	Timeout  time.Duration `yaml:"timeout,omitempty"`
	Failures int           `yaml:"failures,omitempty"`
}

func (s Service) fill() Service {
	if len(s.Pods) == 0 {
		return s
	}
	defaults := Backing{Traffic: TrafficCluster, Readiness: Readiness{Kind: ProbeHTTP, Period: 10 * time.Second, Timeout: time.Second, Failures: 3}}
	s.Backing = s.Backing.over(defaults)
	without := s.Backing
	if s.Without != nil {
		without = s.Without.over(s.Backing)
	}
	s.Without = &without
	return s
}

// over is b where it says something, else that of other.
func (b Backing) over(other Backing) Backing {
	r := Readiness{
		Kind:     cmp.Or(b.Readiness.Kind, other.Readiness.Kind),
		Period:   cmp.Or(b.Readiness.Period, other.Readiness.Period),
		Timeout:  cmp.Or(b.Readiness.Timeout, other.Readiness.Timeout),
		Failures: cmp.Or(b.Readiness.Failures, other.Readiness.Failures),
	}
	return Backing{Pods: either(b.Pods, other.Pods), Traffic: cmp.Or(b.Traffic, other.Traffic), Readiness: r}
}

// HasService says whether the case has a Service with pods of its own.
func (c *Case) HasService() bool { return len(c.Service.Pods) > 0 }

// ServiceIn is what stands behind it in a run.
func (c *Case) ServiceIn(remedy bool) Backing {
	if remedy || c.Service.Without == nil {
		return c.Service.Backing
	}
	return *c.Service.Without
}

// ServicePod is a pod of a Service.
type ServicePod struct{ Name, Site string }

// List names the pods, in order.
func (b Backing) List() []ServicePod {
	var out []ServicePod
	count := map[string]int{}
	for _, site := range b.Pods {
		count[site]++
		out = append(out, ServicePod{fmt.Sprintf("web-%s-%d", site, count[site]), site})
	}
	return out
}

// spreads says whether clients of a site are sent to several pods, in either run.
func (s Service) spreads(site string) bool {
	spread := func(b Backing) bool {
		n := 0
		for _, p := range b.Pods {
			if b.Traffic == TrafficCluster || p == site {
				n++
			}
		}
		return n > 1
	}
	return spread(s.Backing) || s.Without != nil && spread(*s.Without)
}

func (c *Case) checkService() error {
	if !c.HasService() {
		return nil
	}
	if !c.Kubernetes {
		return fmt.Errorf("service: there are no pods to stand behind it; add kubernetes: true")
	}
	for _, side := range []struct {
		field string
		b     Backing
	}{{"service", c.ServiceIn(true)}, {"service.without", c.ServiceIn(false)}} {
		if err := side.b.check(side.field, c.SiteNames()); err != nil {
			return err
		}
	}
	return nil
}

func (b Backing) check(field string, sites []string) error {
	for i, site := range b.Pods {
		if err := oneOf(fmt.Sprintf("%s.pods[%d]", field, i), site, sites); err != nil {
			return err
		}
	}
	if err := oneOf(field+".traffic", b.Traffic, []string{TrafficCluster, TrafficSameZone, TrafficLocal}); err != nil {
		return err
	}
	r := b.Readiness
	if err := oneOf(field+".readiness.kind", r.Kind, []string{ProbeHTTP, ProbeTCP}); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"period", r.Period}, {"timeout", r.Timeout}} {
		if d.d < time.Second || d.d > time.Minute || d.d%time.Second != 0 {
			return fmt.Errorf("%s.readiness.%s: %s; the kubelet takes whole seconds, choose 1s to 1m", field, d.name, d.d)
		}
	}
	if r.Failures < 1 || r.Failures > 10 {
		return fmt.Errorf("%s.readiness.failures: %d is out of range; choose 1 to 10", field, r.Failures)
	}
	return nil
}

// checkStruckPods accepts pods that the Service has in both runs: a fault that
// strikes nobody tests nothing.
func (c *Case) checkStruckPods(f Step) error {
	for _, list := range []struct {
		field string
		pods  []string
	}{{"freeze", f.Freeze}, {"delete", f.Delete}} {
		for _, pod := range list.pods {
			if !c.HasService() {
				return fmt.Errorf("%s: there is no pod %q; add a service with pods", list.field, pod)
			}
			for _, remedy := range []bool{true, false} {
				if err := oneOf(list.field, pod, names(c.ServiceIn(remedy).List())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func names(pods []ServicePod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

// SiteOfPod is the site of a pod of the Service.
func (c *Case) SiteOfPod(name string) string {
	for _, p := range append(c.ServiceIn(true).List(), c.ServiceIn(false).List()...) {
		if p.Name == name {
			return p.Site
		}
	}
	return ""
}

// checkPage refuses a path to the Service that asks for something else, or that
// meets nobody.
func (c *Case) checkPage(at string, p Path) error {
	switch {
	case !c.HasService():
		return fmt.Errorf("%s.targets: there is no such Service; add service: {pods: [a, b]}", at)
	case p.Kind != kindWeb:
		return fmt.Errorf("%s.kinds: the Service serves no %s; write kinds: [web]", at, p.Kind)
	case c.Service.Traffic == TrafficLocal && !slices.Contains(c.Service.Pods, p.Site):
		return fmt.Errorf("%s.sites: traffic is local and site %s has no pod; choose one of %s", at, p.Site, strings.Join(c.Service.Pods, ", "))
	}
	return nil
}
