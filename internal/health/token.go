package health

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

const (
	// tokenEvery limits how often the file is looked at, and maxToken what is
	// read of it: tokens of service accounts have about 1 kB.
	tokenEvery = time.Second
	maxToken   = 64 << 10
)

// token is a bearer token from a file that rotates. The last good one stays in
// force while the file cannot be used.
type token struct {
	path string

	mu      sync.Mutex
	text    string
	stamp   os.FileInfo
	checked time.Time
	problem error
}

func openToken(path string) (*token, error) {
	t := &token{path: path}
	t.look()
	return t, t.problem
}

// value returns the token, for a header; never print it.
func (t *token) value() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.checked) >= tokenEvery {
		t.look()
	}
	return t.text
}

func (t *token) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look()
	return t.problem
}

// look reads the file if it is not the one last read. The caller holds mu.
func (t *token) look() {
	t.checked = time.Now()
	stamp, err := os.Stat(t.path)
	if err == nil && t.problem == nil && t.stamp != nil && os.SameFile(stamp, t.stamp) &&
		stamp.Size() == t.stamp.Size() && stamp.ModTime().Equal(t.stamp.ModTime()) {
		return
	}
	text, err := readToken(t.path)
	if t.problem = err; err == nil {
		t.text, t.stamp = text, stamp
	}
}

func readToken(path string) (string, error) {
	data, err := file.Read(path, maxToken)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("token %s: %w; check the path", path, fs.ErrNotExist)
	case errors.Is(err, file.ErrTooLarge):
		return "", fmt.Errorf("token %s: over %d bytes; give a file that holds a token alone", path, maxToken)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("token %s: %w; run as a user that may read it", path, fs.ErrPermission)
	case err != nil:
		return "", fmt.Errorf("token: %w", err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("token %s: is empty or has blanks or control characters inside; give a file that holds a token alone", path)
	}
	return text, nil
}
