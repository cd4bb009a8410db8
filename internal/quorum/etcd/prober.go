package etcd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// Paths of etcd's peer listener (server/etcdserver/api/rafthttp).
const (
	probingPath = "/raft/probing"
	membersPath = "/members"
)

// bodyLimit bounds what is read of an answer; a membership of nine members
// is below 4 kB.
const bodyLimit = 64 << 10

// Prober asks one peer URL whether anything answers there, on a kept
// connection or a fresh one. It is safe for concurrent use.
type Prober struct {
	url         string
	kept, fresh *http.Client
	transports  []*http.Transport
}

// NewProber prepares a prober for a peer URL. The peer checks that the source
// address of the caller matches the SANs of the certificate, so the prober
// has to run in the member's own network namespace.
func NewProber(peerURL string, tlsFiles creds.Files) (*Prober, error) {
	u, err := url.Parse(peerURL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("peer URL %q: not a URL", peerURL)
	}
	p := &Prober{url: u.Scheme + "://" + u.Host}
	var tc *tls.Config
	if u.Scheme == "https" {
		if tc, err = tlsFiles.Client(u.Hostname()); err != nil {
			return nil, err
		}
	}
	p.kept = p.client(tc, false)
	p.fresh = p.client(tc, true)
	return p, nil
}

func (p *Prober) client(tc *tls.Config, fresh bool) *http.Client {
	if tc != nil {
		tc = tc.Clone()
	}
	t := &http.Transport{
		DialContext:            (&net.Dialer{KeepAlive: -1}).DialContext,
		TLSClientConfig:        tc,
		DisableKeepAlives:      fresh,
		MaxResponseHeaderBytes: 8 << 10,
		MaxIdleConnsPerHost:    1,
		// HTTP/1.1 only: after a timeout the connection is closed, so one
		// lost probe can never poison the next over a shared h2 connection.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	p.transports = append(p.transports, t)
	return &http.Client{Transport: t, CheckRedirect: NoRedirect}
}

// NoRedirect makes a client take a redirection for the answer. Neither etcd nor
// an agent redirects, and whatever stands at their address must not send the
// caller, with its certificate, somewhere else and be taken for well.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close drops the kept connection.
func (p *Prober) Close() {
	for _, t := range p.transports {
		t.CloseIdleConnections()
	}
}

// Probe sends one GET /raft/probing and returns the time to the answer. The
// context carries the deadline. An answer proves that a process accepts HTTP
// at the address, not that its raft works.
func (p *Prober) Probe(ctx context.Context, fresh bool) (time.Duration, error) {
	c := p.kept
	if fresh {
		c = p.fresh
	}
	start := time.Now()
	if _, err := p.get(ctx, c, probingPath); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// Identity asks the peer which members it knows, and reports whether id is
// among them at this address. Any cluster's etcd answers /raft/probing; this
// tells a neighbour that inherited the address from the member meant.
func (p *Prober) Identity(ctx context.Context, id uint64) (bool, error) {
	body, err := p.get(ctx, p.fresh, membersPath)
	if err != nil {
		return false, err
	}
	return identity(body, id)
}

// identity reads the JSON of /members. etcd writes ids as numbers
// (3.5 to 3.7); hexadecimal strings are accepted too.
func identity(body []byte, id uint64) (bool, error) {
	var members []struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(body, &members); err != nil {
		return false, fmt.Errorf("decode /members: %w", err)
	}
	for _, m := range members {
		text := string(m.ID)
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil && n == id {
			return true, nil
		}
		if n, err := strconv.ParseUint(text, 16, 64); err == nil && n == id {
			return true, nil
		}
	}
	return false, nil
}

func (p *Prober) get(ctx context.Context, c *http.Client, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", p.url, err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", p.url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", p.url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("probe %s: HTTP %d", p.url, resp.StatusCode)
	}
	return body, nil
}
