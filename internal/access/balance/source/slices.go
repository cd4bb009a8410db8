package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// SlicesOptions say which Service's EndpointSlices are followed, and how the
// API is reached.
type SlicesOptions struct {
	// Namespace and Service default to default/kubernetes.
	Namespace, Service string
	// Port is the name of the port to use in slices that have several;
	// default "https". A slice with one port is used whatever its name.
	Port string
	// Connect gives a client, anew after each failure; see kubeapi.Connector.
	Connect func() (*kubeapi.Client, error)
	// Log may be nil.
	Log *slog.Logger
}

// Slices follows the EndpointSlices of a Service.
type Slices struct {
	options   SlicesOptions
	condition *condition
}

// NewSlices returns the source. It needs the right to list and watch
// endpointslices in the namespace.
func NewSlices(o SlicesOptions) *Slices {
	fill(&o.Namespace, "default")
	fill(&o.Service, "kubernetes")
	fill(&o.Port, "https")
	return &Slices{options: o, condition: newCondition("endpointslices "+o.Namespace+"/"+o.Service, o.Log)}
}

// Name is "endpointslices NAMESPACE/SERVICE".
func (s *Slices) Name() string { return s.condition.get().Name }

// Status tells of the last request.
func (s *Slices) Status() Status { return s.condition.get() }

// Run lists and watches until ctx ends.
func (s *Slices) Run(ctx context.Context, publish func([]Backend)) error {
	all := map[string]endpointSlice{}
	tell := func() {
		list, reasons := backends(all, s.options.Port)
		s.condition.rejected(reasons)
		publish(list)
	}
	f := kubeapi.Follower[endpointSlice]{
		Connect:  s.options.Connect,
		Path:     "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(s.options.Namespace) + "/endpointslices",
		Selector: "kubernetes.io/service-name=" + s.options.Service,
		Replace: func(items []endpointSlice) {
			clear(all)
			for _, item := range items {
				all[item.Metadata.Name] = item
			}
			tell()
		},
		Apply: func(e kubeapi.Event[endpointSlice]) {
			if e.Deleted {
				delete(all, e.Object.Metadata.Name)
			} else {
				all[e.Object.Metadata.Name] = e.Object
			}
			tell()
		},
		Report: func(err error) { s.condition.report(s.explain(err)) },
	}
	return f.Run(ctx)
}

// explain says what a person should do about the usual refusals.
func (s *Slices) explain(err error) error {
	switch code := kubeapi.Code(err); {
	case code == http.StatusForbidden:
		return fmt.Errorf("may not list endpointslices in namespace %s: give a service account or kubeconfig", s.options.Namespace)
	case code == http.StatusUnauthorized:
		return errors.New("credentials refused (401): give a valid service account or kubeconfig")
	case errors.Is(err, kubeapi.ErrNotInCluster):
		return errors.New("no credentials for the API: give a service account or kubeconfig")
	}
	return err
}
