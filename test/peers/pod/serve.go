package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// answer is what a pod says of itself.
type answer struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	Zone string `json:"zone"`
	// From is the client's address as the pod sees it.
	From string `json:"from"`
	Path string `json:"path"`
}

// serve answers on a port: everything with an answer, and /readyz with 200 or,
// after a POST to /readyz?ready=false, with 503 until one with ready=true.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	port := flags.Int("port", 8080, "port to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	go func() {
		_ = pause()
		os.Exit(0)
	}()
	server := &http.Server{Addr: fmt.Sprintf(":%d", *port), Handler: handler(), ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

func handler() http.Handler {
	// A pod's hostname is its name, unless it has its node's network.
	pod, err := os.Hostname()
	if name := os.Getenv("POD"); name != "" || err != nil {
		pod = name
	}
	var unready atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("POST /readyz", func(_ http.ResponseWriter, r *http.Request) {
		unready.Store(r.URL.Query().Get("ready") == "false")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if unready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer{
			Pod: pod, Node: os.Getenv("NODE"), Zone: os.Getenv("ZONE"), From: r.RemoteAddr, Path: r.URL.Path,
		})
	})
	return mux
}
