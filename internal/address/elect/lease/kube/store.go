package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// Annotation holds the record.
const Annotation = "holdfast.dev/address"

// Store is a lease.Store.
type Store struct {
	// Cluster is how the API is reached. Its Attempt should be that of Attempt.
	Cluster *kubeapi.Cluster
	// Namespace and Name of the Lease, which is made when it is missing.
	Namespace, Name string
	// Labels are given to a Lease that is made; see Shared.
	Labels map[string]string
	// Report is told the outcome of each request for the watch; nil where nobody
	// wants to know.
	Report func(error)
}

var _ lease.Store = (*Store)(nil)

// Attempt is what one of several apiservers is given before the next is asked, so
// that a frozen one costs a holder one renewal and not the address.
func Attempt(duration time.Duration) time.Duration { return duration / 5 }

func (s *Store) collection() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(s.Namespace) + "/leases"
}

func (s *Store) path() string { return s.collection() + "/" + url.PathEscape(s.Name) }

// Read gets the Lease.
func (s *Store) Read(ctx context.Context) (lease.Seen, error) {
	client, err := s.Cluster.Client()
	if err != nil {
		return lease.Seen{}, fmt.Errorf("read lease %s: %w", s.Name, err)
	}
	data, err := client.Get(ctx, s.path(), nil)
	switch {
	case kubeapi.Code(err) == http.StatusNotFound:
		return lease.Seen{}, nil
	case err != nil:
		return lease.Seen{}, fmt.Errorf("read lease %s: %w", s.Name, err)
	}
	return s.decode(data)
}

// Write creates or patches the Lease.
func (s *Store) Write(ctx context.Context, record lease.Record, version uint64) (lease.Seen, error) {
	client, err := s.Cluster.Client()
	if err != nil {
		return lease.Seen{}, fmt.Errorf("write lease %s: %w", s.Name, err)
	}
	body, err := s.body(record, version, time.Now())
	if err != nil {
		return lease.Seen{}, err
	}
	var data []byte
	if version == 0 {
		data, err = client.Create(ctx, s.collection(), body)
	} else {
		data, err = client.Patch(ctx, s.path(), body)
	}
	switch code := kubeapi.Code(err); {
	case code == http.StatusConflict, version != 0 && code == http.StatusNotFound:
		return lease.Seen{}, fmt.Errorf("write lease %s: %w", s.Name, lease.ErrConflict)
	case err != nil:
		return lease.Seen{}, fmt.Errorf("write lease %s: %w", s.Name, err)
	}
	return s.decode(data)
}

// Watch follows the Lease.
func (s *Store) Watch(ctx context.Context, tell func(lease.Seen)) {
	report := s.Report
	if report == nil {
		report = func(error) {}
	}
	f := &kubeapi.Follower[coordination.Lease]{
		Connect: s.Cluster.Connect, Path: s.collection(), Fields: "metadata.name=" + s.Name, Report: report,
		Replace: func(all []coordination.Lease) {
			if len(all) == 0 {
				tell(lease.Seen{})
			}
			for i := range all {
				s.tell(&all[i], tell)
			}
		},
		Apply: func(e kubeapi.Event[coordination.Lease]) {
			if e.Deleted {
				tell(lease.Seen{})
				return
			}
			s.tell(&e.Object, tell)
		},
	}
	_ = f.Run(ctx) // whose error is that of ctx
}

func (s *Store) tell(object *coordination.Lease, tell func(lease.Seen)) {
	if seen, err := seenIn(object); err == nil {
		tell(seen)
	}
}

func (s *Store) decode(data []byte) (lease.Seen, error) {
	var object coordination.Lease
	if err := json.Unmarshal(data, &object); err != nil {
		return lease.Seen{}, fmt.Errorf("read lease %s: answer is not a Lease; is this a Kubernetes API?", s.Name)
	}
	seen, err := seenIn(&object)
	if err != nil {
		return lease.Seen{}, fmt.Errorf("read lease %s: %w", s.Name, err)
	}
	return seen, nil
}

// seenIn reads a Lease.
func seenIn(object *coordination.Lease) (lease.Seen, error) {
	// It is etcd's revision, and since Kubernetes 1.35 documented to be comparable
	// as a number.
	version, err := strconv.ParseUint(object.ResourceVersion, 10, 64)
	if err != nil || version == 0 {
		return lease.Seen{}, fmt.Errorf("resourceVersion %.40q is not a number; is this a Kubernetes API?", object.ResourceVersion)
	}
	holder := ""
	if h := object.Spec.HolderIdentity; h != nil {
		holder = *h
	}
	text, ok := object.Annotations[Annotation]
	if !ok {
		return foreign(version, holder, fmt.Sprintf("Lease without annotation %s, of holder %.70q", Annotation, holder)), nil
	}
	record, err := lease.Decode([]byte(text))
	switch {
	case err != nil:
		return foreign(version, holder, fmt.Sprintf("annotation %s: %v", Annotation, err)), nil
	case record.Holder != holder:
		return foreign(version, holder, fmt.Sprintf("holderIdentity is %.70q, and annotation %s says %q", holder, Annotation, record.Holder)), nil
	}
	return lease.Seen{Record: record, Version: version}, nil
}

func foreign(version uint64, holder, why string) lease.Seen {
	return lease.Seen{Record: lease.Record{Holder: holder}, Version: version, Foreign: why}
}

// body is the JSON of a create or a merge patch. renewed is of the wall clock, for
// people: nobody here decides by it.
func (s *Store) body(record lease.Record, version uint64, renewed time.Time) ([]byte, error) {
	text, err := record.Encode()
	if err != nil {
		return nil, fmt.Errorf("write lease %s: %w", s.Name, err)
	}
	metadata := map[string]any{"annotations": map[string]string{Annotation: string(text)}}
	if version == 0 {
		metadata["namespace"], metadata["name"] = s.Namespace, s.Name
		if len(s.Labels) > 0 {
			metadata["labels"] = s.Labels
		}
	} else {
		metadata["resourceVersion"] = strconv.FormatUint(version, 10)
	}
	spec := map[string]any{
		// Whole seconds, at least one: the API takes no other.
		"leaseDurationSeconds": int((record.Duration + time.Second - 1) / time.Second),
		"leaseTransitions":     int(min(record.Turn, math.MaxInt32)),
		"renewTime":            meta.NewMicroTime(renewed.Truncate(time.Microsecond)),
		"holderIdentity":       nil,
	}
	if record.Holder != "" {
		spec["holderIdentity"] = record.Holder
	}
	return json.Marshal(map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec,
	})
}
