package slices

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

const (
	// signEvery is how often the own Lease is renewed: as often as an apiserver
	// renews its identity Lease, and 0.1 writes a second.
	signEvery = 10 * time.Second
	// signAgain follows a renewal that failed; it doubles up to signEvery.
	signAgain = time.Second
	// signDenied follows one that only a person can help.
	signDenied = 30 * time.Second
	// signLasts stands in the Lease for people.
	signLasts = 30
	// signLate is when a person should know that renewals do not succeed.
	signLate = 15 * time.Second
)

// holderOf is what this machine writes as holder of the Lease of its node's
// agent. It stays when the agent restarts and differs between two machines that
// were given one name: by their boot, and by the address they are reached at,
// for containers of one kernel share the former. The addresses of the Node would
// not do: two machines of one name read the same Node.
func holderOf(node string, sources []string) string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	first := ""
	if len(sources) > 0 {
		first = sources[0]
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(boot)) + " " + first))
	return node + "_" + hex.EncodeToString(sum[:4])
}

// documentation are addresses that nothing has (RFC 5737, 3849), IPv4 first: the
// order decides who an agent of a machine with both is.
var documentation = [...]struct{ network, address string }{{"udp4", "192.0.2.1:9"}, {"udp6", "[2001:db8::1]:9"}}

// sourceAddresses are those from which this machine would reach another network.
// Nothing is sent.
func sourceAddresses() []string {
	var all []string
	for _, to := range documentation {
		if conn, err := net.Dial(to.network, to.address); err == nil {
			host, _, _ := net.SplitHostPort(conn.LocalAddr().String())
			all = append(all, host)
			_ = conn.Close()
		}
	}
	return all
}

// sign renews the own Lease until ctx ends.
func (a *agent) sign(ctx context.Context) {
	failed := 0
	for {
		wait := signAgain
		if a.maySign() {
			err := a.renew(ctx)
			if failed++; err == nil {
				failed = 0
			}
			a.signed(ctx, err)
			wait = signWait(err, failed)
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// signWait is how long to wait after a renewal, and so many failures in a row.
func signWait(err error, failed int) time.Duration {
	switch {
	case err == nil:
		return signEvery - rand.N(signEvery/25)
	case kubeapi.Code(err) == http.StatusForbidden:
		return signDenied
	}
	return min(signAgain<<min(failed-1, 4), signEvery)
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
			"Lease %s/%s was not renewed for %s (%v): see that this node reaches the API; after %s without it and without the apiserver's own the others mark this node's endpoint unready",
			leaseNamespace, leaseName(a.settings.Node), late.Round(time.Second), err, a.settings.Lapse))
	}
}

// errTaken is why a Lease is not written that was changed meanwhile: the watch
// has to show by whom.
var errTaken = errors.New("somebody else has just written it; look whether two machines have this node's name")

// renew writes the own Lease, at the version that is known: of two who see it free
// only one gets it. Where another one stands it is read, and written once more if
// it is still ours or nobody's.
func (a *agent) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	client, err := a.cluster.Client()
	if err != nil {
		return err
	}
	path := leasesPath + "/" + url.PathEscape(leaseName(a.settings.Node))
	version := a.signVersion()
	for range 2 {
		var now coordination.Lease
		if now, err = a.put(ctx, client, path, version); err == nil {
			a.setSignVersion(now.ResourceVersion)
			return nil
		}
		if !conflict(err) {
			return err
		}
		object, again := get[coordination.Lease](ctx, client, path)
		switch {
		case again != nil:
			return again
		case object == nil:
			version = ""
		case deref(object.Spec.HolderIdentity) != "" && deref(object.Spec.HolderIdentity) != a.holder:
			return fmt.Errorf("renew lease %s: held by %s: %w", leaseName(a.settings.Node), deref(object.Spec.HolderIdentity), errTaken)
		default:
			version = object.ResourceVersion
		}
	}
	return err
}

// signVersion is the newest version of the own Lease that is known; "" is none.
func (a *agent) signVersion() string {
	seen, _ := a.world.lease(leaseName(a.settings.Node))
	a.mu.Lock()
	defer a.mu.Unlock()
	if newer(a.signedAs, seen.Token) || seen.Token == "" {
		return a.signedAs
	}
	return seen.Token
}

func (a *agent) setSignVersion(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signedAs = version
}

// put makes the Lease, or changes it at that version.
func (a *agent) put(ctx context.Context, client *kubeapi.Client, path, version string) (now coordination.Lease, err error) {
	body, err := json.Marshal(a.signature(version))
	if err != nil {
		return now, err
	}
	var data []byte
	if version == "" {
		data, err = client.Create(ctx, leasesPath, body)
	} else {
		data, err = client.Patch(ctx, path, body)
	}
	if err != nil {
		return now, err
	}
	return readObject[coordination.Lease]("lease", data)
}

// signature is what stands in the Lease: all of a new one, or what changes of the
// one at that version.
func (a *agent) signature(version string) map[string]any {
	annotations := map[string]any{plan.DistanceAnnotation: formatDistances(a.near.distances())}
	switch identity := a.ownIdentity(); {
	case identity != "":
		annotations[plan.ApiserverAnnotation] = identity
	case version != "":
		annotations[plan.ApiserverAnnotation] = nil
	}
	metadata := map[string]any{
		"annotations": annotations,
		"labels":      map[string]string{labelManaged: plan.ManagedBy, core.LabelHostname: labelled(a.settings.Node)},
	}
	if version == "" {
		metadata["namespace"], metadata["name"] = leaseNamespace, leaseName(a.settings.Node)
	} else {
		metadata["resourceVersion"] = version
	}
	// Of the wall clock, for people; others see only that it changed.
	renewed := meta.NewMicroTime(time.Now().Truncate(time.Microsecond))
	return map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
		"spec": map[string]any{"holderIdentity": a.holder, "leaseDurationSeconds": signLasts, "renewTime": renewed},
	}
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
	version := a.signVersion()
	if version == "" {
		return // it was never written
	}
	body := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"holderIdentity":null,"renewTime":null}}`, version)
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
