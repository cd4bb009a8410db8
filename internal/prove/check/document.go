package check

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
)

// groupTitles say what each group is about.
var groupTitles = map[rule.Group]string{
	rule.APIAddress:     "the one address by which the API is reached",
	rule.Certificates:   "names and ends of the apiservers' certificates",
	rule.Balancer:       "what stands between clients and apiservers",
	rule.Etcd:           "where etcd's members are and how they fare",
	rule.EndpointsZones: "who writes endpoints, and which zone they are in",
	rule.VIP:            "addresses that move between machines",
	rule.BGP:            "addresses that are announced to routers",
	rule.Timers:         "failure detectors that stand in each other's way",
	rule.Clients:        "clients that go around the address",
	rule.Maintenance:    "work on nodes, by people and by timers",
}

// document writes docs/rules.md. Each rule has a heading of its identifier alone,
// which is where SARIF's links lead.
func document(w io.Writer) error {
	var b strings.Builder
	all := rules.All()
	fmt.Fprintf(&b, "# Rules of `holdfast check`\n\nWritten by `make docs` from the rules themselves: %d rules in %d groups.\n"+
		"[The guide](guide/check.md) says how to run them. A rule that lacks what it needs is *not evaluated*, never passed.\n\n", len(all), len(rule.Groups()))
	b.WriteString("| rule | severity | what is wrong where it fires |\n|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", r.ID, strings.ToLower(r.ID), r.Severity, r.Title)
	}
	for _, g := range rule.Groups() {
		fmt.Fprintf(&b, "\n## %s: %s\n", g, groupTitles[g])
		for _, r := range all {
			if r.Group == g {
				fmt.Fprintf(&b, "\n### %s\n\n**%s** (%s)\n\n%s\n\n- Needs %s.\n- Remedy: %s.\n- Proved by `holdfast drill run %s`.\n",
					r.ID, r.Title, r.Severity, r.Why, needs(r), r.Remedy, r.Drill)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
