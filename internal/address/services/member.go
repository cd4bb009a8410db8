package services

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	// Label is on every Lease of this package, with one of the values below.
	Label         = "holdfast.dev/services"
	valueElection = "election"
	valueMember   = "member"
	// annotationAt says where a member hears the others.
	annotationAt = "holdfast.dev/at"
	memberPrefix = "holdfast-services-member-"

	// sayEvery is how often a member says that it is there: for whoever sweeps up
	// after machines that are gone for good, which is no matter of seconds.
	sayEvery = time.Minute
	// retrySay follows a failure.
	retrySay = 5 * time.Second
)

// PeerName is a node as a peer: 63 bytes at most, and other than that of every
// other node.
func PeerName(node string) string {
	if len(node) <= 63 {
		return node
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(node)) // which cannot fail
	return fmt.Sprintf("%s-%016x", node[:40], h.Sum64())
}

// members are the machines with an agent, as their Leases say.
type members struct {
	cluster   *kubeapi.Cluster
	namespace string
	self      lease.Peer
	report    func(error)
	changed   func()

	mu     sync.Mutex
	listed bool
	all    map[string]member // by the name of the Lease
}

type member struct {
	peer    lease.Peer
	version string
	seen    time.Time // of this version
}

func leases(namespace string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/leases"
}

// peers are all members, this one among them, sorted by name; false before they
// have been read.
func (m *members) peers() ([]lease.Peer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []lease.Peer{m.self}
	for _, o := range m.all {
		if o.peer.Name != m.self.Name {
			all = append(all, o.peer)
		}
	}
	slices.SortFunc(all, func(a, b lease.Peer) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b lease.Peer) bool { return a.Name == b.Name }), m.listed
}

// run says that this member is there, and follows the others, until ctx ends.
func (m *members) run(ctx context.Context) {
	go m.say(ctx)
	f := &kubeapi.Follower[coordination.Lease]{
		Connect: m.cluster.Connect, Path: leases(m.namespace), Selector: Label + "=" + valueMember, Report: m.heard,
		Replace: func(all []coordination.Lease) {
			m.update(func() {
				was := m.all
				m.all, m.listed = map[string]member{}, true
				for i := range all {
					m.set(&all[i], was)
				}
			})
		},
		Apply: func(e kubeapi.Event[coordination.Lease]) {
			m.update(func() {
				if e.Deleted {
					delete(m.all, e.Object.Name)
					return
				}
				m.set(&e.Object, m.all)
			})
		},
	}
	_ = f.Run(ctx) // whose error is that of ctx
}

func (m *members) update(do func()) {
	m.mu.Lock()
	do()
	m.mu.Unlock()
	m.changed()
}

// set takes in a Lease. One that says nothing of use is nobody's.
func (m *members) set(object *coordination.Lease, was map[string]member) {
	at, err := netip.ParseAddrPort(object.Annotations[annotationAt])
	holder := object.Spec.HolderIdentity
	if err != nil || at.Port() == 0 || holder == nil || *holder == "" {
		delete(m.all, object.Name)
		return
	}
	o := member{peer: lease.Peer{Name: PeerName(*holder), Address: at}, version: object.ResourceVersion, seen: time.Now()}
	if before := was[object.Name]; before.version == o.version {
		o.seen = before.seen
	}
	m.all[object.Name] = o
}

// heard notes that the API was reached, or was not: then nobody can be blamed for
// saying nothing.
func (m *members) heard(err error) {
	m.report(err)
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, o := range m.all {
		o.seen = time.Now()
		m.all[name] = o
	}
}

// silent are the names and versions of members that have said nothing for longer
// than d.
func (m *members) silent(d time.Duration) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]string{}
	for name, o := range m.all {
		if time.Since(o.seen) > d && o.peer.Name != m.self.Name {
			all[name] = o.version
		}
	}
	return all
}

// say writes this member's Lease again and again.
func (m *members) say(ctx context.Context) {
	for ctx.Err() == nil {
		wait := sayEvery - rand.N(sayEvery/10)
		err := m.write(ctx)
		if err != nil {
			wait = retrySay
		}
		m.report(err)
		pause(ctx, wait)
	}
}

func (m *members) write(ctx context.Context) error {
	client, err := m.cluster.Client()
	if err != nil {
		return fmt.Errorf("say that this machine is there: %w", err)
	}
	name := memberPrefix + m.self.Name
	object := map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{
			"name": name, "namespace": m.namespace,
			"labels": map[string]string{Label: valueMember}, "annotations": map[string]string{annotationAt: m.self.Address.String()},
		},
		"spec": map[string]any{
			"holderIdentity": m.self.Name, "leaseDurationSeconds": int(3 * sayEvery / time.Second),
			"renewTime": meta.NewMicroTime(time.Now().Truncate(time.Microsecond)), // for people
		},
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if _, err = client.Patch(ctx, leases(m.namespace)+"/"+url.PathEscape(name), body); kubeapi.Code(err) == http.StatusNotFound {
		_, err = client.Create(ctx, leases(m.namespace), body)
	}
	if err != nil {
		return fmt.Errorf("say that this machine is there: %w", err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
