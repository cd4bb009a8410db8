package pair

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// metrics are what an agent counts and shows. Gauges are set once per round.
type metrics struct {
	generation prometheus.Gauge
	state      *prometheus.GaugeVec
	serves     prometheus.Gauge
	running    prometheus.Gauge
	lost       prometheus.Gauge
	peer       prometheus.Gauge
	arbiterAge prometheus.Gauge
	arbiterOK  prometheus.Gauge
	alarm      prometheus.Gauge
	actions    *prometheus.CounterVec
	edits      prometheus.Histogram
	etcdAlarm  *prometheus.GaugeVec
	raised     []etcd.Alarm
	failing    bool // an action fails again and again
	shown      arbiter.Record
}

func newMetrics() *metrics {
	single := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "pair", Name: name, Help: help})
	}
	return &metrics{
		generation: single("generation", "Generation of the record as last read; 0: none yet."),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "pair", Name: "state",
			Help: "1 for the state of the record as last read: paired, or solo with the survivor's name."}, []string{"state", "survivor"}),
		serves:     single("serves", "1 while the own etcd proves a quorum, and no alarm of etcd keeps it from writing."),
		running:    single("etcd_running", "1 while the own etcd process is there."),
		lost:       single("quorum_lost_seconds", "How long the own etcd has not proven a quorum."),
		peer:       single("peer_reachable", "1 while the peer's raft listener answers."),
		arbiterAge: single("arbiter_age_seconds", "Age of the record as last read; -1: never read."),
		arbiterOK:  single("arbiter_readable", "1 while the last read of the arbiter succeeded and can be believed."),
		alarm:      single("alarm", "1 while a person should look, also where an action fails again and again or etcd has raised an alarm; /status says why."),
		etcdAlarm: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "pair", Name: "etcd_alarm",
			Help: "1 for each alarm that etcd has raised for a member, NOSPACE or CORRUPT: no member takes writes until it is disarmed."}, []string{"alarm", "member"}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "pair", Name: "actions_total",
			Help: "What the agent did, by kind and result."}, []string{"action", "result"}),
		edits: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "holdfast", Subsystem: "pair", Name: "edit_seconds",
			Help: "How long edits of the log took.", Buckets: []float64{.02, .05, .1, .2, .5, 1, 2, 5}}),
	}
}

func (m *metrics) register(r prometheus.Registerer) {
	r.MustRegister(m.generation, m.state, m.serves, m.running, m.lost, m.peer, m.arbiterAge, m.arbiterOK, m.alarm, m.etcdAlarm, m.actions, m.edits)
}

func (m *metrics) acted(do Action, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.actions.WithLabelValues(string(do), result).Inc()
}

// alarms sets what etcd's alarms bear on.
func (m *metrics) alarms(raised []etcd.Alarm, name func(uint64) string) {
	if slices.Equal(raised, m.raised) {
		return
	}
	m.raised = raised
	m.etcdAlarm.Reset()
	for _, a := range raised {
		m.etcdAlarm.WithLabelValues(a.Name, name(a.Member)).Set(1)
	}
}

func (m *metrics) observe(v View, p Plan) {
	m.serves.Set(boolean(v.quorate() && len(m.raised) == 0))
	m.alarm.Set(boolean(p.Alarm || m.failing || len(m.raised) > 0))
	r := v.Arbiter.Record
	if r != m.shown {
		m.shown = r
		m.state.Reset()
		m.generation.Set(float64(r.Generation))
		if r.Generation > 0 {
			m.state.WithLabelValues(string(r.State), r.Survivor).Set(1)
		}
	}
	m.running.Set(boolean(v.Process.Running))
	m.peer.Set(boolean(v.peerReachable()))
	m.arbiterOK.Set(boolean(v.Arbiter.Known && v.Arbiter.Trouble == Readable))
	m.lost.Set(0)
	if !v.quorate() {
		m.lost.Set(v.since(max(v.Quorum.Confirmed, 1)).Seconds())
	}
	m.arbiterAge.Set(-1)
	if v.Arbiter.Known {
		m.arbiterAge.Set(v.since(v.Arbiter.Asked).Seconds())
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
