package delay

import (
	"math/rand/v2"
	"testing"
	"time"
)

var epoch = time.Unix(1_000_000, 0)

func TestQueue(t *testing.T) {
	const ms = time.Millisecond
	type push struct {
		at   time.Duration
		size int
		luck Luck
		due  time.Duration // -1: lost
	}
	for _, tt := range []struct {
		name    string
		profile Profile
		pushes  []push
	}{
		{"ideal", Profile{}, []push{{0, 100, Luck{}, 0}, {ms, 100, Luck{}, ms}}},
		{"delay", Profile{Delay: 10 * ms}, []push{{0, 100, Luck{}, 10 * ms}, {ms, 1500, Luck{}, 11 * ms}}},
		{"jitter never overtakes", Profile{Delay: 10 * ms, Jitter: 10 * ms},
			[]push{{0, 100, Luck{Jitter: 0.5}, 15 * ms}, {ms, 100, Luck{Jitter: 0}, 15 * ms}, {2 * ms, 100, Luck{Jitter: 0.9}, 21 * ms}}},
		{"loss", Profile{Loss: 0.2}, []push{{0, 100, Luck{Loss: 0.19}, -1}, {0, 100, Luck{Loss: 0.2}, 0}}},
		{"rate is a serial line", Profile{Rate: 8000}, []push{{0, 10, Luck{}, 10 * ms}, {0, 10, Luck{}, 20 * ms}, {50 * ms, 10, Luck{}, 60 * ms}}},
		{"rate comes before delay", Profile{Rate: 8000, Delay: 5 * ms}, []push{{0, 10, Luck{}, 15 * ms}, {0, 10, Luck{}, 25 * ms}}},
		{"a full line drops", Profile{Rate: 8000}, []push{{0, 51, Luck{}, 51 * ms}, {0, 1, Luck{}, -1}, {ms, 1, Luck{}, 52 * ms}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q Queue
			q.Set(tt.profile)
			for i, p := range tt.pushes {
				ok := q.Push(epoch.Add(p.at), make([]byte, p.size), p.luck)
				if ok != (p.due >= 0) {
					t.Fatalf("push %d: accepted %v", i, ok)
				}
				if !ok {
					continue
				}
				if got := q.fifo[len(q.fifo)-1].Due.Sub(epoch); got != p.due {
					t.Errorf("push %d: due at %v, want %v", i, got, p.due)
				}
			}
		})
	}
}

func TestQueueIsBounded(t *testing.T) {
	var q Queue
	q.Set(Profile{Delay: time.Hour})
	for range MaxPackets {
		if !q.Push(epoch, nil, Luck{}) {
			t.Fatal("refused a packet below the bound")
		}
	}
	if q.Push(epoch, nil, Luck{}) {
		t.Error("accepted a packet above the bound")
	}
	q.Pop()
	if !q.Push(epoch, nil, Luck{}) {
		t.Error("refused a packet after one had left")
	}
}

// TestQueueKeepsOrder pushes and pops at random under changing profiles, and
// compares with a plain slice.
func TestQueueKeepsOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q Queue
	var twin []byte
	now, last := epoch, epoch
	for i := range 50_000 {
		now = now.Add(time.Duration(r.IntN(1000)) * time.Microsecond)
		switch r.IntN(10) {
		case 0:
			q.Set(Profile{Delay: time.Duration(r.IntN(30)) * time.Millisecond, Jitter: time.Duration(r.IntN(5)) * time.Millisecond, Rate: uint64(r.IntN(2)) * 1e6, Loss: 0.1})
		case 1, 2, 3, 4, 5:
			if q.Push(now, []byte{byte(i)}, Luck{r.Float64(), r.Float64()}) {
				twin = append(twin, byte(i))
			}
		default:
			p, ok := q.Next()
			if ok != (len(twin) > 0) || q.Len() != len(twin) {
				t.Fatalf("step %d: %d under way, want %d", i, q.Len(), len(twin))
			}
			if !ok {
				continue
			}
			if p.Data[0] != twin[0] || p.Due.Before(last) {
				t.Fatalf("step %d: packet %d due %v after %v, want packet %d", i, p.Data[0], p.Due, last, twin[0])
			}
			last, twin = p.Due, twin[1:]
			q.Pop()
		}
	}
}

func BenchmarkQueue(b *testing.B) {
	var q Queue
	q.Set(Profile{Delay: 10 * time.Millisecond, Rate: 100_000_000})
	data := make([]byte, 1500)
	now := epoch
	for b.Loop() {
		now = now.Add(120 * time.Microsecond)
		q.Push(now, data, Luck{Loss: 0.5})
		if p, _ := q.Next(); p.Due.Before(now) {
			q.Pop()
		}
	}
}
