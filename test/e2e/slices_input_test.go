package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mistake is an agent that cannot do what it is told, and what it has to say.
type mistake struct {
	name  string
	flags []string
	event string // its reason; "" is none
	want  []string
	agent *agent
}

// badInput starts agents that cannot do what they are told, all at once, and looks
// at what they say; endpoints stay as they are.
func (z *zoned) badInput() {
	all := z.mistakes()
	for i := range all {
		// The rights of the others are bound to their names.
		flags := []string{"--telemetry=127.0.0.1:0", "--kubeconfig=" + z.apiserver("a").PKI().AdminConf}
		all[i].agent = z.launch("a", "mistaken", append(flags, all[i].flags...)...)
	}
	z.complain(all)
}

// mistakes have nodes of their own, and what they need in the API.
func (z *zoned) mistakes() []mistake {
	z.t.Helper()
	ghost := discovery.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes-ghost"},
		AddressType: discovery.AddressTypeIPv4, Endpoints: []discovery.Endpoint{},
	}
	if err := z.ask("a", http.MethodPost, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", ghost, nil); err != nil {
		z.t.Fatal(err)
	}
	for _, name := range []string{"nowhere", "idle", "sixth"} {
		node := core.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := z.ask("a", http.MethodPost, "/api/v1/nodes", node, nil); err != nil {
			z.t.Fatal(err)
		}
	}
	return []mistake{
		{name: "no zone", flags: []string{"--node=nowhere", "--identity=nowhere", "--address=10.0.0.9"}, event: "ZoneMissing",
			want: []string{"kubectl label node nowhere topology.kubernetes.io/zone=NAME"}},
		{name: "a foreign slice", flags: []string{"--node=ghost", "--zone=a", "--address=10.0.0.9"}, event: "NameTaken",
			want: []string{"kubernetes-ghost has no label endpointslice.kubernetes.io/managed-by"}},
		{name: "IPv6 alone", flags: []string{"--node=sixth", "--identity=sixth", "--zone=a", "--address=fd00::9"}, event: "FamilyMissing",
			want: []string{"slice kubernetes-sixth-ipv6", "the Service kubernetes is of family IPv4 and node sixth publishes no such address"}},
		{name: "no such node", flags: []string{"--node=missing"}, event: "NodeMissing", want: []string{"there is no Node named missing"}},
		{name: "two of one name", flags: []string{"--node=" + z.node("b")}, event: "NodeTwice",
			want: []string{"another agent renews the Lease of node " + z.node("b"), "writes nothing"}},
		{name: "no rights", flags: []string{"--node=idle", "--kubeconfig=" + z.apiserver("a").PKI().KubeletConf},
			want: []string{"may not list or watch endpointslices in namespace default", "holdfast slices manifest rbac"}},
		{name: "no API", flags: []string{"--node=idle", "--server=https://127.0.0.1:1"},
			want: []string{"the API does not answer", "endpoints stay as they are"}},
	}
}

// complain waits until each has said what it has to say, and ends them.
func (z *zoned) complain(all []mistake) {
	z.t.Helper()
	for _, m := range all {
		z.until(m.name, 60*time.Second, func() error {
			for _, want := range m.want {
				if !strings.Contains(m.agent.log.String(), want) {
					return fmt.Errorf("nothing is said of %q; the last lines are\n%s", want, m.agent.log.tail())
				}
			}
			return z.hasEvent(m.event)
		})
		z.t.Logf("%s: %d warnings", m.name, strings.Count(m.agent.log.String(), `"level":"WARN"`))
	}
	ctx := z.within(30 * time.Second)
	var g errgroup.Group
	for _, m := range all {
		g.Go(func() error { return m.agent.child.Stop(ctx, 10*time.Second) })
	}
	if err := g.Wait(); err != nil {
		z.t.Fatal(err)
	}
	if err := z.ask("a", http.MethodDelete, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes-ghost", nil, nil); err != nil {
		z.t.Errorf("the foreign slice was touched: %v", err)
	}
	z.await("endpoints as they were", "c", 5*time.Second, calm)
}

// hasEvent says that an Event of that reason was written; "" is none.
func (z *zoned) hasEvent(reason string) error {
	var list core.EventList
	if err := z.ask("a", http.MethodGet, "/api/v1/namespaces/default/events", nil, &list); err != nil {
		return err
	}
	for _, e := range list.Items {
		if reason == "" || e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no Event %s", reason)
}
