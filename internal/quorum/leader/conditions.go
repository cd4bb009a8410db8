package leader

import (
	"log/slog"
	"sync"
)

// Names of the conditions an agent reports. One that does not hold is logged
// once when it begins and once when it ends, and stands in /readyz or /status
// meanwhile; none of them ends the agent.
const (
	condOwnMember = "own-member"
	condMembers   = "members"
	condPeerTLS   = "peer-credentials"
	condClientTLS = "client-credentials"
	condVersion   = "version"
	condPublish   = "publish"
	condSecond    = "second-member"
	condRows      = "rows"
	condMesh      = "mesh"
	condMetrics   = "metrics"
	condDisk      = "disk"
	condClock     = "clock"
	condDecision  = "last-decision"
	condLoop      = "loop" // liveness only
)

// conditions holds what is wrong at the moment, by name.
type conditions struct {
	log    *slog.Logger
	report func(name string, err error) // readiness, may be nil

	mu  sync.Mutex
	bad map[string]string
}

func newConditions(log *slog.Logger, report func(string, error)) *conditions {
	return &conditions{log: log, report: report, bad: map[string]string{}}
}

// set states whether the condition holds (err nil). meaning says in words
// what it means when it does not.
func (c *conditions) set(name string, err error, meaning string) {
	c.mu.Lock()
	_, was := c.bad[name]
	switch {
	case err == nil:
		delete(c.bad, name)
	default:
		c.bad[name] = err.Error()
	}
	c.mu.Unlock()
	if c.report != nil {
		c.report(name, err)
	}
	switch {
	case err != nil && !was:
		c.log.Warn(meaning, "condition", name, keyError, err.Error())
	case err == nil && was:
		c.log.Info("well again", "condition", name)
	}
}

// all returns what is wrong now.
func (c *conditions) all() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]string, len(c.bad))
	for k, v := range c.bad {
		out[k] = v
	}
	return out
}
