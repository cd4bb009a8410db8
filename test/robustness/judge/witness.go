package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// witness proposes the one order of all requests that the logs and the revisions in the answers suggest, as the
// same history with each request shrunk to a moment of its own, within the time
// between its call and its answer. It returns false if they do not fit into one.
//
// If the model takes it the history is legal: an order has been shown. If
// not, nothing is shown. With two dozen clients a search from nothing may take hours, and gigabytes.
//
// A request without an answer is left out if the logs do not have it, which
// etcd's validation does too, or if it can have changed nothing.
func witness(reports []report.ClientReport, persisted []model.EtcdRequest) ([]report.ClientReport, bool) {
	w := &proposal{logs: newLogOrder(persisted), revoked: map[int64]bool{}, revokes: map[int64]porcupine.Operation{}, next: newest(reports)}
	for _, r := range reports {
		for _, op := range r.KeyValue {
			w.add(op)
		}
	}
	w.settleRevokes()
	w.settleDeletes()
	fits := w.shrink()
	shrunk := make([]report.ClientReport, len(reports), len(reports)+w.next)
	at := map[int]int{}
	for i, r := range reports {
		shrunk[i] = report.ClientReport{ClientID: r.ClientID, Watch: r.Watch}
		at[r.ClientID] = i
	}
	for _, m := range w.moments {
		i, ok := at[m.op.ClientId]
		if !ok {
			i = len(shrunk)
			shrunk = append(shrunk, report.ClientReport{ClientID: m.op.ClientId})
			at[m.op.ClientId] = i
		}
		shrunk[i].KeyValue = append(shrunk[i].KeyValue, m.op)
	}
	return shrunk, fits
}

// moment is a request and where it belongs.
type moment struct {
	op porcupine.Operation
	place
}

type proposal struct {
	logs    logOrder
	moments []moment
	revoked map[int64]bool                // leases whose revocation was answered
	revokes map[int64]porcupine.Operation // the first revocation without an answer
	deletes []porcupine.Operation         // without an answer
	next    int                           // highest client id in use
}

func (w *proposal) add(op porcupine.Operation) {
	request, response := op.Input.(model.EtcdRequest), op.Output.(model.MaybeEtcdResponse)
	if response.Error == "" {
		if request.Type == model.LeaseRevoke {
			w.revoked[request.LeaseRevoke.LeaseID] = true
		}
		w.moments = append(w.moments, moment{op: op, place: w.logs.answered(request, response)})
		return
	}
	switch request.Type {
	case model.LeaseRevoke:
		lease := request.LeaseRevoke.LeaseID
		if was, ok := w.revokes[lease]; !ok || op.Call < was.Call {
			w.revokes[lease] = op
		}
	case model.Txn:
		w.addUnanswered(op, puts(request))
	}
	// The lease of a grant without an answer is known to nobody, and reads change nothing.
}

func (w *proposal) addUnanswered(op porcupine.Operation, puts []stored) {
	if len(puts) == 0 { // which of several of one key it was, its key does not tell
		w.deletes = append(w.deletes, op)
		return
	}
	if at, ok := w.logs.puts[puts[0]]; ok {
		w.persisted(op, at)
	}
}

// persisted adds a request that took effect at a place in the logs.
func (w *proposal) persisted(op porcupine.Operation, at place) {
	w.next++ // a client of its own: its moment may come after the next call of its client
	op.ClientId = w.next
	op.Output, op.Return = model.MaybeEtcdResponse{Persisted: true, PersistedRevision: at.revision}, math.MaxInt64
	w.moments = append(w.moments, moment{op: op, place: at})
}

// settleRevokes adds, of each lease that no answered revocation ended, the first without an answer,
// if the logs have one.
func (w *proposal) settleRevokes() {
	for lease, op := range w.revokes {
		if at, ok := w.logs.revokes[lease]; ok && !w.revoked[lease] {
			w.persisted(op, at)
		}
	}
}

// settleDeletes adds, for each delete in the logs that removed something and is no answered one's, the
// first without an answer. What is left over changed nothing.
func (w *proposal) settleDeletes() {
	taken := map[int64]bool{}
	for _, m := range w.moments {
		taken[m.revision] = taken[m.revision] || m.made
	}
	slices.SortFunc(w.deletes, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range w.deletes {
		request := op.Input.(model.EtcdRequest)
		for _, at := range w.logs.deletes[request.Txn.AllOperations()[0].Delete.Key] {
			if !taken[at.revision] {
				taken[at.revision] = true
				w.persisted(op, at)
				break
			}
		}
	}
}

// shrink sorts the requests into one order and gives each its moment. It says
// whether all moments come before the answers.
func (w *proposal) shrink() bool {
	sortMoments(w.moments)
	now, fits := int64(0), true
	for i := range w.moments {
		op := &w.moments[i].op
		now = max(now+1, op.Call)
		fits = fits && now <= op.Return
		op.Call, op.Return = 2*now, 2*now+1
	}
	return fits
}

// sortMoments sorts by revision; what made one comes before what saw it.
func sortMoments(all []moment) {
	slices.SortStableFunc(all, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), made(a)-made(b), cmp.Compare(a.op.Call, b.op.Call))
	})
}

// made sorts what made a revision before all that saw it.
func made(m moment) int {
	if m.place.made {
		return 0
	}
	return 1
}
