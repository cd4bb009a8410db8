package drill

import (
	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// agentKind is how agents of one kind are run and read.
type agentKind struct {
	// command is that of holdfast: `holdfast COMMAND run --config FILE`.
	command string
	config  func(*engine, scenario.Process) any
	// telemetry is where an agent answers people, from within its node.
	telemetry func(*engine, scenario.Process) string
	// ready is what must answer 200 there before a run goes on.
	ready string
	// source is that of its events, before the site.
	source string
	// events maps messages of its log to kinds of events, or problemPrefix and the
	// code of a problem; message says one for people.
	events map[string]string
	// decided is the kind of event for any line that says what to do next.
	decided string
	message func(msg string, keys map[string]string) string
}

// at is an agent of which there is one per node.
func at(address string) func(*engine, scenario.Process) string {
	return func(*engine, scenario.Process) string { return address }
}

var agentKinds = map[string]agentKind{
	scenario.AgentLeader: {
		command: "leader", config: func(e *engine, p scenario.Process) any { return e.leaderConfig(p) },
		telemetry: func(e *engine, p scenario.Process) string { return telemetryAddr(e.clusterIndex(p.Cluster)) },
		ready:     "/readyz", source: "agent/", events: leaderEvents, message: leaderMessage,
	},
	// A balancer need only run: with the timers of anchors it may take 20 s to
	// know its backends, and the warm-up waits for the paths through it anyway.
	scenario.AgentBalance: {
		command: "balance", config: func(e *engine, p scenario.Process) any { return e.balanceConfig(p.Site) },
		telemetry: at(balanceTelemetry), ready: "/healthz", source: "balance/", events: balanceEvents, message: balanceMessage,
	},
	// Apiservers are started behind this one and need it to serve.
	scenario.AgentEtcdBalance: {
		command: "balance", config: func(e *engine, p scenario.Process) any { return e.etcdBalanceConfig(p.Site) },
		telemetry: at(etcdBalanceTelemetry), ready: "/readyz", source: "etcd-balance/", events: balanceEvents, message: balanceMessage,
	},
	scenario.AgentSlices: {
		command: "slices", config: func(e *engine, p scenario.Process) any { return e.slicesConfig(p.Site) },
		telemetry: at(slicesTelemetry), ready: "/readyz", source: "slices/", events: slicesEvents, message: slicesMessage,
	},
	// Replicas that stand by are well too; a gateway waits for the mirror anyway.
	scenario.AgentZonal: {
		command: "zonal", config: func(e *engine, p scenario.Process) any { return e.zonalConfig(p.Site) },
		telemetry: at(zonalTelemetry), ready: "/healthz", source: "zonal/",
	},
	scenario.AgentVIP: {
		command: "vip", config: func(e *engine, p scenario.Process) any { return e.vipConfig(p) },
		telemetry: at(vipTelemetry), ready: "/readyz", source: "vip/", events: vipEvents, message: vipMessage,
	},
	scenario.AgentPair: {
		command: "pair", telemetry: at(pairTelemetry), ready: "/readyz", source: "pair/", decided: record.KindDecided,
		message: func(msg string, _ map[string]string) string { return msg },
	},
	scenario.AgentArbiter: {command: "pair arbiter", source: "arbiter/"},
	scenario.AgentFront: {
		command: "balance", config: func(e *engine, p scenario.Process) any { return e.frontConfig(p) },
		telemetry: at(frontTelemetry), ready: "/readyz", source: "front/", events: balanceEvents, message: balanceMessage,
	},
}

func kindOf(p scenario.Process) agentKind { return agentKinds[p.Kind()] }
