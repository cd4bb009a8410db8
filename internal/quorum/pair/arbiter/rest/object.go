package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
)

// idleTimeout keeps a connection between two reads at rest, 10 s apart.
const idleTimeout = 30 * time.Second

// Refusal is what a server's answer means where the status alone does not say.
type Refusal struct {
	// Kind is one of package store's errors, or nil for what the status means.
	Kind error
	// Text is the server's own word and what to do about it; may be empty.
	Text string
}

// Dialect is what one kind of server has of its own. The zero value is plain HTTP.
type Dialect struct {
	// Name is what Object.Name says; "" is the URL.
	Name string
	// Authorize adds credentials to a request that carries body.
	Authorize func(r *http.Request, body []byte) error
	// Heard is told the header of each answer.
	Heard func(http.Header)
	// Explain reads an answer that is no success.
	Explain func(status int, body []byte) Refusal
}

// Object is a store.Store behind one URL.
type Object struct {
	url     url.URL
	dialect Dialect
	client  *http.Client
	forget  func()
}

var _ store.Store = (*Object)(nil)

// New prepares the object at u. Nothing is sent yet.
func New(u url.URL, files creds.Files, d Dialect) (*Object, error) {
	if err := check(u); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	t := &http.Transport{
		DialContext:            (&net.Dialer{KeepAlive: 5 * time.Second}).DialContext,
		DisableCompression:     true, // a server that compresses weakens or changes the ETag
		MaxIdleConnsPerHost:    16,   // as many as a self-test has at once
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    10 * time.Second,
	}
	if u.Scheme == "https" {
		// With a configuration of its own the transport speaks HTTP/1.1 only: a dead
		// connection then costs the one request that waits on it.
		config, err := files.Client(u.Hostname())
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = config
	}
	return &Object{
		url: u, dialect: d, forget: t.CloseIdleConnections,
		client: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

func check(u url.URL) error {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("scheme %q; write https://HOST:PORT/PATH", u.Scheme)
	case u.Hostname() == "":
		return errors.New("no host; write https://HOST:PORT/PATH")
	case u.User != nil:
		return errors.New("a name or password in the URL would be logged; give it by a file")
	case strings.Trim(u.Path, "/") == "":
		return errors.New("no path; name the object, as in https://HOST:PORT/pairs/prod")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return fmt.Errorf("http to %s could be read and changed on the way; use https (http only to 127.0.0.1 or [::1])", u.Hostname())
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Name is the dialect's, or the URL.
func (o *Object) Name() string {
	if o.dialect.Name != "" {
		return o.dialect.Name
	}
	return o.url.String()
}

// Key is the last part of the path.
func (o *Object) Key() string { return path.Base(o.url.Path) }

// Close drops kept connections.
func (o *Object) Close() error {
	o.forget()
	return nil
}

// Beside shares the connections of o.
func (o *Object) Beside(suffix string) (store.Store, error) {
	next := *o
	next.url.Path += suffix
	next.url.RawPath = ""
	if next.dialect.Name != "" {
		next.dialect.Name += " (" + suffix + ")"
	}
	return &next, nil
}

// Read gets the object. A connection that was kept may have died unnoticed, by the very
// fault that makes somebody ask: after a third of the time another one is tried.
func (o *Object) Read(ctx context.Context) ([]byte, store.Version, error) {
	first, cancel := share(ctx)
	a, err := o.send(first, http.MethodGet, nil, nil)
	cancel()
	if err != nil && ctx.Err() == nil {
		o.forget()
		a, err = o.send(ctx, http.MethodGet, nil, nil)
	}
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%w: %w", store.ErrUnreachable, a.clean(err))
	case a.status == http.StatusOK:
		if a.version == "" {
			return nil, "", a.unfit()
		}
		return a.body, a.version, nil
	}
	r := o.explain(a)
	if r.Kind == nil && a.status == http.StatusNotFound {
		return nil, "", nil
	}
	return nil, "", refuse(a, r, store.ErrUnreachable)
}

func share(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/3)
}

// Swap puts the object under the condition that was names.
func (o *Object) Swap(ctx context.Context, was store.Version, data []byte) (store.Version, error) {
	header := http.Header{"Content-Type": {"application/json"}, "If-Match": {string(was)}}
	if was == "" {
		header.Del("If-Match")
		header.Set("If-None-Match", "*")
	}
	a, err := o.send(ctx, http.MethodPut, header, data)
	if err != nil {
		kind := store.ErrUnreachable
		if a.connected {
			kind = store.ErrUnknown
		}
		return "", fmt.Errorf("%w: %w", kind, a.clean(err))
	}
	switch {
	case a.status == http.StatusOK, a.status == http.StatusCreated, a.status == http.StatusNoContent:
		// Without an ETag it stands, but only a read tells under which.
		return a.version, nil
	case a.status == http.StatusPreconditionFailed:
		return "", store.ErrLost
	}
	r := o.explain(a)
	switch {
	case r.Kind != nil:
	case a.status == http.StatusNotFound && was != "":
		return "", fmt.Errorf("%w: it is not there any more", store.ErrLost)
	case a.status >= 500, a.status == http.StatusConflict, a.status == http.StatusRequestTimeout, a.status < 400:
		// 409 is S3's answer where two came at once and neither need have won.
		return "", refuse(a, r, store.ErrUnknown)
	case a.status == http.StatusNotImplemented, a.status == http.StatusMethodNotAllowed:
		return "", refuse(a, r, store.ErrUnfit)
	}
	return "", refuse(a, r, store.ErrUnreachable)
}

func (o *Object) explain(a answer) Refusal {
	var r Refusal
	if o.dialect.Explain != nil {
		r = o.dialect.Explain(a.status, a.body)
	}
	if r.Kind == nil && (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden) {
		r.Kind = store.ErrDenied
	}
	return r
}

func refuse(a answer, r Refusal, kind error) error {
	if r.Kind != nil {
		kind = r.Kind
	}
	text := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	if a.location != "" {
		text += fmt.Sprintf(" to %q; give that URL, redirects are not followed", a.location)
	}
	if r.Text != "" {
		text += ": " + r.Text
	}
	return fmt.Errorf("%w: it answers %s", kind, text)
}

// answer is what came back, or how far it got.
type answer struct {
	connected bool // a connection was there: the request may have been received
	status    int
	etag      string
	version   store.Version // the ETag if it is a strong one
	location  string
	body      []byte
}

func (a answer) unfit() error {
	if a.etag == "" {
		return fmt.Errorf("%w: it answers without an ETag, so no condition can name what is replaced", store.ErrUnfit)
	}
	return fmt.Errorf("%w: it answers with the weak ETag %.40q; take what changes it, such as compression, out of the way", store.ErrUnfit, a.etag)
}

// clean leaves out method and URL, which the caller names.
func (answer) clean(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func (o *Object) send(ctx context.Context, method string, header http.Header, body []byte) (a answer, err error) {
	// Told by the transport's goroutines, one of which may outlive the request.
	connected := make(chan struct{}, 4)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		select {
		case connected <- struct{}{}:
		default:
		}
	}})
	defer func() { a.connected = len(connected) > 0 }()
	r, err := http.NewRequestWithContext(ctx, method, o.url.String(), bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	if method == http.MethodPut {
		r.GetBody = nil // what the transport cannot read again it cannot send again
	}
	for k, v := range header {
		r.Header[k] = v
	}
	if o.dialect.Authorize != nil {
		if err := o.dialect.Authorize(r, body); err != nil {
			return a, err
		}
	}
	// After a signature was made: proxies change these.
	r.Header.Set("Cache-Control", "no-cache")
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "holdfast")
	res, err := o.client.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = res.Body.Close() }()
	if o.dialect.Heard != nil {
		o.dialect.Heard(res.Header)
	}
	a.status, a.etag, a.location = res.StatusCode, res.Header.Get("ETag"), res.Header.Get("Location")
	if strong(a.etag) {
		a.version = store.Version(a.etag)
	}
	// One byte more than an object may have: the reader of it sees that it is none.
	a.body, err = io.ReadAll(io.LimitReader(res.Body, store.MaxObject+1))
	return a, err
}

// strong follows RFC 9110, section 8.8.3.
func strong(etag string) bool {
	return len(etag) > 2 && len(etag) < 200 && etag[0] == '"' && etag[len(etag)-1] == '"' && !strings.Contains(etag[1:len(etag)-1], `"`)
}
