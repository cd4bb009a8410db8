package scenario

import (
	"fmt"
	"time"
)

// silent is how long an address may be away whose holder falls silent: VRRP waits
// three adverts and the skew of the best backup (RFC 9568, section 6.1). The
// holder fell silent up to an advert after its last one.
func silent(t Timers) Window { return t.down(t.Advert) }

// silentPeer is the same with the adverts of the run without the agents.
func silentPeer(t Timers) Window { return t.down(t.PeerAdvert) }

func (t Timers) down(advert time.Duration) Window {
	d := Adverts(advert, BestBackup)
	w := t.lost(d.Max, advertTerms(advert, BestBackup)...)
	w.Min = max(0, d.Min-2*t.Interval)
	return w
}

// leased is how long an address may be away whose holder loses its lease: a
// challenger has to see the record unchanged for a whole lease, and waits up to a
// twentieth more.
func leased(t Timers) Window {
	return t.lost(t.Lease+t.Lease/20,
		term{t.Lease, "a lease is seen unchanged for"},
		term{t.Lease / 20, "and a twentieth of it:"},
		term{t.Write, "one write"})
}

// unhealthy is how long a service may be away whose machine goes on answering for
// the address: until the check has failed, and then the address is handed over.
func unhealthy(t Timers) Window {
	return t.lost(t.Check,
		term{t.Check, "the check has failed within"},
		term{t.HandOver, "hand-over"})
}

// refusedAt is unhealthy for a server that was killed: its check fails at once, by
// the end of a connection and the refusal of the next.
func refusedAt(t Timers) Window {
	return t.lost(t.Refused,
		term{t.Refused, "the check is refused twice within"},
		term{t.HandOver, "hand-over"})
}

// resigned is how long an address is away that a machine gives up because it
// cannot serve: it stops answering at once, for what it would answer with is bad,
// and the best of the others waits for its skew (RFC 9568, section 6.4.2).
func resigned(t Timers) Window {
	skew := t.Advert * (256 - BestBackup) / 256
	return t.lost(skew, term{skew, fmt.Sprintf("skew of priority %d:", BestBackup)})
}

// lost is a window that counts from the first lost request. A kept connection is
// as dead as its machine: what the client has sent is repeated at twice the time
// each, and the next machine resets it then.
func (t Timers) lost(away time.Duration, terms ...term) Window {
	if t.Kept {
		terms = append(terms, term{away + t.Repeat, "TCP repeats what was lost, at most as much later, and"})
	}
	w := sum(0, append(terms, term{2 * t.Interval, "two samples"}, term{t.Noise, "margin of a busy machine"}))
	w.FromLoss = true
	return w
}
