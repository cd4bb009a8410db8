package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/deploy"
	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/check/seed"
)

// program is this one, as labs start it.
var program = func() (seed.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return seed.Options{}, fmt.Errorf("find this program: %w", err)
	}
	return seed.Options{Program: []string{self}, Role: deploy.CheckRole}, nil
}

// demonstrateLive holds every rule against its twins on a cluster that runs. What
// became of each is told as it comes.
func demonstrateLive(ctx context.Context, all []rule.Rule, tell io.Writer) (d demo, err error) {
	options, err := program()
	if err != nil {
		return d, err
	}
	l, err := seed.Start(ctx, options, slog.New(slog.DiscardHandler))
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	d = demo{Version: 1, Live: true, Broken: newTwins(), Healthy: newTwins()}
	for _, r := range all {
		one := demoRule{ID: r.ID, Group: r.Group, Severity: r.Severity.String(), Title: r.Title, Drill: r.Drill}
		for _, twin := range []string{"broken", "healthy"} {
			began := time.Now()
			result, s, err := auditSeeded(ctx, l, r.ID, twin)
			if ctx.Err() != nil {
				return d, context.Cause(ctx)
			}
			means := s.Means()
			if one.Seeded, one.Unmade = means, s.Unmade; s.Unmade != "" {
				continue
			}
			d.judge(&one, twin, result, err)
			if _, err := fmt.Fprintf(tell, "%-12s %-8s %v %d ms\n", r.ID, twin, means, time.Since(began).Milliseconds()); err != nil {
				return d, err
			}
		}
		d.Rules = append(d.Rules, one)
	}
	return d, nil
}

// auditSeeded makes one twin and audits it, if a lab can make it.
func auditSeeded(ctx context.Context, l *seed.Lab, id, twin string) (seed.Result, seed.Seeding, error) {
	files, err := fs.Sub(seeded, "testdata/rules/"+id+"/"+twin)
	if err != nil {
		return seed.Result{}, seed.Seeding{}, fmt.Errorf("read seeded cluster: %w", err)
	}
	s, err := seed.Read(files, id, twin, demoTime, time.Now())
	if err != nil || s.Unmade != "" {
		return seed.Result{}, s, err
	}
	result, err := l.Audit(ctx, s)
	return result, s, err
}

// judge notes what came of a twin that was made, and what is wrong with that.
func (d *demo) judge(one *demoRule, twin string, result seed.Result, err error) {
	wrong := func(format string, args ...any) {
		d.Wrong = append(d.Wrong, one.ID+"/"+twin+": "+fmt.Sprintf(format, args...))
	}
	twins := &d.Broken
	if twin == "healthy" {
		twins = &d.Healthy
	}
	if err != nil {
		wrong("%v", err)
		twins.NotEvaluated = append(twins.NotEvaluated, one.ID)
		return
	}
	twins.add(one.ID, &result.Report)
	for _, p := range result.Problems {
		wrong("%s: %s", p.Where, p.What)
	}
	for _, x := range result.Rules {
		if want := map[string]audit.Outcome{"broken": audit.Fired, "healthy": audit.Passed}[twin]; x.ID == one.ID && x.Outcome != want {
			wrong("%s %s, want %s", x.Outcome, x.Reason, want)
		}
	}
	if twin == "broken" {
		one.Effect = effectOf(&result.Report, one.ID)
		return
	}
	for _, f := range result.Findings {
		wrong("%s fires: %s: %s", f.Rule, f.Location, f.What)
		if !slices.Contains(d.Healthy.Fired, f.Rule) {
			d.Healthy.Fired = append(d.Healthy.Fired, f.Rule)
		}
	}
}
