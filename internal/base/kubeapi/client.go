package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
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
	// maxBody bounds an answer. A thousand endpoints in JSON are about 0.5 MiB.
	maxBody = 8 << 20
)

// ErrTooLarge is wrapped when an answer exceeds its bound.
var ErrTooLarge = errors.New("answer too large")

// Client asks one API server, or several behind one address. It is safe for
// concurrent use.
type Client struct {
	config Config
	base   *url.URL
	http   *http.Client

	mu    sync.Mutex
	token string // the last that was read
}

// New checks the configuration and reads the files that it names.
func New(config Config) (*Client, error) {
	base, err := config.base()
	if err != nil {
		return nil, err
	}
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	transport := &http.Transport{
		DialContext:           dial,
		TLSHandshakeTimeout:   headerTimeout,
		ResponseHeaderTimeout: headerTimeout,
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
	return &Client{
		config: config, base: base, token: config.Token,
		http: &http.Client{
			Transport: transport,
			// A redirect would carry the token elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close drops connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get reads path, e.g. "/api/v1/namespaces/default/configmaps/x". The answer
// is JSON; an answer other than 2xx is a *StatusError.
func (c *Client) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return c.do(ctx, http.MethodGet, path, query, nil)
}

// Put replaces the object at path with the JSON body and returns what the
// server made of it. A body with a resourceVersion that is no longer current
// gives a *StatusError of code 409.
func (c *Client) Put(ctx context.Context, path string, body []byte) ([]byte, error) {
	return c.do(ctx, http.MethodPut, path, nil, body)
}

// Create adds the object in the JSON body to the collection at path and
// returns what the server made of it; 409 when the name is taken.
func (c *Client) Create(ctx context.Context, path string, body []byte) ([]byte, error) {
	return c.do(ctx, http.MethodPost, path, nil, body)
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := c.open(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	data, err := io.ReadAll(io.LimitReader(answer, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", verb(method), path, err)
	}
	if len(data) > maxBody {
		return nil, fmt.Errorf("%s %s: %w: over %d bytes", verb(method), path, ErrTooLarge, maxBody)
	}
	return data, nil
}

// open sends a request and returns the body of a good answer, unread.
func (c *Client) open(ctx context.Context, method, path string, query url.Values, body []byte) (io.ReadCloser, error) {
	u := *c.base
	u.Path += path
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "holdfast")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token := c.bearer(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		// The URL that net/http puts in front is told shorter here.
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return nil, fmt.Errorf("%s %s at %s: %w", verb(method), path, c.base.Host, err)
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		return nil, statusError(verb(method)+" "+path, answer)
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
