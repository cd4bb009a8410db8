package zonal

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// Names of the conditions. One that does not hold is logged when it begins, when
// its reason changes and when it ends.
const (
	condServices  = "services"
	condSlices    = "endpointslices"
	condEndpoints = "endpoints"
	condNodes     = "nodes"
	condLease     = "lease"
	condRights    = "rights"
	condWrites    = "writes"
	condEvents    = "events"
	condDatapath  = "datapath"
)

// required are those without which a replica is not ready.
func required(scope []string) []string {
	all := []string{condLease}
	for _, n := range scope {
		all = append(all, in(condServices, n), in(condSlices, n))
	}
	return all
}

// meanings say what it means that a condition does not hold.
var meanings = map[string]string{
	condServices:  "Services cannot be read; mirrors stay as they are",
	condSlices:    "EndpointSlices cannot be read; mirrors stay as they are",
	condEndpoints: "endpoints cannot be read; nothing is said about zones without them",
	condNodes:     "Nodes cannot be read; nothing is said about zones without endpoints",
	condLease:     "the Lease cannot be kept; this replica does not act",
	condRights:    "the API refuses a write; other mirrors are kept",
	condWrites:    "the API takes no writes now; mirrors stay as they are",
	condEvents:    "Events cannot be written; log and status have what they would say",
	condDatapath:  "the datapath is not known; only PreferClose counts as honoured",
}

type conditions struct {
	log      *slog.Logger
	ready    *telemetry.Conditions
	required []string

	mu  sync.Mutex
	bad map[string]string
}

func newConditions(log *slog.Logger, scope []string) *conditions {
	names := required(scope)
	return &conditions{log: log, ready: telemetry.Require(names...), required: names, bad: map[string]string{}}
}

// set states that a condition holds (nil), or why not.
func (c *conditions) set(name string, err error) {
	c.mu.Lock()
	was := c.bad[name]
	now := ""
	if err != nil {
		now = err.Error()
		c.bad[name] = now
	} else {
		delete(c.bad, name)
	}
	c.mu.Unlock()
	if slices.Contains(c.required, name) {
		c.ready.Set(name, err)
	}
	switch {
	case now == was:
	case now != "":
		what, _, _ := strings.Cut(name, " ")
		c.log.Warn(meanings[what], "condition", name, keyError, now)
	default:
		c.log.Info("well again", "condition", name)
	}
}

// all returns what does not hold.
func (c *conditions) all() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.bad)
}
