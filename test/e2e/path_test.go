package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// TestPath has the kube-proxy of a know no zone. `slices path` and the agent of a
// tell, those of b do not; and after a restart all is well again.
func TestPath(t *testing.T) {
	r := startRouted(t)
	r.manifest("rbac", "--node", strings.Join([]string{r.node("a"), r.node("b"), r.node("c")}, ","))
	r.kubeconfig = r.account()
	for _, site := range sites {
		r.run(site, "--path-period=1s")
	}
	for _, site := range []string{"a", "b"} {
		r.settles(site)
	}
	for _, site := range []string{"a", "b"} {
		r.awaitPath(site, "kept", 30*time.Second)
		r.awaitProblem(site, "zone-ignored", false, time.Second)
	}
	config := r.forgetZone("a")
	r.awaitProblem("a", "zone-ignored", true, 60*time.Second)
	r.awaitPath("a", "strays", time.Second)
	said, err := r.path("a")
	if code(err) != 1 || !strings.Contains(said, "connections left zone a, to") || !strings.Contains(said, "kube-proxy on this node does not honour zones: restart it") {
		t.Errorf("a kube-proxy without zone: %v:\n%s", err, said)
	}
	if testing.Verbose() {
		t.Logf("without a zone:\n%s", said)
	}
	r.nodeEvent("a", "ZoneIgnored")
	// What kube-proxy may read is enough, too.
	said, err = r.path("b", "--kubeconfig", r.apiserver("b").PKI().KubeProxyConf, "--json")
	if err != nil || !strings.Contains(said, `"verdict": "kept"`) {
		t.Errorf("a well kube-proxy: %v:\n%s", err, said)
	}
	r.awaitProblem("b", "zone-ignored", false, time.Second)

	r.renewProxy("a", config)
	r.settles("a")
	r.awaitProblem("a", "zone-ignored", false, 60*time.Second)
	r.awaitPath("a", "kept", time.Second)
	for what, want := range map[string]int{`"level":"WARN","msg":"a connection of node`: 1, `"msg":"well again","problem":"zone-ignored"`: 1} {
		if n := strings.Count(r.agents["a"].log.String(), what); n != want {
			t.Errorf("the agent of a logged %s %d times", what, n)
		}
	}
	if strings.Contains(r.agents["b"].log.String(), "zone-ignored") {
		t.Error("the agent of b complained")
	}
}

// path runs the command on the node of a site.
func (r *routed) path(site string, args ...string) (string, error) {
	r.t.Helper()
	return r.byHand(site, append([]string{"path", "--node", r.node(site)}, args...)...)
}

// code is the exit code that a command ended with.
func code(err error) int {
	var ended interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.ExitCode()
	}
	return -1
}

// settles waits until connections from the node of a site stay. Its kube-proxy
// may have missed its zone at its start, as it does: then it is started anew.
func (r *routed) settles(site string) {
	r.t.Helper()
	r.until("connections of "+site+" stay in their zone", 90*time.Second, func() error {
		said, err := r.path(site)
		if err == nil {
			return nil
		}
		if code(err) == 1 {
			r.t.Logf("kube-proxy of %s has missed its zone", site)
			r.renewProxy(site, nil)
		}
		return fmt.Errorf("%w: %s", err, said)
	})
}

// renewProxy starts the kube-proxy of a site anew, with a config unless nil.
func (r *routed) renewProxy(site string, config []byte) {
	r.t.Helper()
	proxy, err := r.lab.KubeProxy(r.node(site))
	if err != nil {
		r.t.Fatal(err)
	}
	if config != nil {
		if err := os.WriteFile(configOf(proxy), config, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := proxy.Stop(r.within(20 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	if err := proxy.Start(r.within(60 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
}

func configOf(proxy *lab.KubeProxy) string {
	for _, arg := range proxy.Argv() {
		if file, ok := strings.CutPrefix(arg, "--config="); ok {
			return file
		}
	}
	return ""
}

// forgetZone starts the kube-proxy of a site under the name of a Node that has no
// zone, and returns the config that it had.
func (r *routed) forgetZone(site string) []byte {
	r.t.Helper()
	const name = "unlabelled"
	n := core.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.make("/api/v1/nodes", n)
	n.Status.Addresses = []core.NodeAddress{{Type: core.NodeInternalIP, Address: r.member(site).Node().IP().String()}}
	if err := r.ask("a", http.MethodPatch, "/api/v1/nodes/"+name+"/status", map[string]any{"status": n.Status}, nil); err != nil {
		r.t.Fatal(err)
	}
	proxy, err := r.lab.KubeProxy(r.node(site))
	if err != nil {
		r.t.Fatal(err)
	}
	before, err := os.ReadFile(configOf(proxy))
	if err != nil {
		r.t.Fatal(err)
	}
	after := strings.Replace(string(before), "hostnameOverride: "+r.node(site), "hostnameOverride: "+name, 1)
	if after == string(before) {
		r.t.Fatalf("the config of kube-proxy names no node:\n%s", before)
	}
	r.renewProxy(site, []byte(after))
	return before
}

func (r *routed) awaitPath(site, want string, within time.Duration) {
	r.t.Helper()
	r.until(fmt.Sprintf("agent %s says that its path is %s", site, want), within, func() error {
		s, err := r.status(site)
		if err == nil && s.Path != want {
			err = fmt.Errorf("it says %s", s.Path)
		}
		return err
	})
}

// nodeEvent waits for an Event that kubectl describe node shows.
func (r *routed) nodeEvent(site, reason string) {
	r.t.Helper()
	r.until("an Event "+reason+" at the Node of "+site, 20*time.Second, func() error {
		var all core.EventList
		if err := r.ask("a", http.MethodGet, "/api/v1/namespaces/default/events?fieldSelector=reason="+reason, nil, &all); err != nil {
			return err
		}
		for i := range all.Items {
			if about := all.Items[i].InvolvedObject; about.Kind == "Node" && string(about.UID) == r.node(site) && about.Name == r.node(site) {
				return nil
			}
		}
		return fmt.Errorf("none among %d", len(all.Items))
	})
}
