package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"google.golang.org/protobuf/encoding/protowire"

	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// told is a history of one client: a read of the empty database, then puts of
// 1, 2, 3 … to the key k, each acknowledged, and a read of what was written last.
func told(puts int) history {
	var h history
	var ops []porcupine.Operation
	add := func(request model.EtcdRequest, response model.EtcdResponse) {
		at := int64(len(ops))*10 + 1
		ops = append(ops, porcupine.Operation{
			ClientId: 1, Input: request, Call: at, Return: at + 5, Output: model.MaybeEtcdResponse{EtcdResponse: response},
		})
	}
	read := model.EtcdRequest{Type: model.Range, Range: &model.RangeRequest{RangeOptions: model.RangeOptions{Start: "k"}}}
	add(read, model.EtcdResponse{Revision: 1, Range: &model.RangeResponse{KVs: []model.KeyValue{}}})
	for i := range puts {
		request := put(i)
		h.persisted = append(h.persisted, request)
		add(request, model.EtcdResponse{Revision: int64(i) + 2, Txn: &model.TxnResponse{Results: []model.EtcdOperationResult{{}}}})
	}
	last := model.ValueRevision{Value: model.ToValueOrHash(fmt.Sprint(puts - 1)), ModRevision: int64(puts) + 1, Version: int64(puts)}
	add(read, model.EtcdResponse{Revision: int64(puts) + 1, Range: &model.RangeResponse{
		KVs: []model.KeyValue{{Key: "k", ValueRevision: last}}, Count: 1,
	}})
	h.reports = []report.ClientReport{{ClientID: 1, KeyValue: ops}}
	return h
}

func put(i int) model.EtcdRequest {
	return model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{OperationsOnSuccess: []model.EtcdOperation{
		{Type: model.PutOperation, Put: model.PutOptions{Key: "k", Value: model.ToValueOrHash(fmt.Sprint(i))}},
	}}}
}

func (h history) operation(i int) *porcupine.Operation { return &h.reports[0].KeyValue[i] }

// Each history is wrong in one way only, and the judge has to say in which.
func TestVerdicts(t *testing.T) {
	revised := func(op *porcupine.Operation, change func(*model.MaybeEtcdResponse)) {
		response := op.Output.(model.MaybeEtcdResponse)
		change(&response)
		op.Output = response
	}
	for _, c := range []struct {
		name, want string
		writes     int
		damage     func(*history)
	}{
		{"nothing", "", 0, func(*history) {}},
		{"too few writes", "counts", 21, func(*history) {}},
		{"nothing but writes", "counts", 20, func(*history) {}},
		{"the last acknowledged write is not in the logs", "acknowledged", 0, func(h *history) { h.persisted = h.persisted[:19] }},
		{"one in the middle is not", "acknowledged", 0, func(h *history) {
			h.persisted = append(append([]model.EtcdRequest{}, h.persisted[:7]...), h.persisted[8:]...)
		}},
		{"two changed places", "acknowledged", 0, func(h *history) {
			h.persisted[3], h.persisted[4] = h.persisted[4], h.persisted[3]
		}},
		{"a read of the past", "linearization", 0, func(h *history) {
			revised(h.operation(21), func(r *model.MaybeEtcdResponse) {
				r.Revision, r.Range.KVs[0].ModRevision = 20, 20
				r.Range.KVs[0].Version, r.Range.KVs[0].Value = 19, model.ToValueOrHash("18")
			})
		}},
		{"an unanswered write that the logs have may be seen", "", 0, func(h *history) {
			revised(h.operation(20), func(r *model.MaybeEtcdResponse) { *r = model.MaybeEtcdResponse{Error: "timeout"} })
		}},
		{"an unanswered write that was seen, but is not in the logs", "linearization", 0, func(h *history) {
			revised(h.operation(20), func(r *model.MaybeEtcdResponse) { *r = model.MaybeEtcdResponse{Error: "timeout"} })
			h.persisted = h.persisted[:19]
		}},
		{"a write that nobody recorded", "linearization", 0, func(h *history) { h.persisted = append(h.persisted, put(99)); h.next(1) }},
		{"the same, but known to be somebody's", "", 0, func(h *history) {
			h.persisted = append(h.persisted, put(99))
			h.next(1)
			h.reports = append(h.reports, unrecorded(h.reports, h.persisted)...)
		}},
		{"an unanswered delete that the logs have", "", 0, func(h *history) { h.deleted(900) }},
		{"one that was called only after its effect was seen", "linearization", 0, func(h *history) { h.deleted(2000) }},
		{"two of them, of which the logs have one", "", 0, func(h *history) {
			h.deleted(900)
			again := h.reports[1]
			again.ClientID, again.KeyValue = 3, []porcupine.Operation{again.KeyValue[0]}
			again.KeyValue[0].ClientId, again.KeyValue[0].Call, again.KeyValue[0].Return = 3, 2000, 2001
			h.reports = append(h.reports, again)
		}},
		{"logs of two clusters", "logs", 0, func(h *history) { h.persisted, h.damage = nil, fmt.Errorf("mismatching entries") }},
		{"no read of the empty database", "assumptions", 0, func(h *history) { h.reports[0].KeyValue = h.reports[0].KeyValue[1:] }},
		{"a watch without one event", "watch", 0, func(h *history) { h.watch(0, 1, 3, 4) }},
		{"a watch that is whole", "", 0, func(h *history) { h.watch(0, 1, 2, 3, 4) }},
		{"a watch of what was never written", "watch", 0, func(h *history) { h.watch(0, 1, 2, 3, 40) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := told(20)
			c.damage(&h)
			if v := h.judge(c.writes); v.Broken != c.want {
				t.Errorf("got %q (%s), want %q", v.Broken, v.Why, c.want)
			}
		})
	}
}

