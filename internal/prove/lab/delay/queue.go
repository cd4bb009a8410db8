package delay

import "time"

const (
	// Backlog is how long a packet may wait for a limited line before it is
	// dropped: 50 ms, what tc-tbf(8) examples call latency and what a switch
	// port with a few hundred kilobytes of buffer gives at 100 Mbit/s.
	Backlog = 50 * time.Millisecond
	// MaxPackets under way in one direction. 20,000 packets of 1500 bytes are
	// 30 MB, or 100 ms at 2.4 Gbit/s.
	MaxPackets = 20_000
)

// Profile says what a wire does to packets of one direction.
type Profile struct {
	// Delay is how long a packet travels, Jitter the most that is added to it,
	// evenly spread.
	Delay, Jitter time.Duration
	// Rate is bits per second; 0 is unlimited.
	Rate uint64
	// Loss is the share of packets lost, 0 to 1.
	Loss float64
}

// Luck is the chance behind one packet: two numbers in [0,1).
type Luck struct{ Loss, Jitter float64 }

// Packet is what a wire carries, with the time at which it is due.
type Packet struct {
	Due  time.Time
	Data []byte
}

// Queue decides when each packet of one direction arrives. The zero value is
// an ideal wire.
type Queue struct {
	profile Profile
	// free is when the line has sent everything accepted so far.
	free time.Time
	// last is the latest Due handed out; no later packet is due before it,
	// which is what keeps the order.
	last time.Time
	// fifo[head:] is under way; the front is cut off when it is half the slice.
	fifo []Packet
	head int
}

// Set changes the profile for packets still to come.
func (q *Queue) Set(p Profile) { q.profile = p }

// Profile returns the profile in force.
func (q *Queue) Profile() Profile { return q.profile }

// Len is the number of packets under way.
func (q *Queue) Len() int { return len(q.fifo) - q.head }

// Push accepts a packet at now, or reports false when it is lost or does not
// fit. The queue keeps data.
func (q *Queue) Push(now time.Time, data []byte, luck Luck) bool {
	p := q.profile
	if luck.Loss < p.Loss || q.Len() >= MaxPackets {
		return false
	}
	sent := now
	if p.Rate > 0 {
		if q.free.After(now) {
			sent = q.free
		}
		if sent.Sub(now) > Backlog {
			return false
		}
		sent = sent.Add(time.Duration(uint64(len(data)) * 8 * uint64(time.Second) / p.Rate))
		q.free = sent
	}
	due := sent.Add(p.Delay + time.Duration(luck.Jitter*float64(p.Jitter)))
	if due.Before(q.last) {
		due = q.last
	}
	q.last = due
	q.fifo = append(q.fifo, Packet{due, data})
	return true
}

// Next returns the packet due first without removing it.
func (q *Queue) Next() (Packet, bool) {
	if q.Len() == 0 {
		return Packet{}, false
	}
	return q.fifo[q.head], true
}

// Pop removes the packet that Next returned.
func (q *Queue) Pop() {
	q.fifo[q.head] = Packet{}
	q.head++
	if q.head*2 >= len(q.fifo) {
		n := copy(q.fifo, q.fifo[q.head:])
		clear(q.fifo[n:])
		q.fifo, q.head = q.fifo[:n], 0
	}
}
