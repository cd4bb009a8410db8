package kubeapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

const (
	// requestTimeout bounds one read or write, body included. A server that
	// has lost etcd answers reads from its cache at once and others never.
	requestTimeout = 15 * time.Second
	// headerTimeout bounds the wait for the first byte; a watch answers its
	// header at once.
	headerTimeout = 10 * time.Second
	// dialTimeout is three SYNs: at 0, 1 and 3 s.
	dialTimeout = 5 * time.Second
	// attemptTimeout bounds what one of several servers is given: an answer over
	// the slowest link of a stretched cluster takes a tenth of it, and a frozen
	// server costs its clients no more.
	attemptTimeout = 2500 * time.Millisecond
	// maxBody bounds an answer. A thousand endpoints in JSON are about 0.5 MiB.
	maxBody = 8 << 20
)

// ErrTooLarge is wrapped when an answer exceeds its bound.
var ErrTooLarge = errors.New("answer too large")

// Client asks one API server, several behind one address, or several in turn.
// It is safe for concurrent use.
type Client struct {
	config  Config
	servers []*server
	turn    *turn

	mu    sync.Mutex
	token string // the last that was read

	// failed says that a request failed in a way that new credentials or a
	// new configuration might mend.
	failed atomic.Bool
}

// server is one way to the API.
type server struct {
	base *url.URL
	http *http.Client
}

// New checks the configuration and reads the files that it names.
func New(config Config) (*Client, error) {
	c := &Client{config: config, token: config.Token, turn: config.turn}
	for _, each := range config.servers() {
		s, err := newServer(each, config.attempt())
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, s)
	}
	if c.turn == nil {
		c.turn = newTurn(len(c.servers))
	}
	return c, nil
}

// newServer gives one server at most patience until the first byte of an answer.
func newServer(config Config, patience time.Duration) (*server, error) {
	base, err := config.base()
	if err != nil {
		return nil, err
	}
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: min(dialTimeout, patience)}).DialContext
	}
	// Later than the bound of an attempt, which says more; streams have only this.
	patience = min(headerTimeout, patience+attemptTimeout/10)
	transport := &http.Transport{
		DialContext:           dial,
		TLSHandshakeTimeout:   patience,
		ResponseHeaderTimeout: patience,
		MaxIdleConns:          1,
		IdleConnTimeout:       time.Minute,
		// Small: one watch and now and then a list.
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		DisableCompression: true,
	}
	if base.Scheme == "https" {
		if transport.TLSClientConfig, err = config.tls(base.Hostname()); err != nil {
			return nil, err
		}
	}
	return &server{base: base, http: &http.Client{
		Transport: transport,
		// A redirect would carry the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close drops connections that are not in use.
func (c *Client) Close() {
	for _, s := range c.servers {
		s.http.CloseIdleConnections()
	}
}

// request is one question to the API.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	// accept and content are media types; empty means JSON.
	accept, content string
}

func (r *request) op() string { return verb(r.method) + " " + r.path }

// Get reads path, e.g. "/api/v1/namespaces/default/configmaps/x". The answer
// is JSON; an answer other than 2xx is a *StatusError. Of several servers each
// is tried once.
func (c *Client) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: path, query: query})
}

// Put replaces the object at path with the JSON body and returns what the
// server made of it. A body with a resourceVersion that is no longer current
// gives a *StatusError of code 409.
func (c *Client) Put(ctx context.Context, path string, body []byte) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodPut, path: path, body: body})
}

// Create adds the object in the JSON body to the collection at path and
// returns what the server made of it; 409 when the name is taken.
func (c *Client) Create(ctx context.Context, path string, body []byte) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodPost, path: path, body: body})
}

// Patch merges the JSON body into the object at path (RFC 7386: a null removes
// a field, a list replaces a list) and returns what the server made of it. A
// body with metadata.resourceVersion is applied to that version only, else 409.
func (c *Client) Patch(ctx context.Context, path string, body []byte) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodPatch, path: path, body: body, content: "application/merge-patch+json"})
}

