package kubeapi

import (
	"cmp"
	"errors"
	"net/http"
	"time"
)

const (
	minWait = 200 * time.Millisecond
	maxWait = 5 * time.Second
	// deniedWait follows a 403: only a person can mend it.
	deniedWait = 30 * time.Second
	// briefWatch is a watch too short to have been worth its request. One
	// that ends this early without an event counts as a failure, so that a
	// server which closes at once is not asked in a tight loop.
	briefWatch = time.Second
	// watchTries is how often in a row a watch may fail without an event
	// before a list is tried instead, e.g. because one event is too large.
	watchTries = 5
	// pageSize is how many objects are asked for at once where an answer may be
	// bounded, as client-go asks.
	pageSize = 500
	// maxItems bounds a list of many pages: Kubernetes itself is made for
	// 150,000 pods and fewer of anything else.
	maxItems = 250_000
)

// cursor decides what Follow asks next: a list, or a watch from where the
// last answer ended. It has no clock and no socket.
type cursor struct {
	// version is the resourceVersion of the last answer or event.
	version string
	// listed says that version belongs to a complete list.
	listed bool
	// exact asks for the newest list from etcd instead of any from the
	// server's cache that is not older than version: set after the server
	// could not serve version.
	exact bool
	// limit is the size of a page; 0 while one page may hold everything, for
	// which servers up to 1.33 need their etcd no more than their cache does.
	limit    int
	failures int
}

// query returns the parameters of the next list, or of its first page. The first
// list may be as old as the server's cache, which also answers without etcd; but
// from there it comes in one piece, whatever limit is asked for.
func (c *cursor) query() (version, match string, limit int) {
	switch {
	case c.exact, c.version == "" && c.limit > 0:
		return "", "", cmp.Or(c.limit, pageSize)
	case c.version == "":
		return "0", "", 0
	}
	return c.version, "NotOlderThan", c.limit
}

// tooLarge asks for smaller pages after an answer to query was too large, and
// says whether there are any.
func (c *cursor) tooLarge() (smaller bool) {
	_, _, was := c.query()
	c.limit = pageSize
	if was > 0 {
		c.limit = max(1, was/4)
	}
	return was != 1
}

// gotList notes a complete list.
func (c *cursor) gotList(version string) {
	c.version, c.listed, c.exact, c.failures = version, true, false, 0
}

// gotEvent notes an event or bookmark of the watch.
func (c *cursor) gotEvent(version string) {
	if version != "" {
		c.version = version
	}
	c.failures = 0
}

// listFailed returns how long to wait before the next attempt, without jitter.
func (c *cursor) listFailed(err error) time.Duration {
	if expired(err) {
		c.exact = true
	} else if c.exact && c.failures > 3 {
		// Nobody has the newest list: etcd may be without quorum. An older
		// one is better than none, and nothing is removed because of it
		// that the watch would not correct.
		c.exact, c.version = false, ""
	}
	return c.wait(err)
}

// watchEnded returns how long to wait before the next attempt. err is nil when
// the server ended the watch in order; events counts what came before.
func (c *cursor) watchEnded(err error, lasted time.Duration, events int) time.Duration {
	switch {
	case expired(err):
		c.listed, c.exact = false, true
		return c.wait(err)
	case Code(err) != 0:
		c.listed = false
		return c.wait(err)
	case err == nil && (events > 0 || lasted >= briefWatch):
		return 0
	case c.failures >= watchTries:
		c.listed = false
	}
	// The connection broke: the next server may continue from the same version.
	return c.wait(err)
}

func (c *cursor) wait(err error) time.Duration {
	c.failures++
	if Code(err) == http.StatusForbidden {
		return deniedWait
	}
	wait := minWait
	for n := 1; n < c.failures && wait < maxWait; n++ {
		wait *= 2
	}
	wait = min(wait, maxWait)
	if se, ok := errors.AsType[*StatusError](err); ok {
		wait = max(wait, se.RetryAfter)
	}
	return wait
}

// expired says that the server cannot serve the version asked for: it is too
// old, or the server (one restored from a backup) has not come so far.
func expired(err error) bool {
	se, ok := errors.AsType[*StatusError](err)
	return ok && (se.Code == http.StatusGone || se.Reason == "Expired" || se.Reason == reasonTooLarge)
}
