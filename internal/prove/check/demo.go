package check

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/check/seed"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// seeded has a cluster with the mistake of each rule, and its healthy twin:
// testdata/rules/RULE/broken and /healthy.
//
//go:embed all:testdata/rules
var seeded embed.FS

// demoTime is when the seeded clusters were read: what ends, ends after it.
var demoTime = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// demo is the result of `check --lab-demo`, as it is printed with --json.
type demo struct {
	Version int `json:"version"`
	// Live says that clusters ran; otherwise they were recorded.
	Live    bool       `json:"live,omitempty"`
	Rules   []demoRule `json:"rules"`
	Broken  demoTwins  `json:"broken"`
	Healthy demoTwins  `json:"healthy"`
	// Wrong is what was otherwise than it should be on live clusters, for people.
	Wrong []string `json:"wrong,omitempty"`
}

type demoRule struct {
	ID       string     `json:"id"`
	Group    rule.Group `json:"group"`
	Severity string     `json:"severity"`
	Title    string     `json:"title"`
	Drill    string     `json:"drill"`
	// Effect is what the finding on the broken twin predicts.
	Effect string `json:"effect"`
	// Seeded is by what means a live cluster was given the mistake.
	Seeded []seed.Means `json:"seeded,omitempty"`
	// Unmade is why none could; such a rule is in no list of live twins.
	Unmade string `json:"unmade,omitempty"`
}

// demoTwins are the rules by what came of them on their own twins. Of healthy ones
// Fired has every rule that fired on any.
type demoTwins struct {
	Fired []string `json:"fired"`
	// Silent are those that were evaluated and found nothing.
	Silent       []string `json:"silent"`
	NotEvaluated []string `json:"notEvaluated"`
}

// demonstrate holds every rule against its twins.
func demonstrate(all []rule.Rule) (demo, error) {
	d := demo{Version: 1, Broken: newTwins(), Healthy: newTwins()}
	for _, r := range all {
		broken, err := evaluateTwin(all, r.ID, "broken")
		if err != nil {
			return d, err
		}
		d.Broken.add(r.ID, broken)
		d.Rules = append(d.Rules, demoRule{r.ID, r.Group, r.Severity.String(), r.Title, r.Drill, effectOf(broken, r.ID), nil, ""})
		healthy, err := evaluateTwin(all, r.ID, "healthy")
		if err != nil {
			return d, err
		}
		d.Healthy.add(r.ID, healthy)
		for _, f := range healthy.Findings {
			if !slices.Contains(d.Healthy.Fired, f.Rule) {
				d.Healthy.Fired = append(d.Healthy.Fired, f.Rule)
			}
		}
	}
	return d, nil
}

func newTwins() demoTwins { return demoTwins{[]string{}, []string{}, []string{}} }

func evaluateTwin(all []rule.Rule, id, twin string) (*audit.Report, error) {
	dir := path.Join("testdata/rules", id, twin)
	files, err := fs.Sub(seeded, dir)
	if err != nil {
		return nil, fmt.Errorf("read seeded cluster: %w", err)
	}
	facts, err := source.OpenFS(files, "the seeded cluster "+dir, source.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("read seeded cluster %s: %w", dir, err)
	}
	return audit.Evaluate(all, facts, audit.Options{Now: demoTime}), nil
}

func (t *demoTwins) add(id string, r *audit.Report) {
	for _, x := range r.Rules {
		switch {
		case x.ID != id:
		case x.Outcome == audit.Fired:
			t.Fired = append(t.Fired, id)
		case x.Outcome == audit.Passed && len(r.Problems) == 0:
			t.Silent = append(t.Silent, id)
		default:
			t.NotEvaluated = append(t.NotEvaluated, id)
		}
	}
}

func effectOf(r *audit.Report, id string) string {
	for _, f := range r.Findings {
		if f.Rule == id && f.Effect != nil {
			return f.Effect.Text
		}
	}
	return ""
}

// verdict is the error of rules that miss their mistake, or cry at what is in order.
func (d demo) verdict() error {
	n := 0
	for _, r := range d.Rules {
		if r.Unmade == "" {
			n++
		}
	}
	if len(d.Broken.Fired) == n && len(d.Healthy.Silent) == n && len(d.Healthy.Fired) == 0 {
		return nil
	}
	return exit.With(exit.Failed, fmt.Errorf("check --lab-demo: of %d rules %d fire on their mistake, %d are silent on the healthy twin, %d fire on one",
		n, len(d.Broken.Fired), len(d.Healthy.Silent), len(d.Healthy.Fired)))
}

// labDemo shows rules on a cluster with their mistake and on the healthy twin:
// recorded ones, or live ones, of which tell gets to know as they come.
func labDemo(ctx context.Context, w, tell io.Writer, chosen []rule.Rule, live, asJSON bool) error {
	d, err := demonstrate(chosen)
	if live {
		d, err = demonstrateLive(ctx, chosen, tell)
	}
	if err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		if err := e.Encode(d); err != nil {
			return err
		}
		return d.verdict()
	}
	for _, r := range d.Rules {
		text := fmt.Sprintf("%-12s %s\n  broken: %s; %s\n  healthy: %s\n", r.ID, r.Title, d.Broken.of(r.ID), r.Effect, d.Healthy.of(r.ID))
		switch {
		case r.Unmade != "":
			text = fmt.Sprintf("%-12s %s\n  not made: %s\n", r.ID, r.Title, r.Unmade)
		case len(r.Seeded) > 0:
			text += fmt.Sprintf("  seeded: %v\n", r.Seeded)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	for _, wrong := range d.Wrong {
		if _, err := fmt.Fprintln(w, "wrong: "+wrong); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(w, "%d rules: %d fire on their mistake, %d on what is in order\n", len(d.Rules), len(d.Broken.Fired), len(d.Healthy.Fired)); err != nil {
		return err
	}
	return d.verdict()
}

// of is what came of a rule.
func (t demoTwins) of(id string) string {
	switch {
	case slices.Contains(t.Fired, id):
		return "fires"
	case slices.Contains(t.Silent, id):
		return "silent"
	}
	return "not evaluated"
}
