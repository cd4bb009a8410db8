package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

var errUnknown = errors.New("not known yet")

// Conditions is a set of named facts that must all be good. It is safe for
// concurrent use; an empty set is good.
type Conditions struct {
	mu     sync.Mutex
	reason map[string]error // nil: good
}

// Require returns a set of the named conditions, each "not known yet".
func Require(names ...string) *Conditions {
	c := &Conditions{reason: make(map[string]error, len(names))}
	for _, name := range names {
		c.reason[name] = errUnknown
	}
	return c
}

// Set reports a condition good (nil) or why it is not, adding it when it is
// new. It tells whether the condition changed between good and bad.
func (c *Conditions) Set(name string, reason error) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason == nil {
		c.reason = map[string]error{}
	}
	was, known := c.reason[name]
	c.reason[name] = reason
	return !known || (was == nil) != (reason == nil)
}

// Err returns nil when all conditions are good, else the reasons, by name.
func (c *Conditions) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []error
	for _, name := range slices.Sorted(maps.Keys(c.reason)) {
		if reason := c.reason[name]; reason != nil {
			all = append(all, fmt.Errorf("%s: %w", name, reason))
		}
	}
	return errors.Join(all...)
}

// ServeHTTP answers 200 when all conditions are good and 503 otherwise, with
// one line per condition: "name: ok" or "name: reason".
func (c *Conditions) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	code, lines := c.lines()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprint(w, lines)
}

func (c *Conditions) lines() (code int, lines string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.reason) == 0 {
		return http.StatusOK, "ok\n"
	}
	code = http.StatusOK
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.reason)) {
		text := "ok"
		if reason := c.reason[name]; reason != nil {
			code = http.StatusServiceUnavailable
			text = strings.Join(strings.Fields(reason.Error()), " ") // one line, whatever it holds
		}
		fmt.Fprintf(&b, "%s: %s\n", name, text)
	}
	return code, b.String()
}
