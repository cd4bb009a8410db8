package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// leastToken keeps out what can be guessed: 16 characters of base64 are 96 bits.
const leastToken = 16

// tokens are those that may come, one a line of a file that is read for each
// request. A file that cannot be used leaves the last good ones in force.
type tokens struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	good    [][sha256.Size]byte
	problem string
}

func openTokens(path string, log *slog.Logger) (*tokens, error) {
	good, err := readTokens(path)
	if err != nil {
		return nil, err
	}
	return &tokens{path: path, log: log, good: good}, nil
}

func readTokens(path string) ([][sha256.Size]byte, error) {
	b, err := file.Read(path, 64<<10)
	if err != nil {
		return nil, fmt.Errorf("token-file: %w", err)
	}
	var all [][sha256.Size]byte
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case len(line) < leastToken:
			return nil, fmt.Errorf("token-file: %s has a token of %d characters; write at least %d, such as from: openssl rand -hex 32", path, len(line), leastToken)
		default:
			all = append(all, sha256.Sum256([]byte(line)))
		}
	}
	if len(all) == 0 {
		return nil, errors.New("token-file: " + path + " has no token; write one a line, such as from: openssl rand -hex 32")
	}
	return all, nil
}

// allow reports whether a header Authorization carries one of the tokens.
func (t *tokens) allow(header string) bool {
	token, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	found := 0
	for _, good := range t.current() {
		found |= subtle.ConstantTimeCompare(sum[:], good[:])
	}
	return found == 1
}

func (t *tokens) current() [][sha256.Size]byte {
	good, err := readTokens(t.path)
	t.mu.Lock()
	defer t.mu.Unlock()
	problem := ""
	if err == nil {
		t.good = good
	} else {
		problem = err.Error()
	}
	if problem != t.problem {
		t.problem = problem
		if problem != "" {
			t.log.Warn("the tokens of before stay in force", "error", err)
		}
	}
	return t.good
}
