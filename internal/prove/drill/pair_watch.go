package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// pairStatus is what of an agent's /status the observer reads.
type pairStatus struct {
	Record *pairRecord `json:"record"`
}

// pairRecord is the arbiter's record.
type pairRecord struct {
	State      string `json:"state"`
	Survivor   string `json:"survivor"`
	Generation uint64 `json:"generation"`
}

const statePaired = "paired"

// records is what the observer knows of the record. It is pure: sights in, events out.
type records struct{ newest pairRecord }

// see takes the record as one agent knows it. Agents learn of a change at different
// times, so the highest generation counts.
func (r *records) see(now pairRecord) (record.Event, bool) {
	if now.Generation <= r.newest.Generation {
		return record.Event{}, false
	}
	r.newest = now
	words := "the record says paired"
	if now.State != statePaired {
		words = "the record says that " + now.Survivor + " serves alone"
	}
	return record.Event{
		Source: "observer", Kind: record.KindPairRecord, Message: fmt.Sprintf("%s, generation %d", words, now.Generation),
		Keys: map[string]string{"state": now.State, "survivor": siteOf(now.Survivor), "generation": strconv.FormatUint(now.Generation, 10)},
	}, true
}

// watchPair asks both agents for the record until ctx ends.
func (e *engine) watchPair(ctx context.Context) error {
	if !e.pairRun() {
		return nil
	}
	for _, site := range e.c.PairSites() {
		node, err := e.nodeOf(site)
		if err != nil {
			return err
		}
		e.watchers.done.Go(func() { e.followRecord(ctx, node) })
	}
	return nil
}

func (e *engine) followRecord(ctx context.Context, node *lab.Node) {
	client := &http.Client{Transport: &http.Transport{DialContext: node.DialContext, DisableKeepAlives: true}, Timeout: time.Second}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, text := ask(ctx, client, "http://"+pairTelemetry+"/status")
		var s pairStatus
		if json.Unmarshal([]byte(text), &s) != nil || s.Record == nil {
			continue
		}
		e.watchers.mu.Lock()
		ev, news := e.watchers.records.see(*s.Record)
		e.watchers.mu.Unlock()
		if news {
			ev.At = e.clock.now()
			e.w.Event(ev)
		}
	}
}

// isPaired says that the newest record says so.
func (e *engine) isPaired() bool {
	if !e.pairRun() {
		return true
	}
	e.watchers.mu.Lock()
	defer e.watchers.mu.Unlock()
	return e.watchers.records.newest.State == statePaired
}

// awaitPaired waits for the first record.
func (e *engine) awaitPaired(ctx context.Context) error {
	if until(ctx, readyWithin, e.isPaired) {
		return nil
	}
	return fmt.Errorf("the record does not say paired within %s; see logs/pair-*.log", readyWithin)
}

// keysWithin bounds reading what a member has.
const keysWithin = 10 * time.Second

// keepKeys notes what each member of a pair has in the end.
func (e *engine) keepKeys(ctx context.Context) {
	if !e.c.HasPair() || e.members == nil || e.run.Injected.IsZero() {
		return
	}
	keys := record.Keys{}
	for _, site := range e.c.PairSites() {
		m, err := e.pairMember(site)
		if err != nil {
			continue // findMembers has found it
		}
		if keys[site], err = keysOf(ctx, m); err != nil {
			keys[site] = record.MemberKeys{Error: err.Error()}
		}
	}
	if err := e.w.Keys(keys); err != nil {
		e.trouble("%v", err)
	}
}

// keysOf reads all that probers wrote from one member, after it has caught up.
func keysOf(ctx context.Context, m *lab.Member) (record.MemberKeys, error) {
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	out := record.MemberKeys{Keys: map[string]int64{}}
	cli, err := m.Client()
	if err != nil {
		return out, err
	}
	r, err := cli.Get(ctx, probe.DefaultPrefix+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return out, fmt.Errorf("read the keys of %s: %w", m.Node().Name(), err)
	}
	out.Revision = r.Header.GetRevision()
	for _, kv := range r.Kvs {
		out.Keys[string(kv.Key)] = kv.ModRevision
	}
	return out, nil
}
