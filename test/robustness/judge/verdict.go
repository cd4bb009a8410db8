package main

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
)

// history is what clients were told and what the members' logs hold.
type history struct {
	reports   []report.ClientReport
	persisted []model.EtcdRequest
	// damage says why the logs are not those of one cluster; persisted is empty then.
	damage error
}

// verdict is the answer.
type verdict struct {
	// Broken is the first of these that does not hold, or empty: "counts", "acknowledged",
	// "assumptions", "linearization", "watch", "serializable", "logs".
	Broken string `json:"broken,omitempty"`
	Why    string `json:"why,omitempty"`
	Counts counts `json:"counts"`
	// Lost is how many acknowledged puts the logs do not have.
	Lost int `json:"lost"`
}

func (v verdict) because(broken string, err error) verdict {
	v.Broken, v.Why = broken, err.Error()
	return v
}

func (h history) judge(writes int) verdict {
	v := verdict{Counts: count(h.reports)}
	if err := v.Counts.enough(writes); err != nil {
		return v.because("counts", err)
	}
	if h.damage == nil {
		missing, dreamt := h.missing()
		if v.Lost = len(missing); v.Lost > 0 {
			return v.because("acknowledged", fmt.Errorf("%d of %d acknowledged puts are not in the logs, such as %+v",
				v.Lost, len(acknowledged(h.reports)), missing[0]))
		}
		if len(dreamt) > 0 {
			return v.because("watch", fmt.Errorf("%d events tell of puts that are not in the logs, such as %+v", len(dreamt), dreamt[0]))
		}
	}
	return h.validate(v)
}

// searching is how long a search for an order may take: longer ones fill the memory.
const searching = 20 * time.Second

// validate asks etcd's own validation, first with the order that suggests itself.
func (h history) validate(v verdict) verdict {
	if h.damage == nil {
		if reports, fits := witness(h.reports, h.persisted); fits {
			if seen := h.of(v, reports); seen.Broken != "linearization" {
				return seen
			}
		}
	}
	return h.of(v, h.reports)
}

func (h history) of(v verdict, reports []report.ClientReport) verdict {
	r := validate.ValidateAndReturnVisualize(zap.NewNop(), validate.Config{}, reports, h.persisted, searching)
	parts := []struct {
		name   string
		result validate.Result
	}{
		{"assumptions", r.Assumptions},
		{"linearization", r.Linearization.Result},
		{"logs", validate.ResultFromError(h.damage)},
		{"watch", r.Watch},
		{"serializable", r.Serializable},
	}
	for _, p := range parts {
		if p.result.Status != validate.Success {
			return v.because(p.name, fmt.Errorf("%s", p.result.String()))
		}
	}
	return v
}

// stored is a value at the revision that wrote it.
type stored struct {
	key, value string
	revision   int64
}

// acknowledged lists every put that was answered. Their values are unique.
func acknowledged(reports []report.ClientReport) (all []stored) {
	for _, r := range reports {
		for _, op := range r.KeyValue {
			request, response := op.Input.(model.EtcdRequest), op.Output.(model.MaybeEtcdResponse)
			for _, o := range applied(request, response) {
				if o.Type == model.PutOperation {
					all = append(all, stored{o.Put.Key, o.Put.Value.Value, response.Revision})
				}
			}
		}
	}
	return all
}

// missing lists what the logs do not have at its revision: of the acknowledged puts, and of
// those that a watch told of (etcd's validation panics on one of a later revision).
func (h history) missing() (acked, watched []stored) {
	have := map[stored]bool{}
	for _, e := range model.NewReplay(h.persisted).Events {
		if e.Type == model.PutOperation {
			have[stored{e.Key, e.Value.Value, e.Revision}] = true
		}
	}
	for _, w := range acknowledged(h.reports) {
		if !have[w] {
			acked = append(acked, w)
		}
	}
	for _, r := range h.reports {
		for _, w := range r.Watch {
			for _, response := range w.Responses {
				for _, e := range response.Events {
					if put := (stored{e.Key, e.Value.Value, e.Revision}); e.Type == model.PutOperation && !have[put] {
						watched = append(watched, put)
					}
				}
			}
		}
	}
	return acked, watched
}
