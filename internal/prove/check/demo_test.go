package check

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
)

// The program itself shows that every rule finds its mistake and nothing else.
func TestLabDemo(t *testing.T) {
	out, err := command("--lab-demo", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var d demo
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	n := len(rules.All())
	if len(d.Rules) != n || len(d.Broken.Fired) != n || len(d.Healthy.Silent) != n || len(d.Healthy.Fired) != 0 {
		t.Errorf("%d rules: %d fired, %d silent, %d cried: %v", n, len(d.Broken.Fired), len(d.Healthy.Silent), len(d.Healthy.Fired), d.Healthy)
	}
	for _, r := range d.Rules {
		if r.Effect == "" || r.Title == "" || r.Drill == "" {
			t.Errorf("%+v", r)
		}
	}
	if out, err = command("--lab-demo"); err != nil || !strings.Contains(out, "broken: fires") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A rule that misses its mistake, or cries, makes the demonstration fail.
func TestLabDemoFails(t *testing.T) {
	whole := demo{Rules: make([]demoRule, 2), Broken: demoTwins{Fired: []string{"a", "b"}}, Healthy: demoTwins{Silent: []string{"a", "b"}}}
	if err := whole.verdict(); err != nil {
		t.Error(err)
	}
	missed, cried, blind := whole, whole, whole
	missed.Broken.Fired = []string{"a"}
	cried.Healthy.Fired = []string{"b"}
	blind.Healthy.Silent = []string{"a"}
	for _, d := range []demo{missed, cried, blind} {
		if err := d.verdict(); exit.Code(err) != exit.Failed {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for _, args := range []string{"--lab-demo .", "--lab-demo --node", "--lab-demo --format sarif"} {
		if _, err := command(strings.Fields(args)...); exit.Code(err) != exit.Unknown {
			t.Errorf("%s: %v", args, err)
		}
	}
}
