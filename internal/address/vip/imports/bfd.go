package imports

import (
	"net/netip"
	"time"
)

// bfd is bfd_instance NAME { neighbor_ip, min_rx, min_tx, multiplier, weight }.
func (k *keepalived) bfd(s *statement) {
	// Those of keepalived.conf(5).
	rx, tx := 10, 10
	h := &health{Name: plain(s.word(1)), Kind: "bfd", Multiplier: 5}
	for _, d := range s.block {
		switch d.name() {
		case "neighbor_ip":
			h.Address = d.word(1)
		case "min_rx":
			rx = k.number(d, 1, 60000)
		case "min_tx":
			tx = k.number(d, 1, 60000)
		case "multiplier":
			h.Multiplier = k.number(d, 1, 255)
		case "weight":
			h.Weight = k.weight(d, 1)
		case "idle_tx":
			// A session that is not up sends once a second, as it has to.
		default:
			k.note(d.where(), "not carried over")
		}
	}
	if _, err := netip.ParseAddr(h.Address); err != nil {
		k.mistake(s.where(), "neighbor_ip is %q; name the neighbor's address", h.Address)
		return
	}
	if rx != tx {
		k.note(s.where(), "min_rx %d ms and min_tx %d ms become one interval, the longer", rx, tx)
	}
	h.Interval = duration(time.Duration(max(rx, tx, 10)) * time.Millisecond)
	k.checks["track_bfd "+s.word(1)] = h
}
