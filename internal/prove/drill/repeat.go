package drill

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// Repeat runs the drill n times, each in a directory of its own, and returns
// the report of the worst one: the worst verdict, then the latest recovery.
// Its Numbers gain, for every figure, the median and the worst of all.
func Repeat(ctx context.Context, o Options, n int, log *slog.Logger) (*report.Report, error) {
	if n == 1 {
		return Run(ctx, o, log)
	}
	var all []*report.Report
	for i := range n {
		each := o
		each.Out = filepath.Join(o.Out, fmt.Sprintf("repeat-%03d", i+1))
		r, err := Run(ctx, each, log)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	worst := summarise(all)
	return worst, report.Directory{Path: o.Out}.Write(worst)
}

// summarise chooses the worst report and adds the spread of the numbers.
func summarise(all []*report.Report) *report.Report {
	worst := *slices.MaxFunc(all, func(a, b *report.Report) int {
		if d := severity(a.Verdict) - severity(b.Verdict); d != 0 {
			return d
		}
		return int(a.Numbers["with_recovery_ms"] - b.Numbers["with_recovery_ms"])
	})
	numbers := map[string]float64{"repeats": float64(len(all))}
	for name := range worst.Numbers {
		var values []float64
		for _, r := range all {
			if v, ok := r.Numbers[name]; ok {
				values = append(values, v)
			}
		}
		slices.Sort(values)
		numbers[name] = worst.Numbers[name]
		numbers[name+"_median"] = values[(len(values)-1)/2]
		numbers[name+"_worst"] = values[len(values)-1]
	}
	worst.Numbers = numbers
	return &worst
}

func severity(v report.Verdict) int {
	return slices.Index([]report.Verdict{report.NotApplicable, report.Pass, report.Inconclusive, report.Fail}, v)
}
