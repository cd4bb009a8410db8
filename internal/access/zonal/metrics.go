package zonal

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics collects from what is known when it is asked: no series outlives its
// Service.
type metrics struct {
	process *process

	mu     sync.Mutex
	writes map[write]float64
}

// write is what writes are counted by.
type write struct {
	verb   Verb
	kind   Kind
	result string
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_zonal_"+name, help, labels, nil)
}

var (
	descActing    = desc("acting", "1 while this replica has the Lease and writes.")
	descMirror    = desc("mirror", "1 for the state of each Service that asks for a mirror: kept, pending or refused.", "namespace", "service", "state")
	descWarnings  = desc("mirror_warnings", "Reasons why the mirror may not keep traffic in its zone; status tells them.", "namespace", "service")
	descWrites    = desc("writes_total", "Writes to the API by this replica, by result: ok, late (somebody was faster) or failed.", "verb", "resource", "result")
	descCondition = desc("condition", "1 for each thing that a person should mend.", "name")
	descDropped   = desc("events_dropped_total", "Events that were not written, for lack of rights or above the rate.")
)

func newMetrics(p *process) *metrics { return &metrics{process: p, writes: map[write]float64{}} }

func (m *metrics) wrote(a Action, err error) {
	result := "ok"
	if errors.Is(err, errLate) {
		result = "late"
	} else if err != nil {
		result = "failed"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes[write{a.Verb, a.Kind, result}]++
}

// Describe implements prometheus.Collector: the series are not known before.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	s := m.process.status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	acting := 0.0
	if s.Acting {
		acting = 1
	}
	gauge(descActing, acting)
	for _, each := range s.Mirrors {
		gauge(descMirror, 1, each.Namespace, each.Service, string(each.State))
		gauge(descWarnings, float64(len(each.Warnings)), each.Namespace, each.Service)
	}
	for name := range s.Conditions {
		gauge(descCondition, 1, name)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	counter(descDropped, float64(m.process.events.Dropped()))
	m.mu.Lock()
	defer m.mu.Unlock()
	for w, n := range m.writes {
		counter(descWrites, n, string(w.verb), string(w.kind), w.result)
	}
}
