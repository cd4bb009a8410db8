package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// benchLeader measures leader placement: 20 partial splits, 5 with the timers
// of the seed's agents as the peer, 3 flapping links, and an agent at rest.
func benchLeader(ctx context.Context, quick bool) ([]Row, error) {
	runs, peers, flaps := 20, 5, 3
	if quick {
		runs, peers, flaps = 2, 1, 1
	}
	ours, err := splits(ctx, runs, "10s", "")
	if err != nil {
		return nil, err
	}
	seed, err := splits(ctx, peers, "25s", "seed")
	if err != nil {
		return nil, err
	}
	flapping, err := drills(ctx, "flap", flaps, "", "")
	if err != nil {
		return nil, err
	}
	rest, err := benchRest(ctx, quick)
	if err != nil {
		return nil, err
	}
	rows := splitRows(ours, seed)
	rows = append(rows, flapRow(flapping))
	return append(rows, rest...), nil
}

func splits(ctx context.Context, n int, hold, profile string) ([]*report.Report, error) {
	return drills(ctx, "partial-split", n, hold, profile)
}

// drills runs a scenario n times with the agents. A run the machine spoilt
// (inconclusive) is repeated, at most as many times again.
func drills(ctx context.Context, scenario string, n int, hold, profile string) ([]*report.Report, error) {
	var got []*report.Report
	for tries := 0; len(got) < n; tries++ {
		if tries == 2*n {
			return nil, fmt.Errorf("drill %s: inconclusive %d times of %d; is the machine busy?", scenario, tries-len(got), tries)
		}
		r, err := drillOnce(ctx, scenario, hold, profile)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "bench: %s %s: %s, recovered after %s ms, %d moves\n",
			scenario, profile, r.With.Verdict, figure(r.With.RecoveryMS, ""), r.With.Moves)
		if r.With.Verdict != report.Inconclusive {
			got = append(got, r)
		}
	}
	return got, nil
}

func drillOnce(ctx context.Context, scenario, hold, profile string) (*report.Report, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	args := []string{"drill", "run", scenario, "--variant", "main", "--with", "--json", "--out", filepath.Join(dir, "run")}
	if hold != "" {
		args = append(args, "--hold", hold)
	}
	cmd := exec.CommandContext(ctx, "bin/holdfast", args...)
	if profile != "" {
		cmd.Env = append(os.Environ(), "HOLDFAST_LEADER_PROFILE="+profile)
	}
	out, err := cmd.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) { // 1 and 2 are verdicts
		return nil, fmt.Errorf("drill %s: %w", scenario, err)
	}
	var r report.Report
	if err := json.Unmarshal(out, &r); err != nil {
		return nil, fmt.Errorf("drill %s: no report: %w: %s", scenario, err, stderr(failed))
	}
	if r.With == nil {
		return nil, fmt.Errorf("drill %s: report without a run", scenario)
	}
	return &r, nil
}

func stderr(e *exec.ExitError) string {
	if e == nil {
		return ""
	}
	return string(e.Stderr)
}

func splitRows(ours, seed []*report.Report) []Row {
	recovery, transfer := collect(ours, recoveryOf), collect(ours, func(r *report.Run) *float64 { return r.TransferMS })
	peer := quantile(collect(seed, recoveryOf), 0.5)
	note := fmt.Sprintf("%d runs, 3.7, rtt preset", len(ours))
	rows := []Row{
		never(atMost("leader-recovery-median", "ms", value(quantile(recovery, 0.5)), 4000, note), recovery, len(ours)).against("seed timers", peer),
		never(atMost("leader-recovery-worst", "ms", value(quantile(recovery, 1)), 6000, note), recovery, len(ours)).
			against("seed timers", quantile(collect(seed, recoveryOf), 1)),
		atMost("leader-transfer-worst", "ms", value(quantile(transfer, 1)), 300, note),
		atMost("leader-gap-elsewhere-worst", "ms", worstGap(ours), 1000, "new connections in a and c"),
		atMost("leader-moves-worst", "moves", most(ours), 1, "through cut and healing"),
	}
	inflight := collect(ours, func(r *report.Run) *float64 { n := float64(r.Inflight); return &n })
	median := value(quantile(inflight, 0.5))
	return append(rows, Row{Name: "leader-inflight-hit-median", Unit: "requests", Ours: &median, Holds: true,
		Note: "counted and reported, no bar; worst " + figure(quantile(inflight, 1), "")})
}

func recoveryOf(r *report.Run) *float64 { return r.RecoveryMS }

// never marks a row as missed when some run did not recover at all.
func never(r Row, got []float64, runs int) Row {
	if len(got) < runs {
		r.Holds = false
		r.Note += fmt.Sprintf("; %d never recovered", runs-len(got))
	}
	return r
}

func flapRow(runs []*report.Report) Row {
	return atMost("leader-flap-moves-worst", "moves", most(runs), 2, fmt.Sprintf("%d runs of a minute", len(runs)))
}

func collect(reports []*report.Report, pick func(*report.Run) *float64) []float64 {
	var all []float64
	for _, r := range reports {
		if v := pick(r.With); v != nil {
			all = append(all, *v)
		}
	}
	slices.Sort(all)
	return all
}

func quantile(sorted []float64, q float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	v := sorted[int(q*float64(len(sorted)-1)+0.5)]
	return &v
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// worstGap is the longest upper bound of an outage on the paths that must stay
// clean over new connections.
func worstGap(reports []*report.Report) float64 {
	worst := 0.0
	for _, r := range reports {
		for _, p := range r.With.Paths {
			if p.Role != "clean" || p.Mode != "new" {
				continue
			}
			for _, o := range p.Outages {
				worst = max(worst, o.UpperMS)
			}
		}
	}
	return worst
}

func most(reports []*report.Report) float64 {
	n := 0
	for _, r := range reports {
		n = max(n, r.With.Moves)
	}
	return float64(n)
}
