package balancer

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var alone = rule.Rule{
	ID: "HF-BAL-002", Group: rule.Balancer, Severity: rule.Error,
	Title: "One HAProxy stands between all clients and the apiservers",
	Needs: []fact.Kind{fact.Files},
	Why: "A balancer in front of three apiservers is the new single point: a reboot of its machine, or a setting that it does not start " +
		"with, takes the API from everybody while all three are well.",
	Remedy: "a second machine with the same balancer and an address that moves, or a balancer on every node",
	Drill:  "vip-balance-pair",
	Check:  checkAlone,
}

func checkAlone(f *fact.Facts) ([]rule.Finding, error) {
	outside := map[string]backend{}
	for _, b := range apiBackends(f) {
		if _, seen := outside[b.node]; !seen && serves(b) {
			outside[b.node] = b
		}
	}
	switch len(outside) {
	case 0:
		return nil, fact.NotApplicable("no HAProxy that serves the API to other machines")
	case 1:
	default:
		return nil, nil
	}
	for node, b := range outside {
		if movesAddress(f, node) {
			return nil, nil
		}
		return []rule.Finding{{
			At: b.at, Key: b.Text(),
			What:   fmt.Sprintf("HAProxy on %s is the only one, and nothing on %s moves its address to another machine", node, node),
			Effect: rule.Unending("losing "+node, "nobody who goes by it has an API"),
			Remedy: "holdfast balance manifest haproxy-import /etc/haproxy/haproxy.cfg > /etc/holdfast/balance.yaml   # on two machines, with `holdfast vip run` for the address\n" +
				"# or on every node, without a machine between: holdfast balance manifest static-pod --backend CP1:6443,CP2:6443,CP3:6443",
		}}, nil
	}
	return nil, nil
}

// serves says that others than the machine itself come in.
func serves(b backend) bool {
	for _, front := range b.fronts {
		if slices.ContainsFunc(front.binds(), func(x bind) bool { return !fact.Loopback(x.host) }) {
			return true
		}
	}
	return false
}

// movesAddress says that a machine has something that gives an address away when
// it goes: VRRP, a routing daemon, or one of the agents of Kubernetes.
func movesAddress(f *fact.Facts, node string) bool {
	for _, name := range []string{"/etc/keepalived/keepalived.conf", "/etc/frr/frr.conf"} {
		if file, _ := f.FileOf(node, name); file != nil {
			return true
		}
	}
	agents := ofHoldfast(f, "vip")
	for _, program := range []string{"keepalived", "kube-vip"} {
		agents = append(agents, f.Components(program)...)
	}
	return slices.ContainsFunc(agents, func(c fact.Component) bool { return c.Node == node })
}

var nonlocal = rule.Rule{
	ID: "HF-BAL-005", Group: rule.Balancer, Severity: rule.Error,
	Title: "HAProxy binds an address that its machine does not have yet",
	Needs: []fact.Kind{fact.Files},
	Why: "A machine of a pair that does not hold the virtual address cannot bind it, unless net.ipv4.ip_nonlocal_bind says so: HAProxy does " +
		"not start there, and the address moves to a machine where nothing listens.",
	Remedy: "set net.ipv4.ip_nonlocal_bind = 1 on both machines",
	Drill:  "vip-balance-pair",
	Check:  checkNonlocal,
}

func checkNonlocal(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	moving := 0
	for _, b := range apiBackends(f) {
		vips := virtualAddresses(f, b.node)
		for _, front := range b.fronts {
			for _, x := range front.binds() {
				if !slices.Contains(vips, x.host) {
					continue
				}
				moving++
				if !hasWord(x.line, "transparent") && !bindsNonlocal(f, b.node) {
					all = append(all, binding(b, x))
				}
			}
		}
	}
	if moving == 0 {
		return nil, fact.NotApplicable("no HAProxy that binds an address of a keepalived beside it")
	}
	return all, nil
}

