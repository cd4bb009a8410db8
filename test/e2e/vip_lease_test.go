package e2e

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"
)

// leased has three of ours hold an address by a record in etcd, and returns who
// does once it has heard that the others could.
func leased(t *testing.T) (w *wire, etcd *store, holder int) {
	t.Helper()
	w = newWire(t, 3)
	etcd = w.etcd()
	for i := 1; i <= 3; i++ {
		w.startByLease(i)
	}
	holder = w.awaitOne()
	w.awaitContact(holder, 1, 2, 3)
	return w, etcd, holder
}

// awaitContact waits until machines reach etcd, and know the holder.
func (w *wire) awaitContact(holder int, machines ...int) {
	w.t.Helper()
	w.await("all reach etcd and know the holder", 15*time.Second, func() bool {
		for _, i := range machines {
			s, err := w.status(i)
			if err != nil || s.Holder != fmt.Sprintf("node-%d", holder) || !s.Contact {
				return false
			}
		}
		return true
	})
}

// TestVIPLeaseStalls is the fault behind most moves of an address: an etcd that
// stands still for 5 to 10 s, and then again. Nobody moves, and a connection that a
// client has open stays open.
func TestVIPLeaseStalls(t *testing.T) {
	nightly(t)
	w, etcd, holder := leased(t)
	stream := w.stream()
	begun := time.Now()
	for range 5 {
		etcd.freeze(true)
		<-time.After(5*time.Second + rand.N(5*time.Second))
		etcd.freeze(false)
		<-time.After(time.Second + rand.N(3*time.Second))
	}
	w.awaitContact(holder, 1, 2, 3)
	got := w.client.Since(begun)
	w.expect("while etcd stood still again and again", got, slack/4, 0)
	if len(got.By) != 1 || got.By[0] != holder {
		t.Errorf("answered by %v, held by %d at first", got.By, holder)
	}
	stream.stays("etcd stood still again and again")
}

// TestVIPLeaseStoreDown has etcd die for everybody: the holder keeps the address.
func TestVIPLeaseStoreDown(t *testing.T) {
	nightly(t)
	w, etcd, holder := leased(t)
	stream := w.stream()
	begun := time.Now()
	etcd.kill()
	<-time.After(10 * time.Second)
	got := w.client.Since(begun)
	w.expect("while there was no etcd", got, slack/4, 0)
	if len(got.By) != 1 || got.By[0] != holder {
		t.Errorf("answered by %v, held by %d at first", got.By, holder)
	}
	begun = time.Now()
	etcd.start()
	w.awaitContact(holder, 1, 2, 3)
	w.expect("etcd is back", w.client.Since(begun), slack/4, 0)
	stream.stays("etcd was away")
}

// TestVIPLeaseCutOff takes etcd away from the holder alone, three times: it lets go
// before another takes over, and at no time do two answer. The one that returns
// takes nothing back.
func TestVIPLeaseCutOff(t *testing.T) {
	nightly(t)
	w, _, holder := leased(t)
	for range 3 {
		<-time.After(rand.N(time.Second)) // at any time between two renewals
		begun := time.Now()
		w.bar(holder, true)
		next := w.awaitAnother(holder)
		w.awaitHolder(next)
		w.expect("etcd is away from the holder alone", w.client.Since(begun), 3*time.Second+slack, 0)
		begun = time.Now()
		w.bar(holder, false)
		w.awaitContact(next, 1, 2, 3)
		w.awaitHolder(next)
		w.expect("it is back", w.client.Since(begun), slack/4, 0)
		holder = next
	}
}

// bar takes etcd away from one machine, or gives it back.
func (w *wire) bar(i int, on bool) {
	w.t.Helper()
	rules := "add table inet bar; delete table inet bar;"
	if on {
		rules += "table inet bar { chain out { type filter hook output priority 0; tcp dport 2379 drop; }; }"
	}
	err := w.segment.Station(i).Do(func() error {
		out, err := exec.Command("nft", rules).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
