package source

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Source gives lists of backends.
type Source interface {
	// Name is unique within a Set and the same after a restart: the last
	// good list is kept under it.
	Name() string
	// Run calls publish with the whole list whenever it has one, tries again
	// for ever when it fails, and returns when ctx ends. It never calls
	// publish twice at once.
	Run(ctx context.Context, publish func([]Backend)) error
	Status() Status
}

// Status says how a source is doing.
type Status struct {
	Name string `json:"name"`
	// OK says that its last attempt succeeded.
	OK bool `json:"ok"`
	// Error is one line about why not, with the remedy where there is one.
	Error string `json:"error,omitempty"`
	// Since is when OK or Error last changed.
	Since time.Time `json:"since"`
	// Backends is the length of the list in force, without what was rejected.
	Backends int `json:"backends"`
	// Rejected counts entries left out, over the source's life; an entry
	// counts again each time the list is published.
	Rejected uint64 `json:"rejected,omitempty"`
	// Reasons tells of the latest list's rejected entries, at most five.
	Reasons []string `json:"reasons,omitempty"`
}

// maxReasons bounds Reasons: five tell what kind of nonsense it is.
const maxReasons = 5

// condition keeps the Status of a source and logs when it changes.
type condition struct {
	log *slog.Logger

	mu     sync.Mutex
	status Status
}

func newCondition(name string, log *slog.Logger) *condition {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &condition{log: log, status: Status{Name: name, Error: "has not answered yet", Since: time.Now()}}
}

func (c *condition) get() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// report notes the outcome of an attempt; nil is success.
func (c *condition) report(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if s := &c.status; s.OK != (err == nil) || s.Error != text {
		s.OK, s.Error, s.Since = err == nil, text, time.Now()
		if err != nil {
			c.log.Warn("backend source failed; its last list stays", "source", s.Name, "error", text)
		} else {
			c.log.Info("backend source works", "source", s.Name)
		}
	}
}

// rejected adds entries that the source itself left out.
func (c *condition) rejected(reasons []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Rejected += uint64(len(reasons))
	c.status.Reasons = reasons[:min(len(reasons), maxReasons)]
}
