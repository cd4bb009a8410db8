package sim

import "time"

// network is what the wires do. Directed fields are [from][to].
type network struct {
	// cut drops packets.
	cut [most][most]bool
	// blocked refuses new connections; established ones live on.
	blocked [most][most]bool
	// loss is the share of round trips that fail, the same both ways.
	loss [most][most]float64
	// streams stands for raft's established connections of a pair, dialled at
	// the time given.
	streams [most][most]bool
	dialled [most][most]time.Duration
}

// ruinous is the loss from which raft does not hold a leader over a link.
const ruinous = 0.4

// passes says that TCP packets go both ways between i and j.
func (w *World) passes(i, j int) bool {
	return i == j || !w.net.cut[i][j] && !w.net.cut[j][i]
}

// opens says that i can open a connection to j.
func (w *World) opens(i, j int) bool {
	return w.passes(i, j) && !w.net.blocked[i][j]
}

// route says that the network alone lets raft work between i and j: each end
// dials streams, so one direction of dialling is enough.
func (w *World) route(i, j int) bool {
	return w.passes(i, j) && w.net.loss[i][j] < ruinous &&
		(w.net.streams[i][j] || !w.net.blocked[i][j] || !w.net.blocked[j][i])
}

// works says that raft works between i and j now.
func (w *World) works(i, j int) bool {
	return w.runs(i) && w.runs(j) && (i == j || w.route(i, j))
}

// connect renews the established connections after any change.
func (w *World) connect() {
	for i := range w.n {
		for j := range i {
			both := w.members[i].up && w.members[j].up && w.passes(i, j)
			dials := !w.net.blocked[i][j] || !w.net.blocked[j][i]
			up := both && (w.net.streams[i][j] || dials)
			if up && !w.net.streams[i][j] {
				w.net.dialled[i][j], w.net.dialled[j][i] = w.now, w.now
			}
			w.net.streams[i][j], w.net.streams[j][i] = up, up
		}
	}
}

// probes says that a probe of agent i to member j would succeed, loss aside.
func (w *World) probes(i, j int) bool {
	return w.opens(i, j) && w.runs(j) && !w.agents[i].expired
}
