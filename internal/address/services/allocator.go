package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
)

// Keys of log lines.
const (
	keyService   = "service"
	keyAddresses = "addresses"
	keyReason    = "reason"
	keyMessage   = "message"
	keyError     = "error"
	keyLease     = "lease"
)

// api is what an allocator needs of a kubeapi.Client.
type api interface {
	Get(ctx context.Context, path string, query url.Values) ([]byte, error)
	Patch(ctx context.Context, path string, body []byte) ([]byte, error)
}

// recorder is kubeapi.Events.
type recorder interface {
	Record(about kubeapi.Reference, kind, reason, message string)
	Room() int
}

// allocator writes what Decide says, while it has the Lease.
type allocator struct {
	config *Config
	view   *view
	lock   *lease.Lock
	client func() (api, error)
	events recorder
	log    *slog.Logger
	// opened is called before an address is given to a Service that had another, or
	// none.
	opened func(context.Context, netip.Addr)

	// What follows belongs to the loop.
	fresh bool                // all Services have been read since the Lease was won
	said  map[string][]string // by UID: what was said last
}

// pass decides and writes, if it has the Lease. It returns the plan, and whether
// it is the one in force.
func (a *allocator) pass(ctx context.Context) (Plan, bool, error) {
	if !a.lock.Held() {
		a.fresh, a.said = false, map[string][]string{}
		return Plan{}, false, nil
	}
	ctx, cancel := a.lock.Context(ctx)
	defer cancel()
	plan, err := a.decide(ctx)
	return plan, a.fresh, err
}

// decide decides and writes.
func (a *allocator) decide(ctx context.Context) (Plan, error) {
	client, err := a.client()
	if err != nil {
		return Plan{}, err
	}
	if !a.fresh {
		// The followers may have begun with what a cache held, and whoever had the
		// Lease before may have written since.
		all, err := readServices(ctx, client)
		if err != nil {
			return Plan{}, err
		}
		a.view.learn(all...)
		a.fresh = true
	}
	all, _ := a.view.snapshot()
	plan := Decide(a.config, all)
	err = a.write(ctx, client, plan.Writes)
	a.say(plan.Notes)
	return plan, err
}

// readServices reads all Services from a quorum.
func readServices(ctx context.Context, client api) ([]Service, error) {
	var all []Service
	query := url.Values{"limit": {"500"}}
	for {
		data, err := client.Get(ctx, "/api/v1/services", query)
		if err != nil {
			return nil, fmt.Errorf("read services: %w", err)
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []Service `json:"items"`
		}
		if err := json.Unmarshal(data, &page); err != nil {
			return nil, errors.New("read services: answer is not a ServiceList; is this a Kubernetes API?")
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// write changes the status of Services. One that has changed meanwhile is left for
// the next pass.
func (a *allocator) write(ctx context.Context, client api, all []Write) error {
	var errs []error
	for _, w := range all {
		if err := a.writeOne(ctx, client, w); err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (a *allocator) writeOne(ctx context.Context, client api, w Write) error {
	k := w.Service.Metadata.Key()
	ingress := []map[string]string{}
	for _, addr := range w.Addresses {
		ingress = append(ingress, map[string]string{"ip": addr.String(), "ipMode": string(core.LoadBalancerIPModeVIP)})
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": w.Service.Metadata.ResourceVersion, "uid": w.Service.Metadata.UID},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": ingress}},
	})
	if err != nil {
		return err
	}
	for _, addr := range w.Addresses {
		if !slices.Contains(w.Service.addresses(), addr) {
			a.opened(ctx, addr)
		}
	}
	path := "/api/v1/namespaces/" + url.PathEscape(k.Namespace) + "/services/" + url.PathEscape(k.Name)
	data, err := client.Patch(ctx, path+"/status", body)
	switch code := kubeapi.Code(err); {
	case code == http.StatusNotFound:
		return nil // deleted meanwhile, which the follower will tell
	case code == http.StatusConflict:
		return a.readAgain(ctx, client, path, k)
	case err != nil:
		return fmt.Errorf("write status of service %s: %w", k, err)
	}
	var s Service
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("write status of service %s: answer is not a Service", k)
	}
	a.view.learn(s)
	a.log.Info("addresses given", keyService, k.String(), keyAddresses, join(w.Addresses))
	if len(w.Addresses) > 0 {
		a.events.Record(w.Service.Reference(), kubeapi.Normal, ReasonAssigned, "the address is "+join(w.Addresses))
	}
	return nil
}

// readAgain takes in a Service that is another than the one decided about, which
// makes another pass.
func (a *allocator) readAgain(ctx context.Context, client api, path string, k Key) error {
	data, err := client.Get(ctx, path, nil)
	if err != nil {
		return fmt.Errorf("read service %s: %w", k, err)
	}
	var s Service
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read service %s: answer is not a Service", k)
	}
	a.view.learn(s)
	return nil
}

func join(all []netip.Addr) string {
	var words []string
	for _, a := range all {
		words = append(words, a.String())
	}
	return strings.Join(words, ", ")
}

// say writes what was not said before.
func (a *allocator) say(notes []Note) {
	said := map[string][]string{}
	for _, note := range notes {
		uid, text := note.Service.Metadata.UID, note.Reason+" "+note.Message
		if !slices.Contains(a.said[uid], text) {
			if a.events.Room() == 0 {
				continue // it is said in a later pass
			}
			a.log.Warn("service lacks what it asks for", keyService, note.Service.Metadata.Key().String(), keyReason, note.Reason, keyMessage, note.Message)
			a.events.Record(note.Service.Reference(), note.Kind, note.Reason, note.Message)
		}
		said[uid] = append(said[uid], text)
	}
	a.said = said
}
