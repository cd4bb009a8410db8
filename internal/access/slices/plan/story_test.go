package plan

import (
	"fmt"
	"strings"
)

// story tells a plan in one line.
func story(writes []Write) string {
	var all []string
	for _, w := range writes {
		line := strings.TrimSuffix(w.Op.String(), "-slice")
		switch w.Op {
		case CreateSlice, UpdateSlice, DeleteSlice:
			line += " " + sliceStory(&w.Slice)
		case PatchService:
			line += " " + w.Traffic
		case ProbeCombined:
		case CreateEndpoints, UpdateEndpoints:
			for _, e := range w.Endpoints.Targets {
				line += fmt.Sprintf(" %s:%d", e.Address, e.Port)
			}
		default:
			for _, m := range w.Combined.Members {
				line += fmt.Sprintf(" %s/%s=%t", m.Node, m.Zone, m.Ready)
			}
		}
		all = append(all, line)
	}
	return strings.Join(all, "; ")
}

func sliceStory(s *Slice) string {
	ready := map[bool]string{true: "ready", false: "unready"}[s.Ready]
	if s.UnreadyBy != "" {
		ready += " by " + s.UnreadyBy
	}
	if s.Lean != "" {
		ready += " for " + s.Lean
	}
	return fmt.Sprintf("%s %s %s %s", s.Name, s.Zone, s.Hints, ready)
}
