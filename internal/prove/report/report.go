package report

import "time"

// Version is the schema version of Report. A field may be added within a
// version; renaming or removing one needs a new version.
const Version = 1

// Verdict answers a drill, a run, or one path of it.
type Verdict string

const (
	Pass          Verdict = "pass"
	Fail          Verdict = "fail"
	Inconclusive  Verdict = "inconclusive"
	NotApplicable Verdict = "not-applicable"
)

// Report is the result of a drill: report.json, and the input of every other
// format. Times in *_ms fields are milliseconds from the injection of the
// first fault of the run they stand in (negative before it).
type Report struct {
	Version  int       `json:"version"`
	Scenario string    `json:"scenario"`
	Title    string    `json:"title,omitempty"`
	Started  time.Time `json:"started"`
	Verdict  Verdict   `json:"verdict"`
	// Reasons says why, in words, one line each; never empty unless Verdict is pass.
	Reasons []string `json:"reasons,omitempty"`
	// With and Without are the runs of the main variant with and without the
	// agents. Either may be nil when it was not asked for.
	With    *Run `json:"with,omitempty"`
	Without *Run `json:"without,omitempty"`
	// Paths lists the judged paths of the With run (of Without when there is
	// no With run).
	Paths []Path `json:"paths"`
	// Variants holds the other starting positions of the scenario.
	Variants []Variant `json:"variants,omitempty"`
	// Numbers are the figures a dashboard or bench would pick, by stable name.
	Numbers map[string]float64 `json:"numbers"`
	// Sites are the places of the lab, in drawing order; the site diagram and
	// the grouping of rows follow it. Sites seen only in Paths are appended.
	Sites []Site `json:"sites,omitempty"`
	// Environment: versions, kernel, delay method, timers found.
	Environment map[string]string `json:"environment,omitempty"`
}

// Site is a place of the lab with its links to all others.
type Site struct {
	Name string `json:"name"`
	// Witness is true for a site that votes but carries no workload.
	Witness bool `json:"witness,omitempty"`
	// Members are the names of the etcd members that stand in the site. They
	// tie the "from" and "to" of leader events to a place in the diagram; a
	// member called like its site needs no entry.
	Members []string `json:"members,omitempty"`
}

// Link is a connection between two sites; with OneWay only packets from From
// to To are meant.
type Link struct {
	From   string `json:"from"`
	To     string `json:"to"`
	OneWay bool   `json:"one_way,omitempty"`
}

