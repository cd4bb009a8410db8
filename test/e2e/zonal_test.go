package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/zonal"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
)

// service is a Service that asks for a mirror.
func service(name string, port int) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"holdfast.dev/zonal": "true"}},
		"spec": map[string]any{
			"selector": map[string]any{"app": name}, "trafficDistribution": "PreferClose",
			"ports": []any{
				map[string]any{"name": "http", "port": port, "targetPort": 8080, "appProtocol": "http"},
				map[string]any{"name": "dns", "port": 53, "protocol": "UDP"}, map[string]any{"name": "sig", "port": 54, "protocol": "SCTP"},
			},
		},
	}
}

// leads waits until the mirror leads to the Service's ClusterIP by its ports,
// and returns how long that took.
func (m *mirrored) leads(name string) time.Duration {
	m.t.Helper()
	start := time.Now()
	m.until("mirror of "+name, 60*time.Second, func() error {
		real, _ := m.ask("c", http.MethodGet, shopServices+"/"+name, nil)
		mirror, code := m.ask("c", http.MethodGet, shopServices+"/"+name+"-zonal", nil)
		slice, code2 := m.ask("c", http.MethodGet, shopSlices+"/"+name+"-zonal", nil)
		if code != http.StatusOK || code2 != http.StatusOK {
			return fmt.Errorf("mirror %d, slice %d", code, code2)
		}
		ip := real["spec"].(map[string]any)["clusterIP"]
		want, got := portsOf(real["spec"].(map[string]any)), portsOf(mirror["spec"].(map[string]any))
		endpoints, _ := slice["endpoints"].([]any)
		switch {
		case want != got || want != portsOf(slice):
			return fmt.Errorf("ports %s, %s in the mirror, %s in the slice", want, got, portsOf(slice))
		case len(endpoints) != 1 || fmt.Sprint(endpoints[0].(map[string]any)["addresses"]) != fmt.Sprintf("[%s]", ip):
			return fmt.Errorf("leads to %v, not %s", endpoints, ip)
		case mirror["spec"].(map[string]any)["trafficDistribution"] != nil || mirror["spec"].(map[string]any)["selector"] != nil:
			return fmt.Errorf("mirror %v", mirror["spec"])
		}
		return nil
	})
	return time.Since(start).Round(10 * time.Millisecond)
}

