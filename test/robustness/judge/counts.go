package main

import (
	"fmt"

	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// counts is what a run did, so that one that did nothing cannot pass.
type counts struct {
	Answered     int `json:"answered"`
	Failed       int `json:"failed"`
	Writes       int `json:"writes"` // acknowledged puts
	Deletes      int `json:"deletes"`
	Transactions int `json:"transactions"`
	Reads        int `json:"reads"`
	Leases       int `json:"leases"`
	Revokes      int `json:"revokes"`
	Events       int `json:"events"` // of watches
}

// enough says what was too little.
func (c counts) enough(writes int) error {
	if c.Writes < writes {
		return fmt.Errorf("%d acknowledged writes, want %d", c.Writes, writes)
	}
	if writes > 0 && (c.Reads < writes/4 || c.Deletes < 5 || c.Transactions < 10 || c.Leases < 2 || c.Revokes < 1 || c.Events < writes) {
		return fmt.Errorf("too little to have tried it: %+v", c)
	}
	return nil
}

func count(reports []report.ClientReport) (c counts) {
	for _, r := range reports {
		c.Events += r.WatchEventCount()
		for _, op := range r.KeyValue {
			request, response := op.Input.(model.EtcdRequest), op.Output.(model.MaybeEtcdResponse)
			if response.Error != "" {
				c.Failed++
				continue
			}
			c.Answered++
			c.add(request, response)
		}
	}
	return c
}

func (c *counts) add(request model.EtcdRequest, response model.MaybeEtcdResponse) {
	switch request.Type {
	case model.Range:
		c.Reads++
	case model.LeaseGrant:
		c.Leases++
	case model.LeaseRevoke:
		c.Revokes++
	case model.Txn:
		ops := applied(request, response)
		if len(ops) > 1 || len(request.Txn.Conditions) > 0 {
			c.Transactions++
		}
		for _, op := range ops {
			switch op.Type {
			case model.PutOperation:
				c.Writes++
			case model.DeleteOperation:
				c.Deletes++
			}
		}
	}
}

// applied are the operations that an answered transaction did; put and delete are transactions too.
func applied(request model.EtcdRequest, response model.MaybeEtcdResponse) []model.EtcdOperation {
	if request.Type != model.Txn || response.Error != "" || response.ClientError != "" || response.Txn == nil {
		return nil
	}
	if response.Txn.Failure {
		return request.Txn.OperationsOnFailure
	}
	return request.Txn.OperationsOnSuccess
}
