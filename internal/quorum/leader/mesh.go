package leader

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

const (
	rowsPath    = "/v1/rows"
	penaltyPath = "/v1/penalty"
	// meshLimit bounds an answer; a row is below 2 kB.
	meshLimit = 256 << 10
)

// meshRows is the answer of GET /v1/rows: the agent's own row, and those of
// others as it knows them, each with its age.
type meshRows struct {
	Version int       `json:"version"`
	Rows    []wireRow `json:"rows"`
}

// meshHandler serves rows and takes penalty records. Whoever holds a peer
// certificate may ask; that is the same trust etcd's peer port has.
func meshHandler(rows func() []Row, take func(Penalty)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+rowsPath, func(w http.ResponseWriter, _ *http.Request) {
		answer := meshRows{Version: rowVersion}
		for _, r := range rows() {
			answer.Rows = append(answer.Rows, wire(r))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	mux.HandleFunc("POST "+penaltyPath, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, meshLimit))
		if err != nil {
			http.Error(w, "read body", http.StatusBadRequest)
			return
		}
		p, err := decodePenalty(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		take(p)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// serveMesh listens on addr with the peer certificate until ctx ends;
// listening is called once it does.
func serveMesh(ctx context.Context, addr string, files creds.Files, h http.Handler, listening func()) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("mesh.listen: %w; choose another port in mesh.listen and mesh.port of all agents", err)
	}
	if files != (creds.Files{}) {
		tc, err := files.Server(true)
		if err != nil {
			_ = l.Close()
			return err
		}
		l = tls.NewListener(l, tc)
	}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 2 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: quietLog(),
	}
	listening()
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve mesh on %s: %w", addr, err)
	}
	return nil
}

// quietLog swallows what net/http says about single connections: a port scan
// must not fill the log.
func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// meshPeer is the agent beside one peer.
type meshPeer struct {
	url    string
	client *http.Client
}

func newMeshPeer(host string, port int, files creds.Files) (*meshPeer, error) {
	scheme := "http"
	var tc *tls.Config
	if files != (creds.Files{}) {
		var err error
		if tc, err = files.Client(host); err != nil {
			return nil, err
		}
		scheme = "https"
	}
	return &meshPeer{
		url: scheme + "://" + net.JoinHostPort(host, fmt.Sprint(port)),
		client: &http.Client{Timeout: time.Second, Transport: &http.Transport{
			TLSClientConfig: tc, MaxIdleConnsPerHost: 1,
			TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		}},
	}, nil
}

func (p *meshPeer) close() { p.client.CloseIdleConnections() }

// rows asks for what the agent knows. The time the answer took is added to
// each age: a row must never look younger than it is.
func (p *meshPeer) rows(ctx context.Context) ([]Row, error) {
	start := time.Now()
	body, err := p.do(ctx, http.MethodGet, rowsPath, nil)
	if err != nil {
		return nil, err
	}
	rows, err := decodeMeshRows(body)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", p.url, err)
	}
	took := time.Since(start)
	for i := range rows {
		rows[i] = rows[i].aged(took)
	}
	return rows, nil
}

func decodeMeshRows(body []byte) ([]Row, error) {
	var answer meshRows
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("decode rows: %w", err)
	}
	rows := make([]Row, 0, len(answer.Rows))
	for _, w := range answer.Rows {
		r, err := w.row()
		if err != nil {
			continue // an agent of another version: its member stays unknown
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// tell hands the agent a penalty record and returns once it has it.
func (p *meshPeer) tell(ctx context.Context, rec Penalty) error {
	b, err := json.Marshal(wirePenalty(rec))
	if err != nil {
		return fmt.Errorf("encode decision: %w", err)
	}
	_, err = p.do(ctx, http.MethodPost, penaltyPath, b)
	return err
}

func (p *meshPeer) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask agent %s: %w", p.url, err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask agent %s: %w", p.url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, meshLimit))
	if err != nil {
		return nil, fmt.Errorf("read answer of agent %s: %w", p.url, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("ask agent %s: HTTP %d", p.url, resp.StatusCode)
	}
	return answer, nil
}