// Variant is the scenario run from another starting position.
type Variant struct {
	Name    string   `json:"name"`
	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"reasons,omitempty"`
	With    *Run     `json:"with,omitempty"`
	Without *Run     `json:"without,omitempty"`
}

// Run is one pass through the phases of a scenario.
type Run struct {
	// Agents says whether the agents ran.
	Agents bool `json:"agents"`
	// Side names the run for people: "with the agents", or what a scenario has in
	// their place. "" is taken for the agents.
	Side    string    `json:"side,omitempty"`
	Started time.Time `json:"started"`
	Verdict Verdict   `json:"verdict"`
	Reasons []string  `json:"reasons,omitempty"`
	// Recovered says whether every required path answered again, and kept
	// answering, while the fault was still in force.
	Recovered bool `json:"recovered"`
	// RecoveryMS is the time from injection until the last required path
	// answered for good; nil when it never did.
	RecoveryMS *float64 `json:"recovery_ms"`
	// Moves counts leadership moves made by agents, FirstMoveMS is when the
	// first was complete and TransferMS how long its MoveLeader call took.
	Moves       int      `json:"moves"`
	FirstMoveMS *float64 `json:"first_move_ms,omitempty"`
	TransferMS  *float64 `json:"transfer_ms,omitempty"`
	// Inflight counts requests that were in flight at a move and failed or
	// took longer than a second.
	Inflight int     `json:"inflight_hit"`
	Phases   []Phase `json:"phases"`
	Faults   []Fault `json:"faults"`
	Events   []Event `json:"events"`
	Paths    []Path  `json:"paths"`
}

// Phase is one of plan, baseline, inject, verify, hold, heal, settle, judge.
type Phase struct {
	Name   string  `json:"name"`
	FromMS float64 `json:"from_ms"`
	ToMS   float64 `json:"to_ms"`
}

// Fault is one injected fault, from in force to undone.
type Fault struct {
	Name string `json:"name"`
	// Kind is cut, delay, kill, pause, …; Detail is one line for people.
	Kind   string  `json:"kind"`
	Detail string  `json:"detail"`
	FromMS float64 `json:"from_ms"`
	ToMS   float64 `json:"to_ms"`
	// Verified says that the measured reachability matrix equalled the declared one.
	Verified bool `json:"verified"`
	// Links and Sites are what the fault struck, for the site diagram: links
	// cut or degraded, sites whose processes were killed or paused.
	Links []Link   `json:"links,omitempty"`
	Sites []string `json:"sites,omitempty"`
}

// Event is something the cluster did: a leader change, a member without
// leader, an agent's move.
type Event struct {
	AtMS    float64 `json:"at_ms"`
	Source  string  `json:"source"` // observer, agent/b, …
	Kind    string  `json:"kind"`   // leader-changed, no-leader, move, move-refused, …
	Cluster string  `json:"cluster,omitempty"`
	Message string  `json:"message"`
	// Keys are the facts behind Message. Of leader-changed and move: "from"
	// and "to", member names (either may be empty); of no-leader: "member".
	Keys map[string]string `json:"keys,omitempty"`
}

// Outage brackets a failure seen through samples: the path was down for at
// least Lower (first failed send to last failed send) and at most Upper
// (last good send to first good send).
type Outage struct {
	FromMS  float64 `json:"from_ms"` // last good send before, or first send
	ToMS    float64 `json:"to_ms"`   // first good send after, or end of run
	LowerMS float64 `json:"lower_ms"`
	UpperMS float64 `json:"upper_ms"`
	// Open is true when the run ended before a good sample was seen.
	Open   bool           `json:"open,omitempty"`
	Errors map[string]int `json:"errors"`
	First  string         `json:"first_error,omitempty"`
}

// Window is an allowed outage [MinMS, MaxMS], derived from the timers in Why.
type Window struct {
	MinMS float64  `json:"min_ms"`
	MaxMS float64  `json:"max_ms"`
	Why   []string `json:"why,omitempty"`
}

// Path is the judgement of one path in one run.
type Path struct {
	Name   string `json:"name"`
	Site   string `json:"site"`
	Target string `json:"target"`
	Kind   string `json:"kind"`
	Mode   string `json:"mode"`
	// Role is affected (must be whole again within Expected), clean (must
	// show no outage beyond Expected), control (must never fail; if it does
	// the run is inconclusive), or info (shown, not judged).
	Role    string   `json:"role"`
	Samples int      `json:"samples"`
	Failed  int      `json:"failed"`
	P50MS   float64  `json:"p50_ms"`
	P99MS   float64  `json:"p99_ms"`
	Outages []Outage `json:"outages,omitempty"`
	// RecoveredMS is when the path answered for good while the fault was in
	// force; nil if it never did, 0 when it never failed.
	RecoveredMS *float64 `json:"recovered_ms"`
	Expected    *Window  `json:"expected,omitempty"`
	Verdict     Verdict  `json:"verdict"`
	Reason      string   `json:"reason,omitempty"`
	// Strip is the path drawn: consecutive stretches of one class.
	Strip []Stretch `json:"strip,omitempty"`
}

// Stretch is a run of consecutive samples with the same outcome; Class is
// "ok", "slow" (answered, but later than a second), or a probe error class.
type Stretch struct {
	FromMS float64 `json:"from_ms"`
	ToMS   float64 `json:"to_ms"`
	Class  string  `json:"class"`
}
