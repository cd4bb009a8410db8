package topology

import (
	"slices"
	"time"
)

// Matrix holds the joined link of every pair of n nodes, numbered from 0.
type Matrix struct {
	n     int
	links []Link
}

// NewMatrix returns a matrix of n nodes with every pair Unknown.
func NewMatrix(n int) Matrix {
	return Matrix{n: n, links: make([]Link, n*n)}
}

// Len is the number of nodes.
func (m Matrix) Len() int { return m.n }

// Set stores the joined link of the pair i, j, in both orders.
func (m Matrix) Set(i, j int, l Link) {
	m.links[i*m.n+j] = l
	m.links[j*m.n+i] = l
}

// Pair returns the joined link of i and j; a node's link to itself is Up.
func (m Matrix) Pair(i, j int) Link {
	if i == j {
		return Link{State: Up, Since: 1<<63 - 1}
	}
	return m.links[i*m.n+j]
}

// Certain counts the nodes, i included, that i has certainly seen for at
// least held.
func (m Matrix) Certain(i int, held time.Duration) int {
	return m.count(i, func(l Link) bool { return l.State == Up && l.Since >= held })
}

// Possible counts the nodes, i included, that i may see: all but those
// certainly down for at least held.
func (m Matrix) Possible(i int, held time.Duration) int {
	return m.count(i, func(l Link) bool { return l.State != Down || l.Since < held })
}

func (m Matrix) count(i int, keep func(Link) bool) int {
	n := 0
	for j := range m.n {
		if keep(m.Pair(i, j)) {
			n++
		}
	}
	return n
}

// QuorumRTT is the round trip after which node i, as leader, has a majority:
// its RTT to the nearest nodes that complete one. It is 0 when too few round
// trips are known.
func (m Matrix) QuorumRTT(i int) time.Duration {
	rtts := make([]time.Duration, 0, m.n)
	for j := range m.n {
		if l := m.Pair(i, j); j != i && l.State == Up && l.RTT > 0 {
			rtts = append(rtts, l.RTT)
		}
	}
	need := m.n / 2 // acknowledgements besides its own
	if need == 0 || len(rtts) < need {
		return 0
	}
	slices.Sort(rtts)
	return rtts[need-1]
}