func binding(b backend, x bind) rule.Finding {
	return rule.Finding{
		At: b.at.LineIn(x.line.Line), Key: x.host,
		What:   fmt.Sprintf("HAProxy on %s binds %s, which keepalived moves, and net.ipv4.ip_nonlocal_bind is not set", b.node, x.host),
		Effect: rule.Unending("a move of the address to "+b.node+", where HAProxy was started without it", "nothing listens at "+x.host),
		Remedy: "echo 'net.ipv4.ip_nonlocal_bind = 1' > /etc/sysctl.d/80-nonlocal-bind.conf && sysctl --system   # on both machines",
	}
}

// virtualAddresses are the IPv4 addresses that keepalived moves on a machine.
func virtualAddresses(f *fact.Facts, node string) []string {
	file, _ := f.FileOf(node, "/etc/keepalived/keepalived.conf")
	if file == nil {
		return nil
	}
	var all []string
	conf.Keepalived(file.Object.Data).Walk(func(b *conf.Block) {
		if !b.Has("virtual_ipaddress") {
			return
		}
		for _, line := range b.Blocks {
			address, _, _ := strings.Cut(line.Word(0), "/")
			if ip := net.ParseIP(address); ip != nil && ip.To4() != nil {
				all = append(all, address)
			}
		}
	})
	return all
}

// bindsNonlocal is what the kernel says, or else the settings that it boots with.
func bindsNonlocal(f *fact.Facts, node string) bool {
	if file, _ := f.FileOf(node, "/proc/sys/net/ipv4/ip_nonlocal_bind"); file != nil {
		return strings.TrimSpace(string(file.Object.Data)) != "0"
	}
	set := false
	for _, pattern := range []string{"/etc/sysctl.conf", "/etc/sysctl.d/*.conf"} {
		for _, file := range f.FilesAt(pattern) {
			if file.Object.Node != node {
				continue
			}
			for _, s := range conf.Assignments(file.Object.Data, "#;").Blocks {
				if name := strings.ReplaceAll(s.Word(0), "/", "."); name == "net.ipv4.ip_nonlocal_bind" {
					set = s.Word(1) != "0"
				}
			}
		}
	}
	return set
}

var samePort = rule.Rule{
	ID: "HF-BAL-011", Group: rule.Balancer, Severity: rule.Error,
	Title: "HAProxy and the apiserver beside it listen on the same port",
	Needs: []fact.Kind{fact.Files},
	Why: "kube-apiserver listens on all addresses of its machine. A balancer on the same port, at whichever address, works only as long as " +
		"the two were started in the order that happened to be right; after a reboot one of them does not start.",
	Remedy: "give the balancer a port of its own, such as 8443",
	Drill:  "vip-balance-pair",
	Check:  checkPorts,
}

func checkPorts(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	beside := 0
	for _, b := range apiBackends(f) {
		port, wide, ok := apiserverPort(f, b.node)
		if !ok {
			continue
		}
		beside++
		for _, front := range b.fronts {
			for _, x := range front.binds() {
				if x.port != port || !wide && x.host != "" {
					continue
				}
				all = append(all, rule.Finding{
					At: b.at.LineIn(x.line.Line), Key: x.host + ":" + x.port,
					What:   fmt.Sprintf("HAProxy on %s listens on port %s, as the apiserver there does", b.node, port),
					Effect: rule.Unending("the next reboot of "+b.node, "its apiserver or its balancer does not start"),
					Remedy: fmt.Sprintf("sed -i 's/%s/%s/' /etc/haproxy/haproxy.cfg && systemctl reload haproxy   # on %s; then that port in controlPlaneEndpoint and kubeconfigs",
						x.line.Word(1), strings.Replace(x.line.Word(1), ":"+port, ":8443", 1), b.node),
				})
			}
		}
	}
	if beside == 0 {
		return nil, fact.NotApplicable("no HAProxy on a machine with an apiserver")
	}
	return all, nil
}

// apiserverPort is where a node's apiserver listens; wide says on all addresses.
func apiserverPort(f *fact.Facts, node string) (port string, wide, ok bool) {
	for _, c := range f.Components("kube-apiserver") {
		if c.Node != node {
			continue
		}
		port = "6443"
		if v, given := c.Flag("secure-port"); given {
			port = v
		}
		address, given := c.Flag("bind-address")
		ip := net.ParseIP(address)
		return port, !given || ip != nil && ip.IsUnspecified(), true
	}
	return "", false, false
}
