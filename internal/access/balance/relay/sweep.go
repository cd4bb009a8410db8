package relay

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sweepEvery is how often connections are looked at for data that the
	// target's kernel does not acknowledge.
	sweepEvery = 500 * time.Millisecond
	// sweepSample and sweepLook bound the work per target: how many are asked
	// for TCP_INFO, and how many are looked at to find them.
	sweepSample = 32
	sweepLook   = 512
	// lostTwice: two retransmissions in a row, 600 ms with the kernel's least
	// timeout of 200 ms (RFC 6298, 5.5), tell a dead path from a lost packet.
	lostTwice = 2
)

func (l *loop) sweeping() bool { return l.sweeper.index != 0 }

// sweep samples each target and forgets those without connections. It goes on
// while the loop has any.
func (l *loop) sweep() {
	for target, g := range l.groups {
		if len(g.attempts) == 0 {
			delete(l.groups, target)
			continue
		}
		if target.Network == "tcp" {
			l.sample(target, g)
		}
	}
	if len(l.groups) > 0 || l.sessions.Load() > 0 {
		l.timers.set(&l.sweeper, l.now+int64(sweepEvery))
	}
}

// sample reports the connections of one target whose data is not acknowledged.
// A target that is silent after acknowledging is not at fault: so are watches.
func (l *loop) sample(target *Target, g *group) {
	asked, found := 0, 0
	var one *session
	for range min(len(g.attempts), sweepLook) {
		g.cursor = (g.cursor + 1) % len(g.attempts)
		a := g.attempts[g.cursor]
		s := a.session
		if a.dialing || s.stage == stageOpen && !s.unanswered {
			continue
		}
		var info unix.TCPInfo
		if sysTCPInfo(int(a.fd), &info) == 0 && unacknowledged(&info) {
			found++
			one = s
		}
		if asked++; asked == sweepSample {
			break
		}
	}
	if found > 0 {
		one.event(Event{Kind: Unacked, Target: target, Count: found})
	}
}

// unacknowledged says whether data was sent again and again without an
// acknowledgement (tcp_info of linux/tcp.h). Where this machine itself drops
// what it sends (a firewall rule on the way out), the kernel counts the data as
// unsent and probes with it; a window that has room tells that from a peer
// that does not read.
func unacknowledged(info *unix.TCPInfo) bool {
	if info.Unacked > 0 {
		return info.Retransmits >= lostTwice || info.Backoff >= lostTwice
	}
	return info.Notsent_bytes > 0 && info.Backoff >= lostTwice && info.Snd_wnd >= info.Snd_mss
}
