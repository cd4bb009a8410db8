package vip

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/stack"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// byAddress is the client of every path here.
const byAddress = "new connections by the address"

// Stack lists what moves addresses between machines: the silence of their holder,
// and the checks that make it give them up.
func Stack(f *fact.Facts) []stack.Path {
	var all []stack.Path
	for _, d := range daemons(f) {
		for _, i := range d.instances {
			all = append(all, i.paths(d)...)
		}
	}
	for _, c := range f.Components("kube-vip") {
		all = append(all, vipPaths(c)...)
	}
	return all
}

func (i instance) paths(d daemon) []stack.Path {
	address := strings.Join(i.addresses, ", ")
	moves := stack.Detector{
		Name: "keepalived: adverts of " + i.name,
		Set:  fmt.Sprintf("advert_int %s, priority %d of %s", i.interval, i.priority, d.node), Window: scenario.Adverts(i.interval, i.priority), At: i.at,
	}
	all := []stack.Path{{Fault: "losing the machine that has " + address, Client: byAddress, Detectors: []stack.Detector{moves}}}
	for _, s := range d.tracked(i) {
		if !s.known || onlyPort(s.text) {
			continue // not known, or what HF-VIP-004 is about
		}
		check := stack.Detector{
			Name: "keepalived: vrrp_script " + s.name,
			Set:  fmt.Sprintf("interval %s, timeout %s, fall %d", s.interval, s.waits(), s.fall), Window: scenario.Checks(s.interval, s.waits(), s.fall), At: s.at,
		}
		moves.Window, moves.Name = scenario.Handover(i.interval, i.priority), "keepalived: priority 0, and the best of the others waits for its skew"
		all = append(all, stack.Path{
			Fault: "an apiserver that hangs on the machine that has " + address, Client: byAddress, Detectors: []stack.Detector{check, moves},
		})
	}
	return all
}

// Defaults of kube-vip's check of the control plane (pkg/kubevip/config_envvar.go).
const (
	vipCheckPeriod, vipCheckTimeout = 5 * time.Second, 3 * time.Second
	vipCheckFailures                = 3
)

func vipPaths(c fact.Component) []stack.Path {
	if !on(c, "cp_enable") {
		return nil
	}
	address, _ := c.Env("address")
	if l, err := leaseOf(c); err == nil && on(c, "vip_leaderelection") {
		held := stack.Detector{
			Name: "kube-vip: its lease in the API", At: c.EnvAt("vip_leaseduration"),
			Set: fmt.Sprintf("lease %s, renew deadline %s, retry %s", l.lease, l.deadline, l.retry), Window: scenario.Elected(l.lease, l.retry),
		}
		return []stack.Path{
			{Fault: "losing the machine that has " + address, Client: byAddress, Detectors: []stack.Detector{held}},
			{Fault: "an apiserver that hangs on the machine that has " + address, Client: byAddress, Detectors: []stack.Detector{held}},
		}
	}
	url, _ := c.Env("control_plane_health_check_address")
	if url == "" || retimed(c) {
		return nil // what HF-VIP-010 is about, or timers that are not known here
	}
	return []stack.Path{{
		Fault: "an apiserver that hangs on a machine that announces " + address, Client: "the share of new connections that are routed there",
		Detectors: []stack.Detector{{
			Name: "kube-vip: asks " + url, At: c.EnvAt("control_plane_health_check_address"),
			Set: fmt.Sprintf("its defaults: every %s, timeout %s, %d failures", vipCheckPeriod, vipCheckTimeout, vipCheckFailures), Window: scenario.Checks(vipCheckPeriod, vipCheckTimeout, vipCheckFailures),
		}},
	}}
}

// retimed says that kube-vip's check was given timers of its own.
func retimed(c fact.Component) bool {
	for _, e := range c.Container.Env {
		rest, ours := strings.CutPrefix(e.Name, "control_plane_health_check_")
		if ours && rest != "address" && rest != "ca_path" {
			return true
		}
	}
	return false
}
