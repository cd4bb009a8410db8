package leader

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an agent counts and shows. Gauges are set once per round.
type metrics struct {
	leads    prometheus.Gauge
	linkUp   *prometheus.GaugeVec
	linkRTT  *prometheus.GaugeVec
	linkLoss *prometheus.GaugeVec
	sees     *prometheus.GaugeVec
	rowAge   *prometheus.GaugeVec
	penalty  prometheus.Gauge
	plan     *prometheus.GaugeVec
	refused  *prometheus.CounterVec
	moves    *prometheus.CounterVec
	publish  *prometheus.CounterVec
	lastPlan Refusal
}

func newMetrics() *metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "leader", Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "leader", Name: name, Help: help}, labels)
	}
	single := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "leader", Name: name, Help: help})
	}
	return &metrics{
		leads:    single("own_member_leads", "1 while the member beside this agent is the leader by its own word."),
		linkUp:   gauge("link_up", "What a member's agent says of its link: 1 up, 0 down, -1 unknown. Rows of others are as old as holdfast_leader_row_age_seconds says.", "from", "to"),
		linkRTT:  gauge("link_rtt_seconds", "Smoothed round trip of a probe on the kept connection.", "from", "to"),
		linkLoss: gauge("link_loss_ratio", "Share of steady probes lost over 30 s; 0 until 20 were sent.", "from", "to"),
		sees:     gauge("member_leaderless", "1 while a member's own fresh row says that its raft has no leader.", "member"),
		rowAge:   gauge("row_age_seconds", "Age of the newest row of a member as this agent knows it.", "member"),
		penalty:  single("penalty", "Damping penalty left; a move needs less than 0.5."),
		plan:     gauge("plan", "1 for the current reason why leadership stays, or for \"move\".", "reason"),
		refused:  counter("refused_total", "Times leadership began to stay for this reason.", "reason"),
		moves:    counter("moves_total", "Moves tried by this agent, by result.", "result"),
		publish:  counter("publish_total", "Rows written to etcd by this agent, by result.", "result"),
	}
}

func (m *metrics) register(r prometheus.Registerer) {
	r.MustRegister(m.leads, m.linkUp, m.linkRTT, m.linkLoss, m.sees, m.rowAge, m.penalty, m.plan, m.refused, m.moves, m.publish)
}

func (m *metrics) published(err error) { m.publish.WithLabelValues(resultOf(err)).Inc() }
func (m *metrics) moved(result string) { m.moves.WithLabelValues(result).Inc() }

func resultOf(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

func (m *metrics) planned(p Plan) {
	if p.Refused != "" {
		m.refused.WithLabelValues(string(p.Refused)).Inc()
	}
}

// observe shows the snapshot and plan of one round.
func (m *metrics) observe(a *Agent, snap Snapshot, plan Plan) {
	m.leads.Set(boolean(snap.Own.Reachable && snap.Self != 0 && snap.Own.Leader == snap.Self))
	m.penalty.Set(a.penaltyLeft())
	if plan.Refused != m.lastPlan {
		m.plan.Reset()
		m.lastPlan = plan.Refused
	}
	reason := string(plan.Refused)
	if plan.Move != nil {
		reason = "move"
	}
	m.plan.WithLabelValues(reason).Set(1)
	if snap.VotersChanged <= membersEvery {
		m.forget()
	}
	m.row(a, snap, snap.Own)
	for _, r := range snap.Rows {
		m.row(a, snap, r)
	}
}

// forget drops the series of members and links, so that those that are gone do
// not stand there for ever.
func (m *metrics) forget() {
	for _, v := range []*prometheus.GaugeVec{m.linkUp, m.linkRTT, m.linkLoss, m.sees, m.rowAge} {
		v.Reset()
	}
}

func (m *metrics) row(a *Agent, snap Snapshot, r Row) {
	from := a.name(snap, r.Member)
	m.rowAge.WithLabelValues(from).Set(r.Age.Seconds())
	m.sees.WithLabelValues(from).Set(boolean(r.Reachable && r.Leader == 0 && r.Age <= a.cfg.Fresh))
	for id, l := range r.Links {
		to := a.name(snap, id)
		m.linkUp.WithLabelValues(from, to).Set(linkValue(l.State))
		if r.Member == snap.Self {
			m.linkRTT.WithLabelValues(from, to).Set(l.RTT.Seconds())
			m.linkLoss.WithLabelValues(from, to).Set(l.Loss)
		}
	}
}

func (a *Agent) penaltyLeft() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.Penalty(a.cfg, a.clock())
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func linkValue(s LinkState) float64 {
	switch s {
	case Up:
		return 1
	case Down:
		return 0
	default:
		return -1
	}
}

// seconds with one decimal are enough for people.
func short(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
