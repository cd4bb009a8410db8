package arbiter

import (
	"context"
	"errors"
	"testing"
)

// pausing is a store whose next read is answered after another change was made.
type pausing struct {
	data    []byte
	version Version
	before  func() // runs between a read and its answer, once
}

func (p *pausing) Name() string { return "test" }
func (p *pausing) Close() error { return nil }

func (p *pausing) Beside(string) (Store, error) { return nil, errors.ErrUnsupported }

func (p *pausing) Read(context.Context) ([]byte, Version, error) {
	data, version := p.data, p.version
	if f := p.before; f != nil {
		p.before = nil
		f()
	}
	return data, version, nil
}

func (p *pausing) Swap(_ context.Context, was Version, data []byte) (Version, error) {
	if was != p.version {
		return "", ErrLost
	}
	p.data, p.version = data, p.version+"x"
	return p.version, nil
}

// TestAReadOvertakenByAChangeHasNotGoneBack: the answer to a read may be older than
// a change that the same client made meanwhile. That is no arbiter that has gone
// back, for which a member that serves alone would be stopped.
func TestAReadOvertakenByAChangeHasNotGoneBack(t *testing.T) {
	ctx := context.Background()
	next := Record{Cluster: 1, State: Paired, Members: [2]Member{{Name: "a", ID: 1}, {Name: "b", ID: 2}}}
	for _, test := range []struct {
		name    string
		present bool
	}{{"absent", false}, {"present", true}} {
		t.Run(test.name, func(t *testing.T) {
			store := &pausing{}
			c := NewClient(store, "a", Record{}, func(Record) error { return nil })
			var was Held
			if test.present {
				var err error
				if was, err = c.Change(ctx, Held{}, next); err != nil {
					t.Fatal(err)
				}
			}
			store.before = func() {
				if _, err := c.Change(ctx, was, next); err != nil {
					t.Error(err)
				}
			}
			got, err := c.Read(ctx)
			if err != nil || got.Generation != was.Generation+1 {
				t.Errorf("read generation %d, error %v; want %d", got.Generation, err, was.Generation+1)
			}
			store.data, store.version = nil, ""
			if _, err := c.Read(ctx); !errors.Is(err, ErrRestored) {
				t.Errorf("the record is gone, and a read says %v", err)
			}
		})
	}
}