// next adds an acknowledged put after so many others that the client has not seen.
func (h *history) next(unseen int64) {
	last := *h.operation(20)
	last.Call, last.Return, last.Input = 1001, 1005, put(100)
	last.Output = model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{
		Revision: 22 + unseen, Txn: &model.TxnResponse{Results: []model.EtcdOperationResult{{}}},
	}}
	h.reports[0].KeyValue = append(h.reports[0].KeyValue, last)
	h.persisted = append(h.persisted, put(100))
}

// deleted adds a delete of another client that got no answer, and a put after it.
func (h *history) deleted(call int64) {
	request := model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{OperationsOnSuccess: []model.EtcdOperation{
		{Type: model.DeleteOperation, Delete: model.DeleteOptions{Key: "k"}},
	}}}
	h.persisted = append(h.persisted, request)
	h.next(1)
	h.reports = append(h.reports, report.ClientReport{ClientID: 2, KeyValue: []porcupine.Operation{{
		ClientId: 2, Input: request, Call: call, Return: call + 1, Output: model.MaybeEtcdResponse{Error: "timeout"},
	}}})
}

// watch adds one that has seen these puts.
func (h *history) watch(puts ...int) {
	w := model.WatchOperation{Request: model.WatchRequest{Key: "k", Revision: 2}}
	for _, i := range puts {
		e := model.WatchEvent{PersistedEvent: model.PersistedEvent{
			Event:    model.Event{Type: model.PutOperation, Key: "k", Value: model.ToValueOrHash(fmt.Sprint(i))},
			Revision: int64(i) + 2, IsCreate: i == 0,
		}}
		w.Responses = append(w.Responses, model.WatchResponse{Revision: e.Revision, Events: []model.WatchEvent{e}})
	}
	h.reports[0].Watch = append(h.reports[0].Watch, w)
}

func TestEntriesOfTheOldStore(t *testing.T) {
	v2 := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	v2 = protowire.AppendString(protowire.AppendTag(v2, 2, protowire.BytesType), "PUT")
	v2 = protowire.AppendString(protowire.AppendTag(v2, 3, protowire.BytesType), "/0/members/1/attributes")
	v3 := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	v3 = protowire.AppendString(protowire.AppendTag(v3, 4, protowire.BytesType), "a put")
	for _, c := range []struct {
		name string
		data []byte
		want bool
	}{{"v2", v2, true}, {"v3", v3, false}, {"empty", nil, false}, {"torn", v2[:5], false}} {
		if got := isV2(c.data); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

func TestWhatCannotBeJudged(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "name one directory"},
		{[]string{"--writes", "many", "x"}, "invalid value"},
		{[]string{t.TempDir()}, "members' directories"},
		{[]string{t.TempDir() + "/none"}, "no such file"},
	} {
		var out, errs bytes.Buffer
		if code := run(c.args, &out, &errs); code != 2 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("judge %v: exit %d, %q; want exit 2 and %q", c.args, code, errs.String(), c.want)
		}
	}
}
