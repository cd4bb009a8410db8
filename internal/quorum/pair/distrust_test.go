package pair

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/loop"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// TestDataThatEtcdDistrustsDoesNotWin: the other's, which may be right, would be moved aside.
func TestDataThatEtcdDistrustsDoesNotWin(t *testing.T) {
	for _, c := range []struct {
		alarms  []string
		wanted  bool
		refused bool
	}{{nil, false, false}, {[]string{"NOSPACE"}, false, false}, {[]string{"NOSPACE", "CORRUPT"}, false, true}, {[]string{"CORRUPT"}, true, false}} {
		err := distrusted(c.alarms, c.wanted)
		if (err != nil) != c.refused {
			t.Errorf("%v, wanted %v: %v", c.alarms, c.wanted, err)
		}
		if err != nil && !strings.Contains(err.Error(), "holdfast pair claim") {
			t.Errorf("%v has no remedy", err)
		}
	}
}

// overtaken is a store that another changed first, and whose record cannot be kept.
type overtaken struct {
	arbiter.Store
	data []byte
	asks int
}

func (o *overtaken) Name() string { return "overtaken" }

func (o *overtaken) Read(context.Context) ([]byte, arbiter.Version, error) {
	return o.data, "2", nil
}

func (o *overtaken) Swap(context.Context, arbiter.Version, []byte) (arbiter.Version, error) {
	o.asks++
	return "", arbiter.ErrLost
}

// TestChangeThatTaughtNothingIsNotTriedAtOnce: with a state directory on a full disk an
// agent took the record, could not keep what it had taken, and asked 400 times a second.
func TestChangeThatTaughtNothingIsNotTriedAtOnce(t *testing.T) {
	next := arbiter.Record{Version: arbiter.RecordVersion, Cluster: 1, Generation: 2, State: arbiter.Solo, Survivor: "a", Nonce: arbiter.NewNonce(), By: "a",
		Members: [2]arbiter.Member{{Name: "a", ID: wal.ID(1)}, {Name: "b", ID: wal.ID(2)}}, Time: time.Unix(1, 0).UTC(), Since: time.Unix(1, 0).UTC()}
	data, err := next.Encode()
	if err != nil {
		t.Fatal(err)
	}
	store := &overtaken{data: data}
	client := arbiter.NewClient(store, "a", arbiter.Record{}, func(arbiter.Record) error { return errors.New("no space left on device") })
	now := time.Minute
	clock := func() time.Duration { return now }
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	a := &Agent{clock: clock, arbiter: client, log: log, obs: &observer{clock: clock, arbiter: client, nudge: func() {}}}
	a.loops.decide = &loop.Loop{}
	was := arbiter.Held{Record: arbiter.Record{Generation: 1, Nonce: "x"}}
	a.obs.held = was
	_ = a.write(t.Context(), Plan{Do: Claim, Next: next}, was) // lost, or not known: both
	if a.obs.held != was || store.asks != 1 {
		t.Fatalf("holds generation %d after %d changes", a.obs.held.Generation, store.asks)
	}
	if a.pause != now+hurryEvery {
		t.Errorf("the next decision may come at %s, want %s", a.pause, now+hurryEvery)
	}
}
