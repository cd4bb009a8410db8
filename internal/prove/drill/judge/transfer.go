package judge

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
)

const (
	// lateMove is how long after a failed attempt a change of leader is still
	// its work: the target was told to campaign, and the answer got lost. It is
	// etcd's own limit for a request at default timers (5 s and twice the
	// election timeout; config.go ReqTimeout).
	lateMove = 7 * time.Second
	// seenWithin is how far the observer's sight of a change may lie from the
	// agent's line about it; it asks every 100 ms.
	seenWithin = time.Second
)

// move is one leadership transfer by an agent: from the call to its return, or
// to the change that a call said to have failed brought about.
type move struct {
	cluster  string
	from, to time.Time
}

// transfers lists the moves in the order of their ends. A change of leader
// belongs to one move at most, and to one that succeeded first.
func (j *run) transfers() []move {
	var moves []move
	j.moved = map[int]bool{}
	for _, e := range j.rec.Events {
		if e.Kind != record.KindMove {
			continue
		}
		from := e.At.Add(-took(e))
		moves = append(moves, move{e.Cluster, from, e.At})
		i := j.change(e, from.Add(-seenWithin), e.At.Add(seenWithin))
		j.moved[i] = true
	}
	for i, e := range j.rec.Events {
		if e.Kind != record.KindMoveFailed || e.Keys["attempted"] != "true" {
			continue
		}
		began := j.began(i)
		if c := j.change(e, began, e.At.Add(lateMove)); c >= 0 {
			j.moved[c] = true
			moves = append(moves, move{e.Cluster, began, j.rec.Events[c].At})
		}
	}
	slices.SortStableFunc(moves, func(a, b move) int { return a.to.Compare(b.to) })
	return moves
}

// change finds the first unclaimed change of the leader of e's cluster in
// [from, to]; -1 when there is none.
func (j *run) change(e record.Event, from, to time.Time) int {
	for i, c := range j.rec.Events {
		if c.Kind == record.KindLeader && c.Cluster == e.Cluster && !j.moved[i] && !c.At.Before(from) && !c.At.After(to) {
			return i
		}
	}
	return -1
}

// began is when the attempt that failed with event i began: its agent's line
// before, or that moment itself where there is none.
func (j *run) began(i int) time.Time {
	failed := j.rec.Events[i]
	for _, e := range slices.Backward(j.rec.Events[:i]) {
		if e.Source != failed.Source || e.Cluster != failed.Cluster {
			continue
		}
		if e.Kind == record.KindMoving {
			return e.At
		}
		break
	}
	return failed.At
}

func took(e record.Event) time.Duration {
	ms, err := strconv.ParseFloat(e.Keys["took_ms"], 64)
	if err != nil || ms < 0 || ms > 60_000 {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}
