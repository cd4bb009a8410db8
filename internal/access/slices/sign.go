package slices

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	// signEvery is how often the own Lease is renewed: as often as an apiserver
	// renews its identity Lease, and 0.1 writes a second.
	signEvery = 10 * time.Second
	// signAgain follows a renewal that failed.
	signAgain = time.Second
	// signLasts stands in the Lease for people.
	signLasts = 30
	// signLate is when a person should know that renewals do not succeed.
	signLate = 15 * time.Second
)

// holderOf is what this machine writes as holder of the Lease of its node's
// agent. It stays when the agent restarts and differs between two machines that
// were given one name: by their boot, and by the address they are reached at,
// for containers of one kernel share the former.
func holderOf(node string) string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(boot)) + " " + sourceAddress()))
	return node + "_" + hex.EncodeToString(sum[:4])
}

// sourceAddress is the address from which this machine would reach another
// network. Nothing is sent: the addresses are for documentation (RFC 5737, 3849).
func sourceAddress() string {
	for _, to := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // always the same one first
		if conn, err := net.Dial("udp", to); err == nil {
			defer func() { _ = conn.Close() }()
			host, _, _ := net.SplitHostPort(conn.LocalAddr().String())
			return host
		}
	}
	return ""
}

// sign renews the own Lease until ctx ends.
func (a *agent) sign(ctx context.Context) {
	for {
		wait := signEvery - rand.N(signEvery/25)
		if a.maySign() {
			err := a.renew(ctx)
			if err != nil {
				wait = signAgain
			}
			a.signed(ctx, err)
		} else {
			wait = signAgain
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// maySign says that the Lease of this node is nobody else's, as far as is known.
func (a *agent) maySign() bool {
	if !a.world.complete() {
		return false
	}
	_, _, facts := a.look()
	return facts.Rival == ""
}

// signed notes the outcome of a renewal.
func (a *agent) signed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	a.stats.signed(err)
	a.mu.Lock()
	if err == nil {
		a.renewed = time.Now()
	}
	since := a.renewed
	if since.IsZero() {
		since = a.started
	}
	a.mu.Unlock()
	if err == nil {
		a.ready.Set(condLease, nil)
		a.problems.set(codeLease, leaseName(a.settings.Node), "")
		return
	}
	if right, text := denied(err); text != "" {
		a.problems.set(codeDenied, right, text)
		a.ready.Set(condLease, err)
		return
	}
	if late := time.Since(since); late > signLate {
		a.ready.Set(condLease, err)
		a.problems.set(codeLease, leaseName(a.settings.Node), fmt.Sprintf(
			"Lease %s/%s was not renewed for %s: %v", leaseNamespace, leaseName(a.settings.Node), late.Round(time.Second), err))
	}
}

// renew writes the own Lease.
func (a *agent) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	client, err := a.cluster.Client()
	if err != nil {
		return err
	}
	name := leaseName(a.settings.Node)
	annotations := map[string]any{
		plan.ApiserverAnnotation: nil,
		plan.DistanceAnnotation:  formatDistances(a.near.distances()),
	}
	if identity := a.ownIdentity(); identity != "" {
		annotations[plan.ApiserverAnnotation] = identity
	}
	// Of the wall clock, for people; others see only that it changed.
	renewed := meta.NewMicroTime(time.Now().Truncate(time.Microsecond))
	metadata := map[string]any{
		"annotations": annotations,
		"labels":      map[string]string{labelManaged: plan.ManagedBy, core.LabelHostname: labelled(a.settings.Node)},
	}
	lease := map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
		"spec": map[string]any{"holderIdentity": a.holder, "leaseDurationSeconds": signLasts, "renewTime": renewed},
	}
	seen, known := a.world.lease(name)
	if known && seen.Holder != a.holder {
		// Of two who see it free only one may have it.
		metadata["resourceVersion"] = seen.Token
	}
	body, err := json.Marshal(lease)
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, leasesPath+"/"+url.PathEscape(name), body)
	if kubeapi.Code(err) != http.StatusNotFound {
		return err
	}
	delete(metadata, "resourceVersion")
	metadata["namespace"], metadata["name"] = leaseNamespace, name
	if annotations[plan.ApiserverAnnotation] == nil {
		delete(annotations, plan.ApiserverAnnotation)
	}
	if body, err = json.Marshal(lease); err != nil {
		return err
	}
	_, err = client.Create(ctx, leasesPath, body)
	return err
}

// ownIdentity is the Lease of the own apiserver. Its name is made of the host's,
// so it is kept in mind: an apiserver that stops in order deletes its Lease.
func (a *agent) ownIdentity() string {
	found := a.world.identityOf(a.hosts...)
	a.mu.Lock()
	defer a.mu.Unlock()
	if found != "" {
		a.identity = found
	}
	return a.identity
}

// leave gives the own Lease back, as a sign for whoever hands back that nobody
// publishes here any more. The endpoint stays.
func (a *agent) leave() {
	if !a.maySign() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client, err := a.cluster.Client()
	if err != nil {
		return
	}
	body := []byte(`{"spec":{"holderIdentity":null,"renewTime":null}}`)
	_, _ = client.Patch(ctx, leasesPath+"/"+url.PathEscape(leaseName(a.settings.Node)), body)
}

// pause waits; false says that ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
