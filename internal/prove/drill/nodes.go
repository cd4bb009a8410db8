package drill

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
)

// nodeObject is a Node.
type nodeObject struct {
	object
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
			Reason string `json:"reason"`
		} `json:"conditions"`
	} `json:"status"`
}

// readiness is the status of the condition Ready and its reason; Unknown when
// the Node has none.
func (n nodeObject) readiness() (status, reason string) {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status, c.Reason
		}
	}
	return "Unknown", "the Node has no condition Ready"
}

// nodeEvents tells which Nodes became Ready and which ceased to be; was is
// brought up to date. A Node that is Ready when it is first seen is no news.
func nodeEvents(was map[string]bool, all []nodeObject) []record.Event {
	var out []record.Event
	for _, n := range all {
		status, reason := n.readiness()
		is := status == "True"
		before, known := was[n.name()]
		was[n.name()] = is
		if is == before || is && !known {
			continue
		}
		ev := record.Event{
			Source: "observer", Kind: record.KindNodeReady,
			Message: "node " + n.name() + " is Ready", Keys: map[string]string{"node": n.name()},
		}
		if !is {
			ev.Kind = record.KindNodeNotReady
			ev.Message = fmt.Sprintf("node %s is not Ready: %s", n.name(), reason)
			ev.Keys["status"], ev.Keys["reason"] = status, reason
		}
		out = append(out, ev)
	}
	return out
}
