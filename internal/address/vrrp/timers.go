package vrrp

import "time"

// skew is Skew_Time: how much longer a router of a priority waits than one
// of 256 would, so that the best backup is first. RFC 9568 section 6.1 scales
// it by the active router's interval; RFC 3768 section 6.1 by one second.
func skew(version int, priority uint8, interval time.Duration) time.Duration {
	if version == 2 {
		interval = time.Second
	}
	return time.Duration(256-int(priority)) * interval / 256
}

// down is Active_Down_Interval (RFC 9568 section 6.1), Master_Down_Interval
// in RFC 3768: how long a silence means that the active router is gone.
func down(version int, priority uint8, interval time.Duration) time.Duration {
	return lapse(interval) + skew(version, priority, interval)
}

// lapse is how long after its last advert a holder that did not run is no
// holder any more: the dead-man of its kernel has silenced it (it runs out
// after three adverts), and from here on a backup may take over.
func lapse(interval time.Duration) time.Duration { return 3 * interval }

// pulse is how often a backup wants to be called although nothing happens, to
// notice that it was not running.
func pulse(interval time.Duration) time.Duration { return interval / 2 }

// patience is how long a backup may be left without a call before the silence
// of the others is doubted: it may have been ours. Within one interval no
// more than one advert was missed.
func patience(interval time.Duration) time.Duration { return interval }

// assertGap is the least time between an advert and one that answers somebody
// else's: a flood of those is not answered one for one.
func assertGap(interval time.Duration) time.Duration { return interval / 8 }

// preemptSkew is the part of the skew by which several that preempt upon one
// advert follow one another, the best first: short, since the holder may be
// frozen in between.
const preemptSkew = 8
