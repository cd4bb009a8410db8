package vip

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what an agent did; what it knows is collected from its status
// when asked.
type metrics struct {
	transitions *prometheus.CounterVec
	takeover    *prometheus.HistogramVec
	status      func() Status
}

func newMetrics() *metrics {
	return &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "vip", Name: "transitions_total",
			Help: "Changes of state of a group, by the state entered and the cause.",
		}, []string{"group", "state", "cause"}),
		takeover: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "holdfast", Subsystem: "vip", Name: "takeover_seconds",
			Help:    "Time from the decision to hold until the addresses answered and had been announced.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1},
		}, []string{"group"}),
	}
}

func (m *metrics) moved(group, state, cause string) {
	m.transitions.WithLabelValues(group, state, cause).Inc()
}

func (m *metrics) took(group string, d time.Duration) {
	m.takeover.WithLabelValues(group).Observe(d.Seconds())
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_vip_"+name, help, labels, nil)
}

var (
	descHolder   = desc("holder", "1 while this machine answers for the group.", "group")
	descFault    = desc("fault", "1 while this machine cannot serve the group.", "group")
	descPriority = desc("priority", "Priority in force, with the weights of checks.", "group")
	descLeaseAge = desc("lease_age_seconds", "For how long the record has been seen as it is.", "group")
	descLeft     = desc("gate_left_seconds", "For how long the addresses answer unless that is renewed.", "group")
	descSent     = desc("adverts_sent_total", "VRRP adverts sent.", "group")
	descReceived = desc("adverts_received_total", "VRRP adverts heard on the link, of any virtual router.", "group")
	descRejected = desc("adverts_rejected_total", "Packets that are no advert of this link, by reason.", "group", "reason")
	descNotes    = desc("advert_notes_total", "What was odd about adverts or the own loop, by kind.", "group", "kind")
	descGARP     = desc("announcements_total", "Gratuitous ARP and unsolicited neighbor advertisements sent.", "group", "protocol")
	descRivals   = desc("rivals_heard_total", "Claims of the addresses by other stations, which are the holder's while it is another.", "group")
	descMended   = desc("addresses_mended_total", "Times that somebody took a held address away, and it was added again.", "group")
	descRenewals = desc("gate_renewals_total", "Renewals of the gate.", "group")
	descReopened = desc("gate_reopened_total", "Gates that fell shut while the group was held, and were opened again: the rules were removed, or the agent was slow.", "group")
	descCheck    = desc("check_good", "1 while a check is good.", "group", "check")
)

func (m *metrics) register(r prometheus.Registerer) { r.MustRegister(m.transitions, m.takeover, m) }

// Describe implements prometheus.Collector: the series are not known before.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	status := m.status()
	status.collectRouting(out)
	if status.Services != nil {
		status.Services.collect(out)
	}
	for _, g := range status.Groups {
		gauge := func(d *prometheus.Desc, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{g.Name}, labels...)...)
		}
		count := func(d *prometheus.Desc, value uint64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), append([]string{g.Name}, labels...)...)
		}
		gauge(descHolder, number(holds(g.State)))
		gauge(descFault, number(g.Fault != ""))
		gauge(descLeft, float64(g.LeftMS)/1000)
		if g.Mode == "vrrp" {
			gauge(descPriority, float64(g.Priority))
		}
		if g.Mode == "lease" {
			gauge(descLeaseAge, float64(g.LeaseAgeMS)/1000)
		}
		count(descSent, g.Sent)
		count(descReceived, g.Received)
		count(descGARP, g.ARP, "arp")
		count(descGARP, g.NA, "ndp")
		count(descRivals, g.Rivals)
		count(descMended, g.Mended)
		count(descRenewals, g.Renewals)
		count(descReopened, g.Reopened)
		for _, k := range kinds(g.Rejected) {
			count(descRejected, g.Rejected[k], k)
		}
		for _, k := range kinds(g.Notes) {
			count(descNotes, g.Notes[k], k)
		}
		for _, c := range g.Checks {
			gauge(descCheck, number(c.State == "ready" || c.State == "alive"), c.Name)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