func portsOf(o map[string]any) string {
	var all []string
	list, _ := o["ports"].([]any)
	for _, each := range list {
		p := each.(map[string]any)
		all = append(all, fmt.Sprintf("%v %v/%v %v", p["name"], p["port"], p["protocol"], p["appProtocol"]))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestZonal(t *testing.T) {
	m := startMirrored(t)
	m.credentials()

	m.step("without rights", m.withoutRights)
	m.apply()
	seen := m.witness()
	m.step("mirrors", m.begins)
	m.besideOthers(t, func() {
		m.step("refuses", m.refuses)
		m.step("follows", func() { m.follows(seen) })
		m.step("families change", m.familiesChange)
	})
	m.step("warns", m.warns)
	m.step("survives", m.survives)
	m.step("cleans up", m.cleansUp)
	m.costs()
	if len(seen.bad) > 1 || len(seen.bad) == 1 && !strings.HasPrefix(seen.bad[0], "web-zonal with 0") { // what follows did itself
		t.Errorf("a watching proxy saw %v", seen.bad)
	}
}

// besideOthers has what concerns the agent that acts run beside what does not: a
// list of its own, and Locks that take its apiserver from the agent that stands by.
func (m *mirrored) besideOthers(t *testing.T, run func()) {
	idle := map[string]string{"a": "b", "b": "a"}[m.awaitActing()]
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { t.Run("a large collection", func(t *testing.T) { m.with(t).large() }) })
	others.Go(func() { t.Run("Leases", func(t *testing.T) { m.with(t).leases(idle) }) })
	run()
}

// with is m for another test that runs beside.
func (m *mirrored) with(t *testing.T) *mirrored {
	other := *m
	other.cluster = &cluster{t: t, lab: m.lab, agents: m.agents}
	return &other
}

// withoutRights says which are missing, and touches nothing.
func (m *mirrored) withoutRights() {
	m.t.Helper()
	m.run("a")
	m.until("says what it may not", 30*time.Second, func() error {
		s, err := m.status("a")
		if err != nil {
			return err
		}
		if !strings.Contains(s.Conditions["services"], "may not list and watch services: apply what `holdfast zonal manifest` prints") || s.Complete {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if err := m.agents["a"].child.Stop(m.t.Context(), 10*time.Second); err != nil {
		m.t.Fatal(err)
	}
}

// begins has a first mirror, and a replica that stands by.
func (m *mirrored) begins() {
	m.t.Helper()
	m.must(http.MethodPost, shopServices, service("web", 80))
	m.run("a")
	m.run("b")
	m.t.Logf("the first mirror after %v, the time of a Lease that was missing included", m.leads("web"))
	m.until("b stands by", 20*time.Second, func() error {
		s, err := m.status("b")
		if err == nil && (!s.Complete || s.Holder == "" || s.Mirrors[0].State != zonal.Kept) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
}

// follows changes the Service, and the mirror by hand.
func (m *mirrored) follows(seen *witness) {
	m.t.Helper()
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"name": "http", "port": 81}}}})
	m.t.Logf("a port that changed after %v", m.leads("web"))
	m.must(http.MethodPatch, shopSlices+"/web-zonal", map[string]any{"endpoints": []any{}})
	m.t.Logf("a slice that somebody emptied after %v", m.leads("web"))
	m.must(http.MethodPatch, shopServices+"/web-zonal", map[string]any{"spec": map[string]any{"type": "NodePort", "selector": map[string]any{"a": "b"}, "trafficDistribution": "PreferClose"}})
	m.leads("web")
	m.must(http.MethodPatch, shopServices+"/web-zonal", map[string]any{"spec": map[string]any{"type": "ExternalName", "externalName": "x.example.org"}})
	m.leads("web")
	m.must(http.MethodPatch, shopServices+"/web-zonal", map[string]any{"spec": map[string]any{"type": "LoadBalancer", "loadBalancerSourceRanges": []any{"10.0.0.0/8"}}})
	m.leads("web")
	// Deleted and made again, which gives it another address, while it is mirrored.
	m.must(http.MethodDelete, shopServices+"/web", nil)
	m.must(http.MethodPost, shopServices, service("web", 82))
	m.t.Logf("a Service that was made again after %v, its slice deleted %d times", m.leads("web"), seen.deletions("web-zonal"))
}

// familiesChange has a Service of both families, then of one, then of the other.
func (m *mirrored) familiesChange() {
	m.t.Helper()
	dual := func(spec map[string]any) map[string]any {
		s := service("dual", 80)
		for k, v := range spec {
			s["spec"].(map[string]any)[k] = v
		}
		return s
	}
	m.must(http.MethodPost, shopServices, dual(map[string]any{"ipFamilyPolicy": "RequireDualStack"}))
	m.families("dual", "IPv4", "IPv6")
	m.must(http.MethodPatch, shopServices+"/dual", map[string]any{"spec": map[string]any{"ipFamilyPolicy": "SingleStack"}})
	m.families("dual", "IPv4")
	m.must(http.MethodPatch, shopServices+"/dual", map[string]any{"spec": map[string]any{"ipFamilyPolicy": "PreferDualStack"}})
	m.families("dual", "IPv4", "IPv6")
	m.must(http.MethodDelete, shopServices+"/dual", nil)
	m.must(http.MethodPost, shopServices, dual(map[string]any{"ipFamilies": []any{"IPv6"}}))
	m.families("dual", "IPv6")
	m.must(http.MethodDelete, shopServices+"/dual", nil)
	m.families("dual")
}

// families waits until the mirror and its slices are of the given families and
// lead to the Service's addresses.
func (m *mirrored) families(name string, want ...string) {
	m.t.Helper()
	start := time.Now()
	m.until(fmt.Sprintf("mirror of %s in %v", name, want), 30*time.Second, func() error {
		real, _ := m.ask("c", http.MethodGet, shopServices+"/"+name, nil)
		mirror, code := m.ask("c", http.MethodGet, shopServices+"/"+name+"-zonal", nil)
		if (code == http.StatusOK) != (len(want) > 0) {
			return fmt.Errorf("mirror %d", code)
		}
		if len(want) > 0 && fmt.Sprint(mirror["spec"].(map[string]any)["ipFamilies"]) != fmt.Sprint(want) {
			return fmt.Errorf("mirror %v", mirror["spec"])
		}
		for family, suffix := range map[string]string{"IPv4": "", "IPv6": "-ipv6"} {
			slice, code := m.ask("c", http.MethodGet, shopSlices+"/"+name+"-zonal"+suffix, nil)
			i := slices.Index(want, family)
			if (code == http.StatusOK) != (i >= 0) {
				return fmt.Errorf("slice of %s: %d", family, code)
			}
			if i < 0 {
				continue
			}
			ip := real["spec"].(map[string]any)["clusterIPs"].([]any)[i]
			if e := slice["endpoints"].([]any); len(e) != 1 || fmt.Sprint(e[0].(map[string]any)["addresses"]) != fmt.Sprintf("[%s]", ip) {
				return fmt.Errorf("slice of %s: %v, not %s", family, e, ip)
			}
			refs := slice["metadata"].(map[string]any)["ownerReferences"].([]any)
			if refs[0].(map[string]any)["uid"] != mirror["metadata"].(map[string]any)["uid"] {
				return fmt.Errorf("slice of %s belongs to another mirror", family)
			}
		}
		return nil
	})
	m.t.Logf("families %v after %v", want, time.Since(start).Round(10*time.Millisecond))
}

// warns has nodes in three zones, one of them of the control plane alone, and
// endpoints in one.
func (m *mirrored) warns() {
	m.t.Helper()
	for zone, labels := range map[string]map[string]any{"a": {}, "b": {}, "w": {"node-role.kubernetes.io/control-plane": ""}} {
		labels["topology.kubernetes.io/zone"] = zone
		m.must(http.MethodPost, "/api/v1/nodes", map[string]any{"metadata": map[string]any{"name": "node-" + zone, "labels": labels}})
	}
	slice := map[string]any{
		"metadata":    map[string]any{"name": "web-1", "labels": map[string]any{"kubernetes.io/service-name": "web"}},
		"addressType": "IPv4", "endpoints": []any{map[string]any{"addresses": []any{"10.1.0.1"}, "zone": "a"}},
	}
	m.must(http.MethodPost, shopSlices, slice)
	m.warned("no ready endpoint in zone b: ")
	m.must(http.MethodPatch, shopSlices+"/web-1", map[string]any{"endpoints": []any{
		map[string]any{"addresses": []any{"10.1.0.1"}, "zone": "a"}, map[string]any{"addresses": []any{"10.1.0.2"}, "zone": "b"},
	}})
	m.warned("")
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"trafficDistribution": nil}})
	m.warned("trafficDistribution is not set: traffic goes to every zone; set PreferSameZone")
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"trafficDistribution": "PreferSameZone"}})
	m.warned("")
}

