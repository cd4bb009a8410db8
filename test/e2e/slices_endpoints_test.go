package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	discovery "k8s.io/api/discovery/v1"
)

const (
	olderPath  = "/api/v1/namespaces/default/endpoints/kubernetes"
	byNamePath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
	// mostEmpty is how long readers by name may find nothing while the
	// reconcilers are switched off: until a watch, the short Lease and two writes.
	mostEmpty = 10 * time.Second
)

// older is the object Endpoints, as far as its readers look at it.
type older struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Subsets []struct {
		Addresses         []struct{ IP string } `json:"addresses"`
		NotReadyAddresses []struct{ IP string } `json:"notReadyAddresses"`
		Ports             []struct {
			Name string `json:"name"`
			Port int    `json:"port"`
		} `json:"ports"`
	} `json:"subsets"`
}

// addresses are those of its one subset, in the form that an apiserver gives it.
func (o *older) addresses() ([]string, error) {
	all := []string{}
	if len(o.Subsets) != 1 || len(o.Subsets[0].NotReadyAddresses) > 0 || len(o.Subsets[0].Ports) != 1 ||
		o.Subsets[0].Ports[0].Name != "https" || o.Metadata.Labels[discovery.LabelSkipMirror] != "true" {
		return nil, fmt.Errorf("not as an apiserver writes it: %+v", *o)
	}
	for _, a := range o.Subsets[0].Addresses {
		all = append(all, a.IP)
	}
	slices.Sort(all)
	return all, nil
}

// awaitOlder waits until the object Endpoints lists the apiservers of these
// sites and no other.
func (z *zoned) awaitOlder(what, from string, within time.Duration, of ...string) {
	z.t.Helper()
	var want []string
	for _, site := range of {
		want = append(want, z.member(site).Node().IP().String())
	}
	slices.Sort(want)
	z.until(what, within, func() error {
		var o older
		if err := z.ask(from, http.MethodGet, olderPath, nil, &o); err != nil {
			return err
		}
		got, err := o.addresses()
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("it lists %v, not %v", got, want)
		}
		return err
	})
}

// forgetOlder deletes and empties the object by hand, and wants it back.
func (z *zoned) forgetOlder() {
	z.t.Helper()
	if err := z.ask("a", http.MethodDelete, olderPath, nil, nil); err != nil {
		z.t.Fatal(err)
	}
	z.awaitOlder("the deleted Endpoints are back", "a", 10*time.Second, sites...)
	if err := z.ask("a", http.MethodPatch, olderPath, map[string]any{"subsets": nil}, nil); err != nil {
		z.t.Fatal(err)
	}
	z.awaitOlder("the emptied Endpoints are filled", "a", 10*time.Second, sites...)
}

// byName follows, through whichever apiserver answers, what readers by name
// find: the older object and the slice kubernetes. The function that is returned
// ends it and gives the longest time that each was seen empty.
func (z *zoned) byName() func() map[string]time.Duration {
	ctx, cancel := context.WithCancel(z.t.Context())
	done, longest := make(chan struct{}), map[string]time.Duration{}
	go func() {
		defer close(done)
		since := map[string]time.Time{}
		for ctx.Err() == nil {
			for _, path := range []string{olderPath, byNamePath} {
				empty, err := z.empty(ctx, path)
				switch {
				case err != nil:
				case !empty:
					delete(since, path)
				case since[path].IsZero():
					since[path] = time.Now()
				default:
					longest[path] = max(longest[path], time.Since(since[path]))
				}
			}
			pauseFor(ctx, 50*time.Millisecond)
		}
	}()
	return func() map[string]time.Duration {
		cancel()
		<-done
		return longest
	}
}

// empty asks the first apiserver that answers.
func (z *zoned) empty(ctx context.Context, path string) (empty bool, err error) {
	for _, site := range sites {
		var o struct{ Subsets, Endpoints []json.RawMessage }
		within, cancel := context.WithTimeout(ctx, time.Second)
		a, failed := z.lab.APIServer(site)
		code, answer := 0, []byte(nil)
		if failed == nil {
			code, answer, failed = a.Request(within, http.MethodGet, path, "", nil)
		}
		cancel()
		if err = failed; err != nil || code != http.StatusOK {
			continue
		}
		return json.Unmarshal(answer, &o) == nil && len(o.Subsets)+len(o.Endpoints) == 0, nil
	}
	return false, fmt.Errorf("no apiserver answers: %w", err)
}
