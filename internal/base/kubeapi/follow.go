package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// watchMin and watchMax bound how long one watch is asked to last: as
	// client-go asks, so that a node costs the server no more than its kubelet.
	watchMin, watchMax = 5 * time.Minute, 10 * time.Minute
	// silence ends a watch without event or bookmark. Servers send a
	// bookmark about every minute (apiserver, storage/cacher), also when
	// nothing changes; a stream that misses one is not alive.
	silence = 90 * time.Second
)

// errSilent ends a stream that tells nothing.
var errSilent = errors.New("no event or bookmark")

// Event is one change of an object.
type Event[T any] struct {
	// Deleted says that Object, in its last state, is gone; otherwise it was
	// added or changed.
	Deleted bool
	Object  T
}

// Follower keeps a caller up to date about a collection. T declares the fields
// of an object that matter, with json tags. The fields are set before Run.
type Follower[T any] struct {
	// Connect gives the client for the next request. It is called again
	// after each failed one, so that new credentials are picked up, and
	// may fail: then it is tried later.
	Connect func() (*Client, error)
	// Path is the collection: "/apis/discovery.k8s.io/v1/namespaces/x/endpointslices".
	Path string
	// Selector is a label selector, Fields a field selector; either may be empty.
	Selector, Fields string
	// Metadata asks for nothing but the metadata of each object, which spares
	// memory and traffic where objects are large, as Nodes are.
	Metadata bool
	// Replace is told the whole collection, after the first and each further list.
	Replace func([]T)
	// Apply is told one change.
	Apply func(Event[T])
	// Report is told the outcome of each request: nil when a list was read
	// or a watch opened.
	Report func(error)

	client *Client
	cursor cursor
}

// Run lists and watches until ctx ends, and returns its cause. The functions
// are called from here, never two at once.
func (f *Follower[T]) Run(ctx context.Context) error {
	defer f.drop()
	for ctx.Err() == nil {
		wait := f.round(ctx)
		if ctx.Err() == nil && wait > 0 {
			sleep(ctx, jitter(wait))
		}
	}
	return context.Cause(ctx)
}

// round makes one request and returns how long to wait before the next.
func (f *Follower[T]) round(ctx context.Context) time.Duration {
	if err := f.connect(); err != nil {
		f.Report(err)
		return f.cursor.wait(err)
	}
	if !f.cursor.listed {
		return f.list(ctx)
	}
	return f.watch(ctx)
}

func (f *Follower[T]) connect() (err error) {
	if f.client == nil {
		f.client, err = f.Connect()
	}
	return err
}

func (f *Follower[T]) drop() {
	if f.client != nil {
		f.client.Close()
		f.client = nil
	}
}

func (f *Follower[T]) list(ctx context.Context) time.Duration {
	version, items, err := f.pages(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if errors.Is(err, ErrTooLarge) && f.cursor.tooLarge() {
		return 0
	}
	if err != nil {
		f.drop()
		f.Report(err)
		return f.cursor.listFailed(err)
	}
	f.cursor.gotList(version)
	f.Replace(items)
	f.Report(nil)
	return 0
}

// pages reads a list, which is as of the version of its first page.
func (f *Follower[T]) pages(ctx context.Context) (version string, items []T, err error) {
	query := f.query()
	version, match, limit := f.cursor.query()
	if version != "" {
		query.Set("resourceVersion", version)
	}
	if match != "" {
		query.Set("resourceVersionMatch", match)
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	first, err := f.page(ctx, query)
	if err != nil {
		return "", nil, err
	}
	items = first.Items
	for next := first.Metadata.Continue; next != ""; {
		// The token says of which version, and the API takes no other beside it.
		query.Del("resourceVersion")
		query.Del("resourceVersionMatch")
		query.Set("continue", next)
		more, err := f.page(ctx, query)
		if err != nil {
			return "", nil, err
		}
		if len(more.Items) == 0 && more.Metadata.Continue != "" || len(items)+len(more.Items) > maxItems {
			return "", nil, fmt.Errorf("get %s: more than %d objects, or pages without any; is this a Kubernetes API?", f.Path, maxItems)
		}
		items, next = append(items, more.Items...), more.Metadata.Continue
	}
	return first.Metadata.ResourceVersion, items, nil
}

// page is one page of a list.
type page[T any] struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

func (f *Follower[T]) page(ctx context.Context, query url.Values) (p page[T], err error) {
	data, err := f.client.do(ctx, f.request(query, listMetadata))
	if err != nil {
		return p, err
	}
	if err = decodeJSON(data, &p); err == nil && p.Metadata.ResourceVersion == "" {
		err = errors.New("answer has no resourceVersion; is this a Kubernetes API?")
	}
	if err != nil {
		err = fmt.Errorf("get %s: %w", f.Path, err)
	}
	return p, err
}

// Media types of answers that hold metadata only.
const (
	listMetadata  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	watchMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

func (f *Follower[T]) request(query url.Values, metadata string) request {
	r := request{method: http.MethodGet, path: f.Path, query: query}
	if f.Metadata {
		r.accept = metadata
	}
	return r
}

func (f *Follower[T]) query() url.Values {
	query := url.Values{}
	if f.Selector != "" {
		query.Set("labelSelector", f.Selector)
	}
	if f.Fields != "" {
		query.Set("fieldSelector", f.Fields)
	}
	return query
}

func (f *Follower[T]) watch(ctx context.Context) time.Duration {
	start := time.Now()
	events, err := f.stream(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		f.drop()
		if !expired(err) && !errors.Is(err, errTurned) { // which are no trouble, only reasons to ask anew
			f.Report(err)
		}
	}
	return f.cursor.watchEnded(err, time.Since(start), events)
}

// stream opens a watch and applies its events until it ends; it returns how
// many there were, bookmarks included.
func (f *Follower[T]) stream(ctx context.Context) (events int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := fmt.Errorf("watch %s: %w for %v; opening it anew", f.Path, errSilent, silence)
	idle := time.AfterFunc(silence, func() { cancel(silent) })
	defer idle.Stop()

	lasts := watchMin + rand.N(watchMax-watchMin)
	query := f.query()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", f.cursor.version)
	query.Set("timeoutSeconds", strconv.Itoa(int(lasts/time.Second)))
	body, err := f.client.watch(ctx, cancel, f.request(query, watchMetadata))
	if err != nil {
		return 0, because(ctx, err)
	}
	defer body.Close()
	f.Report(nil)
	dec := newDecoder[T]("watch "+f.Path, body)
	for {
		version, event, err := dec.next()
		if err != nil {
			return events, because(ctx, ended(err))
		}
		idle.Reset(silence)
		events++
		if event != nil {
			f.Apply(*event)
		}
		f.cursor.gotEvent(version)
	}
}

// because prefers why ctx ended over the error that this led to.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
