package balance

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// handler answers on the control socket.
func (p *process) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", p.serveStatus)
	mux.HandleFunc("POST /hold", p.serveHold(true))
	mux.HandleFunc("POST /release", p.serveHold(false))
	mux.HandleFunc("POST /upgrade", p.handOver)
	return mux
}

func (p *process) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(p.status())
}

// serveHold holds or releases a backend: everywhere it stands, or in the
// frontend named.
func (p *process) serveHold(held bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, frontend := r.URL.Query().Get("backend"), r.URL.Query().Get("frontend")
		found := 0
		for _, pool := range p.poolsOf(frontend) {
			if pool.hold(id, held) {
				found++
			}
		}
		if found == 0 {
			http.Error(w, fmt.Sprintf("no backend %q; holdfast balance status lists them", id), http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, "%d", found)
	}
}