// warned waits until the one warning about web is the given one; "" is none.
func (m *mirrored) warned(want string) {
	m.t.Helper()
	m.until(fmt.Sprintf("warning %q", want), 20*time.Second, func() error {
		s, err := m.status("a")
		if err != nil {
			return err
		}
		for _, each := range s.Mirrors {
			if each.Service == "web" && (want == "" && len(each.Warnings) == 0 || want != "" && len(each.Warnings) == 1 && strings.HasPrefix(each.Warnings[0], want)) {
				return nil
			}
		}
		return fmt.Errorf("%+v", s.Mirrors)
	})
}

// refuses leaves what is somebody else's, and says so where people look.
func (m *mirrored) refuses() {
	m.t.Helper()
	foreign := m.must(http.MethodPost, shopServices, map[string]any{"metadata": map[string]any{"name": "api-zonal"}, "spec": map[string]any{"ports": []any{map[string]any{"port": 1}}}})
	m.must(http.MethodPost, shopServices, service("api", 80))
	m.must(http.MethodPost, shopSlices, map[string]any{"metadata": map[string]any{"name": "pay-zonal"}, "addressType": "IPv4", "endpoints": []any{}})
	m.must(http.MethodPost, shopServices, service("pay", 80))
	headless := service("db", 80)
	headless["spec"].(map[string]any)["clusterIP"] = "None"
	m.must(http.MethodPost, shopServices, headless)
	for name, reason := range map[string]string{"api": "NameTaken", "pay": "SliceNameTaken", "db": "Headless"} {
		m.until("an Event on "+name, 30*time.Second, func() error {
			list, _ := m.ask("c", http.MethodGet, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="+name, nil)
			items, _ := list["items"].([]any)
			for _, each := range items {
				if e := each.(map[string]any); e["reason"] == "Zonal"+reason && e["type"] == "Warning" {
					return nil
				}
			}
			return fmt.Errorf("none with reason Zonal%s among %d", reason, len(items))
		})
		m.until("status of "+name, 30*time.Second, func() error {
			site, err := m.acting()
			if err != nil {
				return err
			}
			s, err := m.status(site)
			i := slices.IndexFunc(s.Mirrors, func(x zonal.MirrorStatus) bool { return x.Service == name })
			if err != nil || i < 0 || s.Mirrors[i].State != zonal.Refused || s.Mirrors[i].Reason != reason {
				return fmt.Errorf("%+v, %v", s.Mirrors, err)
			}
			return nil
		})
	}
	after, _ := m.ask("c", http.MethodGet, shopServices+"/api-zonal", nil)
	if version(after) != version(foreign) {
		m.t.Errorf("the foreign Service was written")
	}
	m.must(http.MethodDelete, shopSlices+"/pay-zonal", nil)
	if m.lease == lease.DefaultDuration {
		// Nothing else happens: names are looked at every 30 s. Else it is awaited
		// when clean-up begins, after what else makes the agents look.
		m.t.Logf("a name that became free after %v", m.leads("pay"))
	}
}

func version(o map[string]any) any { return o["metadata"].(map[string]any)["resourceVersion"] }

// survives loses apiservers and the replica that acts.
func (m *mirrored) survives() {
	m.t.Helper()
	site := m.awaitActing()
	own := m.servers[site]
	if err := own.Signal(syscall.SIGSTOP); err != nil {
		m.t.Fatal(err)
	}
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"name": "http", "port": 83}}}})
	m.t.Logf("with its apiserver frozen after %v", m.leads("web"))
	if err := own.Signal(syscall.SIGCONT); err != nil {
		m.t.Fatal(err)
	}
	site = m.awaitActing()
	other := map[string]string{"a": "b", "b": "a"}[site]
	if err := m.agents[site].child.Signal(syscall.SIGKILL); err != nil {
		m.t.Fatal(err)
	}
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"name": "http", "port": 84}}}})
	took := m.leads("web")
	m.t.Logf("with the replica that acted killed after %v", took)
	if took > m.lease+10*time.Second {
		m.t.Errorf("the other replica took %v to act", took)
	}
	delete(m.agents, site)
	if now, err := m.acting(); err != nil || now != other {
		m.t.Errorf("%s acts, %v", now, err)
	}
	m.run(site)
}

