package kubeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// StatusError is an answer other than success.
type StatusError struct {
	// Op is what was asked: "get /api/v1/nodes".
	Op string
	// Code is the HTTP status, or that of an error inside a watch.
	Code int
	// Reason is the API's word for it, e.g. "Expired"; may be empty.
	Reason string
	// Message is the API's sentence in one line, shortened; may be empty.
	Message string
	// RetryAfter is how long the server asks to be left alone; 0 when it does not.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.Op, e.Code, http.StatusText(e.Code))
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Code returns the status of a *StatusError in err's chain, 0 without one.
func Code(err error) int {
	if se, ok := errors.AsType[*StatusError](err); ok {
		return se.Code
	}
	return 0
}

// status is the Status kind of the API, as far as it matters here.
type status struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
	Details struct {
		RetryAfterSeconds int `json:"retryAfterSeconds"`
		Causes            []struct {
			Reason string `json:"reason"`
		} `json:"causes"`
	} `json:"details"`
}

func (s *status) err(op string) *StatusError {
	e := &StatusError{Op: op, Code: s.Code, Reason: s.Reason, Message: oneLine(s.Message)}
	e.RetryAfter = seconds(s.Details.RetryAfterSeconds)
	for _, cause := range s.Details.Causes {
		if cause.Reason == reasonTooLarge {
			e.Reason = reasonTooLarge
		}
	}
	return e
}

// reasonTooLarge stands in the causes of a 504 by a server whose cache has not
// reached the resourceVersion asked for (apimachinery, meta/v1 types.go).
const reasonTooLarge = "ResourceVersionTooLarge"

// statusError reads what a refusal says. The body of an answer that is no
// Status, of a proxy say, is not repeated.
func statusError(op string, answer *http.Response) *StatusError {
	data, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	var s status
	if json.Unmarshal(data, &s) != nil || s.Kind != "Status" {
		s = status{}
	}
	e := s.err(op)
	e.Code = answer.StatusCode
	if n, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = seconds(n)
	}
	return e
}

// seconds bounds what a server may ask for: a minute is a lifetime here.
func seconds(n int) time.Duration {
	return time.Duration(min(max(n, 0), 60)) * time.Second
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}
