package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"time"
)

const (
	// eventEvery is how often the same sentence about the same object is
	// written at most. kubectl describe shows events of the last hour.
	eventEvery = 5 * time.Minute
	// eventRetry follows a sentence that could not be written.
	eventRetry = 30 * time.Second
	// eventBurst events may be written at once, then one each eventRefill.
	eventBurst  = 10
	eventRefill = 5 * time.Second
	// eventQueue are those that wait; more are dropped.
	eventQueue = 64
	// eventMemory bounds how many sentences are remembered.
	eventMemory = 1024
)

// Reference names the object that an event is about.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// Events writes core/v1 Events about objects, for `kubectl describe`. They are a
// courtesy: what cannot be written, or not soon, is dropped and counted. The
// same sentence about the same object is written once in five minutes, with a
// count of how often it was said. The fields are set before Run.
type Events struct {
	// Client gives the client for the next event.
	Client func() (*Client, error)
	// Component is the reporting controller: "holdfast-zonal".
	Component string
	// Instance is the node or pod that reports.
	Instance string
	// Report is told the outcome of each attempt; may be nil.
	Report func(error)

	mu      sync.Mutex
	said    map[sentence]*saying
	queue   []note
	wake    chan struct{}
	dropped int
}

// sentence is what is not repeated.
type sentence struct {
	about           Reference
	reason, message string
}

type saying struct {
	first time.Time // since when it is said without having been written
	next  time.Time // not before
	count int       // since first
}

// note is an event to be written.
type note struct {
	sentence
	kind        string
	first, last time.Time
	count       int
}

// Normal and Warning are the two types of an Event.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// Record asks for an event and returns at once. kind is Normal or Warning,
// reason one word in CamelCase, message a sentence.
func (e *Events) Record(about Reference, kind, reason, message string) {
	now := time.Now()
	s := sentence{about, reason, message}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n, ok := e.admit(s, now); ok {
		n.kind = kind
		if len(e.queue) == eventQueue {
			e.dropped++
			return
		}
		e.queue = append(e.queue, n)
		e.nudge()
	}
}

// Room is how many more events can wait to be written.
func (e *Events) Room() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return eventQueue - len(e.queue)
}

// Dropped counts events that were neither written nor repetitions.
func (e *Events) Dropped() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped
}

// admit says whether a sentence is written now, and how often it was said.
func (e *Events) admit(s sentence, now time.Time) (note, bool) {
	if e.said == nil {
		e.said = map[sentence]*saying{}
	}
	old := e.said[s]
	if old == nil {
		e.forget(now)
		if len(e.said) >= eventMemory {
			e.dropped++
			return note{}, false
		}
		old = &saying{first: now}
		e.said[s] = old
	}
	if old.count == 0 {
		old.first = now
	}
	old.count++
	if now.Before(old.next) {
		return note{}, false
	}
	n := note{sentence: s, first: old.first, last: now, count: old.count}
	old.next, old.count = now.Add(eventEvery), 0
	return n, true
}

// forget drops sentences that may be said again and were not.
func (e *Events) forget(now time.Time) {
	for s, each := range e.said {
		if now.After(each.next) {
			delete(e.said, s)
		}
	}
}

// nudge wakes Run; e.mu is held.
func (e *Events) nudge() {
	select {
	case e.waker() <- struct{}{}:
	default:
	}
}

func (e *Events) waker() chan struct{} {
	if e.wake == nil {
		e.wake = make(chan struct{}, 1)
	}
	return e.wake
}

// Run writes events until ctx ends.
func (e *Events) Run(ctx context.Context) {
	e.mu.Lock()
	wake := e.waker()
	e.mu.Unlock()
	tokens, filled := eventBurst, time.Now()
	for ctx.Err() == nil {
		n, ok := e.take()
		if !ok {
			select {
			case <-wake:
			case <-ctx.Done():
			}
			continue
		}
		if gained := int(time.Since(filled) / eventRefill); gained > 0 {
			tokens = min(eventBurst, tokens+gained)
			filled = filled.Add(time.Duration(gained) * eventRefill)
		}
		if tokens == 0 {
			sleep(ctx, eventRefill-time.Since(filled))
			tokens, filled = 1, time.Now()
		}
		tokens--
		e.write(ctx, n)
	}
}

func (e *Events) take() (note, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return note{}, false
	}
	n := e.queue[0]
	e.queue = e.queue[1:]
	return n, true
}

func (e *Events) write(ctx context.Context, n note) {
	err := e.post(ctx, n)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		e.mu.Lock()
		e.dropped++
		if s := e.said[n.sentence]; s != nil {
			s.next = time.Now().Add(eventRetry)
		}
		e.mu.Unlock()
	}
	if e.Report != nil {
		e.Report(err)
	}
}

func (e *Events) post(ctx context.Context, n note) error {
	namespace := n.about.Namespace
	if namespace == "" {
		namespace = "default" // as for all objects without a namespace
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata":           map[string]string{"generateName": eventName(n.about.Name), "namespace": namespace},
		"involvedObject":     n.about,
		"reason":             n.reason,
		"message":            clip(n.message, 1024),
		"type":               n.kind,
		"count":              n.count,
		"firstTimestamp":     n.first.UTC().Format(time.RFC3339),
		"lastTimestamp":      n.last.UTC().Format(time.RFC3339),
		"source":             map[string]string{"component": e.Component, "host": e.Instance},
		"reportingComponent": e.Component,
		"reportingInstance":  e.Instance,
		"action":             n.reason,
	})
	if err != nil {
		return err
	}
	client, err := e.Client()
	if err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	_, err = client.Create(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/events", body)
	return err
}

// eventName leaves room for what the server appends to a generated name.
func eventName(object string) string { return clip(object, 200) + "." }

// clip shortens s to at most n bytes, at a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