// do asks the server whose turn it is. One that does not answer, or answers
// that it cannot, loses its turn; a read then goes to the next, and so does a
// write for which no connection came about.
func (c *Client) do(caller context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(caller, requestTimeout)
	defer cancel()
	at, _ := c.turn.now()
	for n := 1; ; n++ {
		began := time.Now()
		data, sent, err := c.ask(ctx, c.servers[at], r)
		said := c.note(caller, at, began, err)
		switch {
		case err == nil:
			return data, nil
		case said != unable && said != failing, sent && r.method != http.MethodGet, n == 1 && len(c.servers) == 1:
			return nil, err
		case n == len(c.servers), ctx.Err() != nil:
			return nil, fmt.Errorf("asked %d servers of %d: %w", n, len(c.servers), err)
		}
		at = (at + 1) % len(c.servers) // whose turn it need not be: one 500 is no reason to leave a server
	}
}

// note draws the conclusions from the outcome of a request to server at, which
// began at the given time.
func (c *Client) note(caller context.Context, at int, began time.Time, err error) verdict {
	said, blamed := judge(caller, err), false
	switch said {
	case answered:
		c.turn.answered(at, time.Now())
	case failing:
		blamed = c.turn.failed(at, time.Now())
	case silent:
		blamed = c.turn.silent(at, began, time.Now(), c.config.attempt())
	case unable:
		blamed = true
	}
	if blamed {
		c.turn.away(at)
	}
	if blamed || Code(err) == http.StatusUnauthorized {
		c.failed.Store(true)
	}
	return said
}

// ask makes one attempt. sent says that a connection was there to send on.
func (c *Client) ask(ctx context.Context, s *server, r request) (data []byte, sent bool, err error) {
	patience := c.config.attempt()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v: %w", patience, context.DeadlineExceeded))
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }})
	answer, err := c.open(ctx, s, r)
	if err != nil {
		return nil, sent, err
	}
	defer answer.Close()
	data, err = io.ReadAll(io.LimitReader(answer, maxBody+1))
	if err != nil {
		return nil, sent, fmt.Errorf("%s: %w", r.op(), because(ctx, err))
	}
	if len(data) > maxBody {
		return nil, sent, fmt.Errorf("%s: %w: over %d bytes", r.op(), ErrTooLarge, maxBody)
	}
	return data, sent, nil
}

// watch opens a stream at the server whose turn it is; cancel is called when
// that server loses its turn.
func (c *Client) watch(ctx context.Context, cancel context.CancelCauseFunc, r request) (io.ReadCloser, error) {
	at, left := c.turn.now()
	began := time.Now()
	body, err := c.open(ctx, c.servers[at], r)
	c.note(ctx, at, began, err)
	if err != nil {
		return nil, err
	}
	go func() {
		select {
		case <-left:
			cancel(errTurned)
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errSilent) {
				c.turn.away(at)
			}
		}
	}()
	return body, nil
}

// open sends a request and returns the body of a good answer, unread.
func (c *Client) open(ctx context.Context, s *server, r request) (io.ReadCloser, error) {
	u := *s.base
	u.Path += r.path
	u.RawQuery = r.query.Encode()
	request, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", cmp.Or(r.accept, "application/json"))
	request.Header.Set("User-Agent", "holdfast")
	if r.body != nil {
		request.Header.Set("Content-Type", cmp.Or(r.content, "application/json"))
	}
	if token := c.bearer(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := s.http.Do(request)
	if err != nil {
		// The URL that net/http puts in front is told shorter here.
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return nil, fmt.Errorf("%s at %s: %w", r.op(), s.base.Host, because(ctx, err))
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		return nil, statusError(r.op(), answer)
	}
	return answer.Body, nil
}

func verb(method string) string { return strings.ToLower(method) }

// maxToken is far above a service account's token, which has 1 to 2 kB.
const maxToken = 64 << 10

// bearer returns the token in force.
func (c *Client) bearer() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config.TokenFile != "" {
		data, err := file.Read(c.config.TokenFile, maxToken)
		if token := strings.TrimSpace(string(data)); err == nil && token != "" {
			c.token = token
		}
	}
	return c.token
}

// decodeJSON hides what was read from the error: it may be another's secret.
func decodeJSON(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return errors.New("answer is not the expected JSON; is this a Kubernetes API?")
	}
	return nil
}
