package balance

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/access/balance/relay"
)

// metrics collects from what runs when it is asked: nothing is counted twice,
// and no series outlives its backend.
type metrics struct {
	process *process
	// events counts what the relay saw, by frontend.
	events  sync.Map         // string → *eventCounts
	reloads [2]atomic.Uint64 // good, failed
}

type eventCounts [mostKinds]atomic.Uint64

// mostKinds is above every relay.EventKind.
const mostKinds = int(relay.LocalFault) + 1

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_balance_"+name, help, labels, nil)
}

var (
	descGrade       = desc("backend_grade", "Grade of the backend: 0 unknown, 1 unreachable, 2 refused, 3 frozen, 4 not ready, 5 shutting down, 6 alive, 7 ready.", "frontend", "backend")
	descUsable      = desc("backend_usable", "1 while new connections may go to the backend: ready or alive, and not held by a person.", "frontend", "backend")
	descSuspect     = desc("backend_suspect", "1 while the backend is passed over because of a late answer or of what clients met.", "frontend", "backend")
	descConnections = desc("backend_connections", "Connections that the backend has.", "frontend", "backend")
	descTotal       = desc("backend_connections_total", "Connections that the backend ever accepted.", "frontend", "backend")
	descFailed      = desc("backend_failed_total", "Attempts that failed by the backend's fault; the client was sent on to another.", "frontend", "backend")
	descBroken      = desc("backend_broken_total", "Established connections that the backend ended by a reset or by silence.", "frontend", "backend")
	descBytes       = desc("backend_bytes_total", "Bytes carried, by direction as the backend sees it.", "frontend", "backend", "direction")
	descRTT         = desc("backend_rtt_seconds", "Smoothed time of a TCP handshake.", "frontend", "backend")
	descTransitions = desc("backend_transitions_total", "Changes of the grade.", "frontend", "backend")
	descDoubt       = desc("doubt", "1 while the node doubts itself because every backend failed at once.", "frontend")
	descSource      = desc("source_ok", "1 while the source of backends answers.", "frontend", "source")
	descRejected    = desc("source_rejected_total", "Entries of the source that were left out.", "frontend", "source")
	descEvents      = desc("events_total", "What the data path met, by kind: refused is a client without a backend.", "frontend", "event")
	descSettings    = desc("settings_good", "1 while the settings file is in force; 0 when it was refused and older settings are.")
	descReloads     = desc("settings_reloads_total", "Readings of the settings file.", "result")
)

func newMetrics(p *process) *metrics { return &metrics{process: p} }

// saw counts an event. It is called on event loops.
func (m *metrics) saw(e relay.Event) {
	if e.Kind == relay.Connected || e.Kind == relay.Closed || int(e.Kind) >= mostKinds {
		return // counted at the target
	}
	counts, ok := m.events.Load(e.Frontend)
	if !ok {
		counts, _ = m.events.LoadOrStore(e.Frontend, new(eventCounts))
	}
	counts.(*eventCounts)[e.Kind].Add(uint64(max(1, e.Count)))
}

func (m *metrics) reloaded(err error) {
	if err != nil {
		m.reloads[1].Add(1)
		return
	}
	m.reloads[0].Add(1)
}

// Describe implements prometheus.Collector: the series are not known before.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	s := m.process.status()
	out <- gauge(descSettings, boolean(s.Settings.Error == ""))
	out <- counter(descReloads, float64(m.reloads[0].Load()), "good")
	out <- counter(descReloads, float64(m.reloads[1].Load()), "failed")
	for _, f := range s.Frontends {
		out <- gauge(descDoubt, boolean(f.Doubt), f.Name)
		for _, src := range f.Sources {
			out <- gauge(descSource, boolean(src.OK), f.Name, src.Name)
			out <- counter(descRejected, float64(src.Rejected), f.Name, src.Name)
		}
		for _, b := range f.Backends {
			b.collect(out, f.Name)
		}
		if counts, ok := m.events.Load(f.Name); ok {
			for kind := range counts.(*eventCounts) {
				if n := counts.(*eventCounts)[kind].Load(); n > 0 {
					out <- counter(descEvents, float64(n), f.Name, strings.ReplaceAll(relay.EventKind(kind).String(), " ", "_"))
				}
			}
		}
	}
}

func (b BackendStatus) collect(out chan<- prometheus.Metric, frontend string) {
	id := b.ID
	if b.Leaving {
		id += " (leaving)" // its successor of the same address may be back
	}
	out <- gauge(descGrade, float64(b.Grade), frontend, id)
	out <- gauge(descUsable, boolean(b.Grade.Usable() && !b.Held && !b.Leaving), frontend, id)
	out <- gauge(descSuspect, boolean(b.Suspect), frontend, id)
	out <- gauge(descConnections, float64(b.Connections), frontend, id)
	out <- counter(descTotal, float64(b.Total), frontend, id)
	out <- counter(descFailed, float64(b.Failed), frontend, id)
	out <- counter(descBroken, float64(b.Broken), frontend, id)
	out <- counter(descBytes, float64(b.BytesIn), frontend, id, "in")
	out <- counter(descBytes, float64(b.BytesOut), frontend, id, "out")
	out <- gauge(descRTT, b.RTTMS/1000, frontend, id)
	out <- counter(descTransitions, float64(b.Transitions), frontend, id)
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
