package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

func (l *Lock) collection() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(l.Namespace) + "/leases"
}

func (l *Lock) path() string { return l.collection() + "/" + url.PathEscape(l.Name) }

// knowsItsOwn says that the record in memory is the one that this Lock wrote,
// so that it need not be read before it is renewed.
func (l *Lock) knowsItsOwn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, known := l.seen.Record()
	return known && !l.stale && l.version != "" && record.Holder == l.Identity
}

// mayTake says that the record which was just read leaves the Lease to us.
func (l *Lock) mayTake() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, _ := l.seen.Record()
	return l.absent || record.Holder == l.Identity || l.seen.Lapsed(l.clock())
}

// look reads the record.
func (l *Lock) look(ctx context.Context, client *kubeapi.Client) error {
	data, err := client.Get(ctx, l.path(), nil)
	switch {
	case kubeapi.Code(err) == http.StatusNotFound:
		l.missed()
		return nil
	case err != nil:
		return err
	}
	return l.saw(data, time.Time{})
}

// missed notes that there is no Lease. Somebody may have deleted it while another
// held it, who cannot know before it renews: so whoever creates it holds it only
// once that one's time is over. To have seen it missing for long proves nothing,
// for it may have been there between two looks.
func (l *Lock) missed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.version, l.transitions = Observed{}, "", 0
	l.absent, l.stale, l.fresh, l.until = true, false, true, time.Time{}
}

// saw notes an answer with the record. sent is when it was asked for in a write
// of ours, zero for a read.
func (l *Lock) saw(data []byte, sent time.Time) error {
	var object coordination.Lease
	if err := json.Unmarshal(data, &object); err != nil || object.ResourceVersion == "" {
		return fmt.Errorf("read lease %s: answer is not a Lease; is this a Kubernetes API?", l.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	record := recordOf(&object, l.duration())
	l.seen.See(record, l.clock())
	l.version, l.absent, l.stale, l.transitions = object.ResourceVersion, false, false, 0
	if n := object.Spec.LeaseTransitions; n != nil {
		l.transitions = *n
	}
	switch {
	case record.Holder != l.Identity:
		l.until, l.fresh = time.Time{}, false
	case l.fresh:
		l.from, l.fresh = l.clock().Add(l.duration()), false
	}
	if record.Holder == l.Identity && !sent.IsZero() {
		l.until = sent.Add(l.duration() - l.duration()/marginOf)
	}
	return nil
}

func recordOf(object *coordination.Lease, otherwise time.Duration) Record {
	r := Record{Duration: otherwise}
	spec := &object.Spec
	if spec.HolderIdentity != nil {
		r.Holder = *spec.HolderIdentity
	}
	if spec.LeaseDurationSeconds != nil && *spec.LeaseDurationSeconds > 0 {
		r.Duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	if spec.RenewTime != nil {
		r.Mark = spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	if spec.LeaseTransitions != nil {
		r.Mark += fmt.Sprintf(" %d", *spec.LeaseTransitions)
	}
	// Another Lease of the same name is another record.
	r.Mark += " " + string(object.UID)
	return r
}

// RecordOf reads a Lease that somebody else keeps.
func RecordOf(object *coordination.Lease) Record { return recordOf(object, DefaultDuration) }

// take writes the record, as a change of the version that was read.
func (l *Lock) take(ctx context.Context, client *kubeapi.Client) (err error) {
	body, create, err := l.claim()
	if err != nil {
		return err
	}
	sent := l.clock()
	var answer []byte
	if create {
		answer, err = client.Create(ctx, l.collection(), body)
	} else {
		answer, err = client.Patch(ctx, l.path(), body)
	}
	if err != nil {
		l.doubt()
		return err
	}
	return l.saw(answer, sent)
}

// doubt notes that the record may be another than the one in memory.
func (l *Lock) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = true
}

// claim is the body of the write that makes the Lease ours.
func (l *Lock) claim() (body []byte, create bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, _ := l.seen.Record()
	// Of the wall clock, for people; others only see that it changed.
	renewed := meta.NewMicroTime(time.Now().Truncate(time.Microsecond))
	spec := map[string]any{
		"holderIdentity":       l.Identity,
		"leaseDurationSeconds": int(l.duration() / time.Second),
		"renewTime":            renewed,
	}
	metadata := map[string]string{"resourceVersion": l.version}
	if l.absent {
		metadata = map[string]string{"namespace": l.Namespace, "name": l.Name}
	}
	if record.Holder != l.Identity {
		spec["acquireTime"], spec["leaseTransitions"] = renewed, l.transitions+1
	}
	body, err = json.Marshal(map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec,
	})
	return body, l.absent, err
}

// stop ends holding and says whether there is a record of ours to free. One that
// was not held yet is left to lapse, for the reason that missed tells.
func (l *Lock) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, known := l.seen.Record()
	l.until = time.Time{}
	return known && record.Holder == l.Identity && l.version != "" && !l.clock().Before(l.from)
}

// free empties the record.
func (l *Lock) free(ctx context.Context, client *kubeapi.Client) error {
	l.mu.Lock()
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": l.version},
		"spec":     map[string]any{"holderIdentity": nil, "acquireTime": nil, "renewTime": nil},
	})
	l.mu.Unlock()
	if err != nil {
		return err
	}
	l.doubt()
	answer, err := client.Patch(ctx, l.path(), body)
	if err != nil {
		return err
	}
	return l.saw(answer, time.Time{})
}

const (
	// retryMin and retryMax are the waits after a failed attempt: soon while the
	// Lease is held, for time is running out, and after the first failure. Who does
	// not hold it has no reason to hurry, and waits up to a round.
	retryMin, retryMax = 300 * time.Millisecond, 700 * time.Millisecond
	// deniedWait follows a refusal that only a person can mend.
	deniedWait = 30 * time.Second
)

// next returns how long to wait before the next attempt, and how long this
// Lock is still held.
func (l *Lock) next(err error) (wait, expiry time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || errors.Is(err, context.Canceled) {
		l.failures = 0
	} else {
		l.failures++
	}
	now := l.clock()
	round := l.duration() / roundsOf
	wait, expiry = round+rand.N(round/10+1), l.until.Sub(now)
	if early := l.from.Sub(now); early > 0 {
		wait = min(wait, early)
	}
	switch code := kubeapi.Code(err); {
	case code == http.StatusForbidden:
		wait = deniedWait
	case l.failures > 0:
		hurry := retryMin + rand.N(retryMax-retryMin)
		if expiry <= 0 {
			wait = min(wait, hurry<<min(l.failures-1, 16))
		} else {
			wait = hurry
		}
	case expiry <= 0:
		// A contender comes when the Lease lapses, if that is earlier.
		if left := l.seen.Lapses().Sub(now); left > 0 {
			wait = min(wait, left+rand.N(retryMin))
		}
	}
	return wait, max(expiry, 0)
}
