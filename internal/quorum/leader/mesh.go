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
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
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
	Version int `json:"version"`
	// Rows are decoded one by one: one that is not understood must not hide
	// the others.
	Rows []json.RawMessage `json:"rows"`
}

// meshHandler serves rows and takes penalty records; take reports whether the
// record is for this agent to keep. Whoever holds a peer certificate may ask;
// that is the same trust etcd's peer port has.
func meshHandler(rows func() []Row, take func(Penalty) bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+rowsPath, func(w http.ResponseWriter, _ *http.Request) {
		answer := meshRows{Version: rowVersion}
		for _, r := range rows() {
			if b, err := encodeRow(r); err == nil {
				answer.Rows = append(answer.Rows, b)
			}
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
		if !take(p) {
			http.Error(w, "the record is of a move to another member", http.StatusConflict)
			return
		}
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
	l = bounded(l, meshConns)
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

// meshConns is how many connections are held at a time: eight times those of
// the agents of a cluster of nine, and below 4 MB with TLS. Whoever opens more
// without a certificate gives each up after the 2 s of ReadHeaderTimeout, which
// binds the TLS handshake as well.
const meshConns = 64

// boundedListener accepts no further connection while most are open; they wait
// in the kernel's backlog.
type boundedListener struct {
	net.Listener
	free   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func bounded(l net.Listener, most int) net.Listener {
	return &boundedListener{Listener: l, free: make(chan struct{}, most), closed: make(chan struct{})}
}

func (b *boundedListener) Accept() (net.Conn, error) {
	select {
	case b.free <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.free
		return nil, err
	}
	return &boundedConn{Conn: c, done: sync.OnceFunc(func() { <-b.free })}, nil
}

func (b *boundedListener) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	net.Conn
	done func()
}

func (c *boundedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
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
		client: &http.Client{Timeout: time.Second, CheckRedirect: etcd.NoRedirect, Transport: &http.Transport{
			TLSClientConfig: tc, MaxIdleConnsPerHost: 1, MaxResponseHeaderBytes: 8 << 10,
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
	for _, b := range answer.Rows {
		r, err := decodeRow(b)
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
