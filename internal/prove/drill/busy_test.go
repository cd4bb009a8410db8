package drill

import (
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// tooBusy says that the run proved nothing, because of the machine. A prober that was
// starved has also seen a baseline that was not clean, and the report names a few
// paths and counts the others: what matters is that the run knew.
func tooBusy(r *report.Report) bool {
	return r.Verdict == report.Inconclusive && slices.ContainsFunc(r.Reasons, func(reason string) bool {
		return strings.Contains(reason, "too busy") || strings.Contains(reason, "starved")
	})
}
