package slices

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/access/slices/landing"
	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// metrics count what an agent did; what it knows is collected from its status
// when asked, so that no series outlives its slice.
type metrics struct {
	writes *prometheus.CounterVec
	signs  *prometheus.CounterVec
	paths  *prometheus.CounterVec
	status func() Status
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "slices", Name: name, Help: help}, labels)
	}
	return &metrics{
		writes: counter("writes_total", "Writes to EndpointSlices, Endpoints and the Service, by kind and result. At rest there are none.", "write", "result"),
		signs:  counter("lease_renewals_total", "Renewals of the own Lease, by result: one in 10 s.", "result"),
		paths:  counter("path_connections_total", "Connections made to see whether they stay in the zone, by where they landed: stayed, strayed, or untold.", "landed"),
	}
}

func (m *metrics) wrote(op plan.Op, err error) {
	m.writes.WithLabelValues(op.String(), resultOf(err)).Inc()
}
func (m *metrics) signed(err error) { m.signs.WithLabelValues(resultOf(err)).Inc() }

func (m *metrics) landed(o landing.Outcome) { m.paths.WithLabelValues(string(o)).Inc() }

func resultOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case conflict(err):
		return "conflict"
	}
	return "failed"
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_slices_"+name, help, labels, nil)
}

var (
	descReady   = desc("endpoint_ready", "1 while the endpoint of the node is ready, as this agent knows it.", "slice", "node", "zone")
	descHints   = desc("endpoint_zones", "Zones whose clients are sent to the endpoint, its own included.", "slice", "node", "zone")
	descServed  = desc("zone_served", "1 while a zone with nodes has a ready endpoint, its own or an adopter.", "zone")
	descOrphan  = desc("zone_adopted", "1 while a zone is served by another zone's endpoint only.", "zone")
	descOwn     = desc("apiserver_ready", "1 while the own apiserver is ready, 0 while it is not, -1 while it is not known.")
	descPhase   = desc("reconciler", "1 for what is known of the apiservers' own reconciler.", "phase")
	descProblem = desc("problem", "1 for each problem that a person has to mend.", "code", "object")
)

func (m *metrics) register(r prometheus.Registerer) { r.MustRegister(m.writes, m.signs, m.paths, m) }

// Describe implements prometheus.Collector: the series are not known before.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	s := m.status()
	gauge(descOwn, map[string]float64{"ready": 1, "unready": 0}[s.Apiserver.Health]-boolean(s.Apiserver.Health == "unknown"))
	gauge(descPhase, 1, s.Reconciler)
	for _, e := range s.Endpoints {
		gauge(descReady, boolean(e.Ready), e.Slice, e.Node, e.Zone)
		gauge(descHints, float64(len(e.Hints)), e.Slice, e.Node, e.Zone)
	}
	for _, z := range s.Zones {
		gauge(descServed, boolean(len(z.ServedBy) > 0), z.Name)
		gauge(descOrphan, boolean(z.Adopted), z.Name)
	}
	for _, p := range s.Problems {
		gauge(descProblem, 1, p.Code, p.Object)
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
