package logstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Paths of a store.
const (
	pathLines = "/lines" // POST stores a batch, GET tells what this shard has
	Query     = "/query" // GET tells what all of them have
)

// node is the store of one zone.
type node struct {
	options
	store  *store
	client *http.Client
}

func newNode(o options) *node {
	return &node{options: o, store: newStore(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
}

// ServeHTTP answers collectors, readers and other shards.
func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST " + pathLines:
		n.take(w, r)
	case "GET " + pathLines:
		reply(w, n.store.tallies())
	case "GET " + Query:
		n.query(w, r)
	default:
		http.Error(w, "ask "+pathLines+" or "+Query, http.StatusNotFound)
	}
}

func (n *node) take(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBatch))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	lines, err := decodeLines(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := n.store.add(lines); err != nil {
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// query answers from this store alone, or asks every shard and fails whole
// where one does not answer: what is found without it would not be the answer.
func (n *node) query(w http.ResponseWriter, r *http.Request) {
	if !n.sharded() {
		reply(w, n.store.tallies())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), n.patience)
	defer cancel()
	all := make([]map[string]Tally, len(n.peers))
	var g errgroup.Group // all are waited for, as long as the patience lasts
	for i, p := range n.peers {
		g.Go(func() (err error) {
			all[i], err = n.ask(ctx, p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		http.Error(w, err.Error(), http.StatusGatewayTimeout)
		return
	}
	reply(w, merge(all))
}

// ask gets what the shard of a peer has.
func (n *node) ask(ctx context.Context, p peer) (map[string]Tally, error) {
	if p.name == n.name {
		return n.store.tallies(), nil
	}
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+pathLines, nil)
	if err != nil {
		return nil, fmt.Errorf("ask shard %s: %w", p.name, err)
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("shard %s has not answered after %s, and no answer is whole without it: %w", p.name, time.Since(began).Round(time.Millisecond), err)
	}
	defer func() { _ = resp.Body.Close() }()
	var out map[string]Tally
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBatch)).Decode(&out); err != nil {
		return nil, fmt.Errorf("read answer of shard %s: %w", p.name, err)
	}
	return out, nil
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that is gone wants nothing
}

// run serves, and collects if it is to, until ctx ends.
func run(ctx context.Context, o options) error {
	n := newNode(o)
	server := &http.Server{Addr: o.listen, Handler: n, ReadHeaderTimeout: 5 * time.Second}
	defer func() { _ = server.Close() }()
	go newCollector(n).run(ctx)
	done := make(chan error, 1)
	go func() { done <- server.ListenAndServe() }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-done:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serve: %w", err)
	}
}
