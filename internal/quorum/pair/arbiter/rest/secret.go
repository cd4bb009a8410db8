package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// mostSecret is far above any token: those of service accounts have 1 kB.
const mostSecret = 16 << 10

// Secret is the one line of a file, read whenever it is needed. One that cannot be read
// any more leaves the last good one in force. It is safe for concurrent use.
type Secret struct {
	field, path string

	mu   sync.Mutex
	good string
}

// NewSecret reads the file that the setting field names.
func NewSecret(field, path string) (*Secret, error) {
	s := &Secret{field: field, path: path}
	_, err := s.Line()
	return s, err
}

// Line is what the file holds now.
func (s *Secret) Line() (string, error) {
	data, err := file.Read(s.path, mostSecret)
	line := strings.TrimRight(string(data), "\r\n")
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", s.field, err)
	case line == "" || strings.ContainsAny(line, "\r\n\x00"):
		err = fmt.Errorf("%s: %s does not hold one line; write the secret in it, and nothing else", s.field, s.path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.good = line
	}
	if s.good != "" {
		return s.good, nil
	}
	return "", err
}

// Bearer sends the secret as a bearer token (RFC 6750).
func Bearer(s *Secret) func(*http.Request, []byte) error {
	return func(r *http.Request, _ []byte) error {
		token, err := s.Line()
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return err
	}
}

// Basic sends a name and the secret (RFC 7617).
func Basic(name string, s *Secret) (func(*http.Request, []byte) error, error) {
	if strings.Contains(name, ":") {
		return nil, errors.New("username: a colon cannot be sent; choose a name without")
	}
	return func(r *http.Request, _ []byte) error {
		password, err := s.Line()
		if err == nil {
			r.SetBasicAuth(name, password)
		}
		return err
	}, nil
}
