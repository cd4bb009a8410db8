package record

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// Version is the schema version of run.json.
const Version = 1

// Files of a run directory.
const (
	CaseFile    = report.ScenarioFile
	RunFile     = "run.json"
	EnvFile     = report.EnvFile
	SamplesFile = report.SamplesFile
	EventsFile  = report.EventsFile
	JournalFile = report.CommandsFile
	LogsDir     = "logs"
)

// Record is all that a run saw: the input of the judge.
type Record struct {
	Case    *scenario.Case
	Run     Run
	Samples []probe.Sample
	Events  []Event
	// Keys is what the members of a pair had in the end; nil in other drills.
	Keys Keys
}

// Run is run.json. Times are wall-clock, from one monotonic origin.
type Run struct {
	Version int       `json:"version"`
	Agents  bool      `json:"agents"`
	Started time.Time `json:"started"`
	// Injected is just before the first fault was applied, the origin of time
	// in reports; Healed just before the last was undone. Zero when the run
	// did not come so far.
	Injected time.Time `json:"injected,omitzero"`
	Healed   time.Time `json:"healed,omitzero"`
	Ended    time.Time `json:"ended"`
	Phases   []Phase   `json:"phases"`
	Faults   []Fault   `json:"faults"`
	// Members maps the name of each etcd member to its site.
	Members map[string]string `json:"members,omitempty"`
	// Controls are the paths to the probers' own loopback.
	Controls []string `json:"controls,omitempty"`
	// Trouble is what kept the run from proving anything, in words.
	Trouble     []string          `json:"trouble,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// Phase is a stretch of the run.
type Phase struct {
	Name string    `json:"name"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Fault is one injection; To is zero while it is in force.
type Fault struct {
	Name   string    `json:"name"`
	Kind   string    `json:"kind"`
	Detail string    `json:"detail"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to,omitzero"`
	// Verified says that the measured reachability equalled the declared one.
	Verified bool          `json:"verified"`
	Links    []report.Link `json:"links,omitempty"`
	Sites    []string      `json:"sites,omitempty"`
}

// Kinds of events.
const (
	KindLeader     = "leader-changed" // a member follows another leader; keys from, to, member
	KindNoLeader   = "no-leader"      // a member's raft has no leader; key member
	KindLeaderBack = "leader-back"    // it has one again; keys member, to
	KindSilent     = "member-silent"  // a member does not answer Status; key member
	KindAnswers    = "member-answers" // it answers again; key member
	KindMoving     = "moving"         // an agent is about to move the leader
	KindMove       = "move"           // it has; keys from, to, took_ms, reason
	KindMoveFailed = "move-failed"    // it could not
	KindExit       = "exit"           // a child process ended by itself

	KindDisk    = "disk"              // how long a sync took on each member; keys are their names
	KindReady   = "apiserver-ready"   // an apiserver's /readyz says 200; key apiserver
	KindUnready = "apiserver-unready" // it does not; keys apiserver, reason
	KindGraded  = "backend-graded"    // a balancer graded a backend; keys backend, from, to, reason
	KindReset   = "connections-reset" // it reset connections; keys backend, count, cause

	KindEndpoints    = "endpoints"      // those of default/kubernetes are new; keys as of [EndpointKeys]
	KindJudged       = "own-apiserver"  // an agent changed its mind of its apiserver; keys problem, object
	KindWrote        = "wrote"          // it wrote an object of all; keys object, why
	KindRenewed      = "renewed"        // the engine started a process anew before the baseline; key process
	KindAnswering    = "answering"      // a machine answers ARP for the held address; key node
	KindCeased       = "ceased"         // it does not any more; dated by its last answer; key node
	KindAddressOn    = "address-on"     // the address is on a machine's interface; key node
	KindAddressOff   = "address-off"    // it is not any more; key node
	KindNeighbour    = "neighbour"      // what somebody believes of the address; keys who, node, answering, stale
	KindHolds        = "vip-state"      // an agent changed its state; keys state, cause
	KindPairRecord   = "pair-record"    // the arbiter's record is another; keys state, survivor, generation
	KindDecided      = "pair-decision"  // an agent of a pair has decided something new; keys do, record
	KindNodeReady    = "node-ready"     // a Node is Ready; key node
	KindStored       = "stored"         // what a log store has in the end; keys site, origin, lines, last
	KindNodeNotReady = "node-not-ready" // it is not; keys node, status, reason
)

// Event is something the cluster or an agent did.
type Event struct {
	At      time.Time         `json:"at"`
	Source  string            `json:"source"`
	Kind    string            `json:"kind"`
	Cluster string            `json:"cluster,omitempty"`
	Message string            `json:"message"`
	Keys    map[string]string `json:"keys,omitempty"`
}
