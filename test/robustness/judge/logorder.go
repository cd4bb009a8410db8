package main

import (
	"github.com/anishathalye/porcupine"

	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// place is what the logs say of one request: the revision after it, and whether
// the request made it.
type place struct {
	revision int64
	made     bool
}

// logOrder finds requests in the logs.
type logOrder struct {
	puts    map[stored]place   // by key and value, which no two requests share
	revokes map[int64]place    // the first revocation of each lease
	deletes map[string][]place // by key: those alone in a request that made a revision
}

func newLogOrder(persisted []model.EtcdRequest) logOrder {
	o := logOrder{puts: map[stored]place{}, revokes: map[int64]place{}, deletes: map[string][]place{}}
	ops := make([]porcupine.Operation, len(persisted))
	for i, request := range persisted {
		ops[i].Input = request
	}
	state := model.DeterministicModel(model.ModelKeys(ops)).Init().(model.EtcdState)
	for _, request := range persisted {
		next, _ := state.Step(request)
		at := place{next.Revision, next.Revision > state.Revision}
		for _, p := range puts(request) {
			o.puts[p] = at
		}
		if at.made && request.Type == model.Txn && len(request.Txn.AllOperations()) == 1 {
			if op := request.Txn.AllOperations()[0]; op.Type == model.DeleteOperation {
				o.deletes[op.Delete.Key] = append(o.deletes[op.Delete.Key], at)
			}
		}
		if request.Type == model.LeaseRevoke {
			if _, again := o.revokes[request.LeaseRevoke.LeaseID]; !again {
				o.revokes[request.LeaseRevoke.LeaseID] = at
			}
		}
		state = next
	}
	return o
}

// answered is the place of a request that got this response.
func (o logOrder) answered(request model.EtcdRequest, response model.MaybeEtcdResponse) place {
	at := place{revision: response.Revision}
	switch request.Type {
	case model.LeaseRevoke:
		at.made = o.revokes[request.LeaseRevoke.LeaseID] == place{response.Revision, true}
	case model.Txn:
		for i, op := range applied(request, response) {
			at.made = at.made || op.Type == model.PutOperation ||
				op.Type == model.DeleteOperation && response.Txn.Results[i].Deleted > 0
		}
	}
	return at
}

// puts are the keys and values that a request may write.
func puts(request model.EtcdRequest) (all []stored) {
	if request.Type != model.Txn {
		return nil
	}
	for _, op := range request.Txn.AllOperations() {
		if op.Type == model.PutOperation {
			all = append(all, stored{key: op.Put.Key, value: op.Put.Value.Value})
		}
	}
	return all
}

// unrecorded are the writes in the logs that no client recorded, such as an agent's.
// The model has to know them, since each counts as a revision. They are added as requests whose
// answers never came.
func unrecorded(reports []report.ClientReport, persisted []model.EtcdRequest) (all []report.ClientReport) {
	known, id := map[stored]bool{}, newest(reports)
	for _, r := range reports {
		for _, op := range r.KeyValue {
			for _, p := range puts(op.Input.(model.EtcdRequest)) {
				known[p] = true
			}
		}
	}
	for _, request := range persisted {
		of := puts(request)
		if len(of) == 0 || known[of[0]] {
			continue
		}
		id++
		all = append(all, report.ClientReport{ClientID: id, KeyValue: []porcupine.Operation{{
			ClientId: id, Input: request, Call: 1, Return: 2,
			Output: model.MaybeEtcdResponse{Error: "not recorded"},
		}}})
	}
	return all
}

// newest is the highest client id in use.
func newest(reports []report.ClientReport) (id int) {
	for _, r := range reports {
		id = max(id, r.ClientID)
		for _, op := range r.KeyValue {
			id = max(id, op.ClientId)
		}
	}
	return id
}
