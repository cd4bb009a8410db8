package rule

import (
	"fmt"
	"regexp"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// Group is one of the ten matters that rules are about.
type Group string

// The groups, in the order of reports.
const (
	APIAddress     Group = "api-address"
	Certificates   Group = "certificates"
	Balancer       Group = "balancer"
	Etcd           Group = "etcd"
	EndpointsZones Group = "endpoints-zones"
	VIP            Group = "vip"
	BGP            Group = "bgp"
	Timers         Group = "timers"
	Clients        Group = "clients"
	Maintenance    Group = "maintenance"
)

// Prefixes are the middle parts of the identifiers of each group's rules.
var Prefixes = map[Group]string{
	APIAddress: "API", Certificates: "CERT", Balancer: "BAL", Etcd: "ETCD", EndpointsZones: "ZONE",
	VIP: "VIP", BGP: "BGP", Timers: "TIME", Clients: "CLI", Maintenance: "MAINT",
}

// Groups lists the groups in the order of reports.
func Groups() []Group {
	return []Group{APIAddress, Certificates, Balancer, Etcd, EndpointsZones, VIP, BGP, Timers, Clients, Maintenance}
}

// Severity says what a finding costs when the fault comes.
type Severity int

const (
	// Note: worth knowing; costs seconds, or only later.
	Note Severity = iota
	// Warning: an outage longer than it has to be, or of some clients.
	Warning
	// Error: one fault, and the cluster or all its clients are down.
	Error
)

var severities = []string{"note", "warning", "error"}

// String is how reports and flags spell it.
func (s Severity) String() string { return severities[s] }

// ParseSeverity reads what String writes.
func ParseSeverity(text string) (Severity, error) {
	for i, s := range severities {
		if s == text {
			return Severity(i), nil
		}
	}
	return 0, fmt.Errorf("severity %q: want note, warning or error", text)
}

// Rule is one thing that is looked for.
type Rule struct {
	// ID is HF-GROUP-NNN, for good.
	ID    string
	Group Group
	// Title says in under 80 characters what is wrong where the rule fires.
	Title    string
	Severity Severity
	// Needs are the facts without which it is not evaluated. OneOf are sets of which
	// one is enough, in the order of worth.
	Needs []fact.Kind
	OneOf []fact.Kind
	// Why says what happens then, in two or three sentences: the trap.
	Why string
	// Remedy is what to do in general. A finding has what to paste.
	Remedy string
	// Drill is the name of the scenario that proves it.
	Drill string
	// Check returns what it finds. An error is fact.Lacking or fact.NotApplicable;
	// any other is a defect of the rule and makes the result "could not tell".
	Check func(*fact.Facts) ([]Finding, error)
}

// Finding is one place where a rule fires.
type Finding struct {
	At fact.Location
	// What is wrong here, with the values found, in one sentence without a stop.
	What string
	// Effect is what a fault then does, derived by the code of the drills.
	Effect Effect
	// Remedy is something to paste; "" takes the rule's.
	Remedy string
	// Key tells findings at one object apart, such as a container's name. It goes
	// into the fingerprint, so that it must not change from run to run.
	Key string
}

var identifier = regexp.MustCompile(`^HF-([A-Z]+)-[0-9]{3}$`)

// Validate says what is missing from a rule.
func (r Rule) Validate() error {
	m := identifier.FindStringSubmatch(r.ID)
	switch {
	case m == nil:
		return fmt.Errorf("rule %q: id: want HF-GROUP-NNN", r.ID)
	case Prefixes[r.Group] != m[1]:
		return fmt.Errorf("rule %s: group %q has the prefix %s", r.ID, r.Group, Prefixes[r.Group])
	case r.Title == "" || len(r.Title) > 80:
		return fmt.Errorf("rule %s: title: want 1 to 80 bytes, has %d", r.ID, len(r.Title))
	case r.Why == "" || r.Remedy == "" || r.Drill == "":
		return fmt.Errorf("rule %s: why, remedy and drill must be given", r.ID)
	case len(r.Needs) == 0 && len(r.OneOf) == 0:
		return fmt.Errorf("rule %s: needs: a rule that needs no facts says nothing", r.ID)
	case r.Check == nil:
		return fmt.Errorf("rule %s: check: missing", r.ID)
	}
	return nil
}
