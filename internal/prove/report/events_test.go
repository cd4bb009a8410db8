package report

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestPlaceNeverOverlaps throws random events at the lane and checks what place
// promises: texts apart from each other, from the stems of those above, and
// inside the drawing.
func TestPlaceNeverOverlaps(t *testing.T) {
	const left, right, lanes = 200.0, 900.0, 6
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var list []tag
		for i := range rng.IntN(90) {
			list = append(list, tag{marker: markers[rng.IntN(len(markers))], id: i, text: fmt.Sprint(i),
				x: left + rng.Float64()*(right-left), w: 10 + rng.Float64()*300, lane: -1})
		}
		used, lost := place(list, lanes, left, right)
		shown := 0
		for i, a := range list {
			if a.lane < 0 {
				continue
			}
			shown++
			from, to := a.box()
			if a.lane >= used || used > lanes || from < left-3 || to > right+8 {
				t.Fatalf("seed %d: tag %d in lane %d of %d, box %.1f–%.1f", seed, i, a.lane, used, from, to)
			}
			if !free(list, i) {
				t.Fatalf("seed %d: tag %d at %.1f in lane %d touches another", seed, i, a.x, a.lane)
			}
		}
		if shown+lost != len(list) {
			t.Fatalf("seed %d: %d shown, %d lost of %d", seed, shown, lost, len(list))
		}
	}
}

func TestPlaceKeepsTheMove(t *testing.T) {
	var list []tag
	for i := range 40 {
		list = append(list, tag{marker: markerOf("no-leader"), id: i, x: 300 + float64(i), w: 120, lane: -1})
	}
	list = append(list, tag{marker: markerOf("move"), id: 40, x: 320, w: 200, lane: -1})
	if place(list, 3, 200, 900); list[40].lane < 0 {
		t.Error("the move lost its text to lesser events")
	}
}

func TestTagsMergeEchoes(t *testing.T) {
	run := demo().With
	var moves, changes int
	for _, tag := range tags(run.Events, func(ms float64) float64 { return ms / 10 }, 12, 300) {
		switch {
		case tag.kind == "move":
			moves++
		case tag.kind == "leader-changed" && tag.at > 0:
			changes++
		}
	}
	if moves != 1 || changes != 0 {
		t.Errorf("%d moves and %d changes drawn, want the move alone", moves, changes)
	}
}
