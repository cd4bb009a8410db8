package vip

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/address/announce/bgp"
	"github.com/holdfast-ha/holdfast/internal/address/bfd"
)

var (
	descPeerUp        = desc("bgp_up", "1 while the session with a router is established.", "peer")
	descPeerUps       = desc("bgp_ups_total", "Sessions with a router that came up.", "peer")
	descPeerLosses    = desc("bgp_losses_total", "Sessions with a router that were lost, by cause.", "peer", "cause")
	descPeerTries     = desc("bgp_tries_total", "Connections to a router that were tried.", "peer")
	descPeerAnnounced = desc("bgp_announced", "Addresses that a router was told of.", "peer")
	descPeerMessages  = desc("bgp_messages_total", "Messages of BGP, by direction.", "peer", "direction")

	descPathUp        = desc("bfd_up", "1 while the session of BFD is up.", "peer", "interface")
	descPathUps       = desc("bfd_ups_total", "Times that a session of BFD came up.", "peer", "interface")
	descPathFailures  = desc("bfd_failures_total", "Times that a session of BFD failed: the neighbor fell silent, or does not hear us.", "peer", "interface")
	descPathDetection = desc("bfd_detection_seconds", "Silence after which a session of BFD fails, as agreed; 0 while the neighbor is not heard.", "peer", "interface")
	descPathPackets   = desc("bfd_packets_total", "Packets of BFD, by direction.", "peer", "interface", "direction")
	descPathDropped   = desc("bfd_packets_dropped_total", "Packets of a neighbor that were not taken, by reason.", "peer", "interface", "reason")
	descLate          = desc("bfd_late_total", "Times that this machine came to BFD more than 20 ms late.")
	descLatest        = desc("bfd_late_seconds_max", "The longest of these delays.")

	descRoutes       = desc("route_routes", "Addresses that are to be in the table of routes.")
	descRouteTrouble = desc("route_trouble", "1 while the table of routes is not as it should be.")
	descRouteMended  = desc("route_mended_total", "Routes that somebody removed, and that were put back.")
)

// collectRouting is the part of Collect about routers.
func (s Status) collectRouting(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	count := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	for _, p := range s.BGP {
		gauge(descPeerUp, number(p.State == bgp.Established.String()), p.Address)
		gauge(descPeerAnnounced, float64(p.Announced), p.Address)
		count(descPeerUps, p.Ups, p.Address)
		count(descPeerTries, p.Tries, p.Address)
		count(descPeerMessages, p.Sent, p.Address, "sent")
		count(descPeerMessages, p.Received, p.Address, "received")
		for _, k := range bgp.Kinds {
			count(descPeerLosses, p.Losses[string(k)], p.Address, string(k))
		}
	}
	for _, p := range s.BFD {
		gauge(descPathUp, number(p.State == bfd.Up.String()), p.Peer, p.Interface)
		gauge(descPathDetection, float64(p.DetectionMS)/1000, p.Peer, p.Interface)
		count(descPathUps, p.Ups, p.Peer, p.Interface)
		count(descPathFailures, p.Failures, p.Peer, p.Interface)
		count(descPathPackets, p.Sent, p.Peer, p.Interface, "sent")
		count(descPathPackets, p.Received, p.Peer, p.Interface, "received")
		for _, k := range slices.Sorted(maps.Keys(p.Dropped)) {
			count(descPathDropped, p.Dropped[k], p.Peer, p.Interface, k)
		}
	}
	if s.Lateness != nil {
		count(descLate, s.Lateness.Count)
		gauge(descLatest, float64(s.Lateness.MaxMS)/1000)
	}
	if s.Route != nil {
		gauge(descRoutes, float64(s.Route.Routes))
		gauge(descRouteTrouble, number(s.Route.Trouble != ""))
		count(descRouteMended, s.Route.Mended)
	}
}
