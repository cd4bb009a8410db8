package arbiter

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// restsTimeout bounds the whole look; at rest it takes two writes and two reads.
const restsTimeout = 10 * time.Second

// clustered is a store that knows its own cluster, as etcd does.
type clustered interface {
	Cluster(ctx context.Context) (uint64, error)
}

// keyed is a store that knows how the last part of its object's name is written.
type keyed interface{ Key() string }

// Rests reports whether a store keeps its objects in the pair's own etcd, where the
// record could not be read just when it matters: ErrUnfit says so. It compares cluster
// ids where the store has one, and else writes the scratch object while it watches the
// pair's whole keyspace for what was written, or for a key of its name (values may be
// encrypted). pair is a client of one member, with the right to read everything. Any
// other error: it could not be found out.
func Rests(ctx context.Context, s Store, pair *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, restsTimeout)
	defer cancel()
	now, err := pair.Get(ctx, "holdfast", clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("read the pair's etcd: %w", err)
	}
	if c, ok := s.(clustered); ok {
		cluster, err := c.Cluster(ctx)
		if err != nil {
			return err
		}
		if cluster == now.Header.ClusterId {
			return fmt.Errorf("%w: %s is the pair's own etcd (cluster %x); name one that is elsewhere", ErrUnfit, s.Name(), cluster)
		}
		return nil
	}
	beside, err := s.Beside(scratch)
	if err != nil {
		return err
	}
	defer func() { _ = beside.Close() }() // it shares the connections of s
	w := &witness{pair: pair, from: now.Header.Revision + 1, nonce: NewNonce()}
	if k, ok := beside.(keyed); ok {
		w.key = k.Key()
	}
	if err := mark(ctx, beside, w.nonce); err != nil {
		return fmt.Errorf("write beside %s: %w", s.Name(), err)
	}
	key, err := w.look(ctx)
	if err != nil {
		return fmt.Errorf("watch the pair's etcd: %w", err)
	}
	if key != "" {
		return fmt.Errorf("%w: %s is kept in the pair's own etcd, as key %q; name one that is elsewhere", ErrUnfit, s.Name(), key)
	}
	return nil
}

// mark writes the nonce into the scratch object, and tries again where another came first.
func mark(ctx context.Context, s Store, nonce string) error {
	data, err := json.Marshal(entry{Test: nonce, Nonce: nonce})
	if err != nil {
		return err
	}
	for {
		_, version, err := s.Read(ctx)
		if err != nil {
			return err
		}
		// Where the answer is missing it may still come: the one that is seen is ours.
		if _, err = s.Swap(ctx, version, data); !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnknown) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// witness looks through what the pair's etcd was told since revision from.
type witness struct {
	pair       *clientv3.Client
	from       int64
	nonce, key string
}

// look returns the key that gives the store away, "" for none.
func (w *witness) look(ctx context.Context) (string, error) {
	// Read after the store has answered: if it rests here, its write is below this.
	now, err := w.pair.Get(ctx, "holdfast", clientv3.WithCountOnly())
	if err != nil {
		return "", err
	}
	upTo := now.Header.Revision
	if upTo < w.from {
		return "", nil // nothing was written here at all
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	watch := w.pair.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(w.from), clientv3.WithFragment(), clientv3.WithProgressNotify())
	for answer := range watch {
		if err := answer.Err(); err != nil {
			return "", err
		}
		for _, e := range answer.Events {
			if w.ours(e.Kv.Key, e.Kv.Value) {
				return string(e.Kv.Key), nil
			}
			// A revision may have several events: go on until one above it.
			if e.Kv.ModRevision > upTo {
				return "", nil
			}
		}
		if answer.IsProgressNotify() && answer.Header.Revision >= upTo {
			return "", nil
		}
		if err := w.pair.RequestProgress(ctx); err != nil {
			return "", err
		}
	}
	return "", cmp.Or(ctx.Err(), errors.New("the watch ended"))
}

func (w *witness) ours(key, value []byte) bool {
	if bytes.Contains(value, []byte(w.nonce)) {
		return true
	}
	return w.key != "" && (string(key) == w.key || strings.HasSuffix(string(key), "/"+w.key))
}