// cleansUp takes Services away; no controller manager runs, so that nobody but
// the agent removes anything.
func (m *mirrored) cleansUp() {
	m.t.Helper()
	m.t.Logf("a name that became free after another %v", m.leads("pay"))
	m.must(http.MethodPatch, shopServices+"/web", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"holdfast.dev/zonal": nil}}})
	m.must(http.MethodDelete, shopServices+"/pay", nil)
	for _, name := range []string{"web-zonal", "pay-zonal"} {
		m.until(name+" goes", 20*time.Second, func() error {
			_, service := m.ask("c", http.MethodGet, shopServices+"/"+name, nil)
			_, slice := m.ask("c", http.MethodGet, shopSlices+"/"+name, nil)
			if service != http.StatusNotFound || slice != http.StatusNotFound {
				return fmt.Errorf("service %d, slice %d", service, slice)
			}
			return nil
		})
	}
	if _, code := m.ask("c", http.MethodGet, shopServices+"/api-zonal", nil); code != http.StatusOK {
		m.t.Error("the foreign Service is gone")
	}
}

// costs tells the memory of the agents, and how often they write at rest.
func (m *mirrored) costs() {
	m.t.Helper()
	for site, a := range m.agents {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.child.Pid()))
		if err != nil {
			m.t.Error(err)
			continue
		}
		var line []string
		for _, l := range strings.Split(string(data), "\n") {
			if strings.HasPrefix(l, "VmRSS") || strings.HasPrefix(l, "RssAnon") {
				line = append(line, strings.Join(strings.Fields(l), " "))
			}
		}
		m.t.Logf("agent %s: %s", site, strings.Join(line, ", "))
	}
}

// large follows a collection that fits neither into one answer nor into a page of
// the usual size.
func (m *mirrored) large() {
	m.t.Helper()
	const path, n = "/api/v1/namespaces/default/configmaps", 10
	for i := range n {
		m.must(http.MethodPost, path, map[string]any{
			"metadata": map[string]any{"name": fmt.Sprintf("large-%d", i), "labels": map[string]any{"large": "true"}},
			"data":     map[string]any{"x": strings.Repeat("x", 1_000_000)},
		})
	}
	type named struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	a := m.apiserver("c")
	listed, changed := make(chan int, 9), make(chan string, 99)
	f := kubeapi.Follower[named]{
		Connect: kubeapi.Connector(a.PKI().AdminConf, "", a.Node().DialContext), Path: path, Selector: "large=true",
		Replace: func(all []named) { listed <- len(all) },
		Apply:   func(e kubeapi.Event[named]) { changed <- e.Object.Metadata.Name },
		Report: func(err error) {
			if err != nil && m.t.Context().Err() == nil {
				m.t.Errorf("a large collection: %v", err)
			}
		},
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	start := time.Now()
	go func() { _ = f.Run(ctx); close(done) }()
	select {
	case got := <-listed:
		m.t.Logf("%d objects of 1 MB listed after %v", got, time.Since(start).Round(10*time.Millisecond))
		if got != n {
			m.t.Errorf("listed %d of %d", got, n)
		}
	case <-ctx.Done():
		m.t.Fatal("a large collection is never listed")
	}
	m.must(http.MethodDelete, path+"/large-3", nil)
	select {
	case got := <-changed:
		if got != "large-3" {
			m.t.Errorf("%s changed", got)
		}
	case <-ctx.Done():
		m.t.Error("the watch after a list in pages tells nothing")
	}
}
