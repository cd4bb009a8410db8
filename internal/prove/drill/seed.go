package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// Timers of the endpoints that a run without the agents may have (FACTS, S0):
// each apiserver is asked every 5 s, and may take 3 s.
const (
	seedEvery    = 5 * time.Second
	seedPatience = 3 * time.Second
)

// publishesSeed says whether this run's endpoints are kept by the engine.
func (e *engine) publishesSeed() bool {
	return !e.agents && e.c.Agents.Has(scenario.AgentSlices) && e.c.Slices.Without == scenario.ReconcilerSeed
}

// publishSeed makes a zoned slice per apiserver, and keeps its readiness until
// the watchers stop.
func (e *engine) publishSeed(ctx context.Context) error {
	if !e.publishesSeed() {
		return nil
	}
	for _, a := range e.lab.APIServers() {
		if err := create(ctx, e.lab.APIServers()[0], slicesPath, e.seedSlice(a)); err != nil {
			return err
		}
	}
	for _, a := range e.lab.APIServers() {
		e.watchers.done.Go(func() { e.keepSeed(e.watchers.ctx, a) })
	}
	return nil
}

func (e *engine) seedSlice(a *lab.APIServer) string {
	zone := e.c.Zone(a.Node().Site())
	return fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4",`+
		`"metadata":{"name":%q,"labels":{"kubernetes.io/service-name":"kubernetes","endpointslice.kubernetes.io/managed-by":"drill"}},`+
		`"ports":[{"name":"https","port":%d,"protocol":"TCP"}],"endpoints":%s}`,
		seedName(a), lab.APIServerPort, seedEndpoints(a.Node().IP().String(), a.Node().Name(), zone, true))
}

func seedName(a *lab.APIServer) string { return "kubernetes-" + a.Node().Name() }

func seedEndpoints(address, node, zone string, ready bool) string {
	text, _ := json.Marshal([]any{map[string]any{ // strings and a bool always encode
		"addresses": []string{address}, "nodeName": node, "zone": zone,
		"conditions": map[string]bool{"ready": ready},
		"hints":      map[string]any{"forZones": []any{map[string]string{"name": zone}}},
	}})
	return string(text)
}

// keepSeed asks an apiserver and says what it found through the first one that
// takes it.
func (e *engine) keepSeed(ctx context.Context, a *lab.APIServer) {
	tick := time.NewTicker(seedEvery)
	defer tick.Stop()
	for said := true; ; {
		askCtx, cancel := context.WithTimeout(ctx, seedPatience)
		ready := a.Ready(askCtx) == nil
		cancel()
		if ready != said && ctx.Err() == nil && e.saySeed(ctx, a, ready) {
			said = ready
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (e *engine) saySeed(ctx context.Context, a *lab.APIServer, ready bool) bool {
	site := a.Node().Site()
	body := fmt.Sprintf(`{"endpoints":%s}`, seedEndpoints(a.Node().IP().String(), a.Node().Name(), e.c.Zone(site), ready))
	for _, through := range e.lab.APIServers() {
		askCtx, cancel := context.WithTimeout(ctx, time.Second)
		code, _, err := through.Request(askCtx, http.MethodPatch, slicesPath+"/"+seedName(a), mergePatch, []byte(body))
		cancel()
		if err == nil && code == http.StatusOK {
			return true
		}
	}
	return false
}
