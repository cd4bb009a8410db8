package health

// The score of siderolabs/go-loadbalancer v0.5.0: a new server has +1, each
// success adds and each failure takes one within ±3, and it is usable from 0.
const (
	scoreStart = 1
	scoreMost  = 3
)

func (t *tally) weighScore(was, g Grade) Grade {
	if g.Usable() {
		t.score = min(t.score+1, scoreMost)
	} else {
		t.score = max(t.score-1, -scoreMost)
	}
	switch usable := t.score >= 0; {
	case usable && g.Usable(), !usable && !g.Usable():
		return g
	default:
		return was
	}
}
