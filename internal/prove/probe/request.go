package probe

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Request is what a sample of an HTTP path sends. The zero value is a GET.
type Request struct {
	// Method is GET unless given.
	Method string `yaml:"method,omitempty"`
	// ContentType of Body; application/json unless given.
	ContentType string `yaml:"contentType,omitempty"`
	// Body may hold [NowMark], which becomes the time of the attempt.
	Body string `yaml:"body,omitempty"`
	// Turns is how many objects the attempts of a path change in turns: the path
	// of the URL gains "-0" to "-N" in the end. With one object, attempts that
	// overlap would wait for each other at a server that compares and swaps.
	Turns int `yaml:"turns,omitempty"`
}

// maxTurns is more than can be in flight at once.
const maxTurns = maxInFlight

// NowMark stands in a body for the time of the attempt in UTC, in RFC 3339 with
// microseconds: what a kubelet writes as the renewTime of its Lease.
const NowMark = "{{now}}"

const nowForm = "2006-01-02T15:04:05.000000Z07:00"

// methodForm is a token of RFC 9110 section 5.6.2 as methods in use are.
var methodForm = regexp.MustCompile(`^[A-Z]{1,20}$`)

// complete fills defaults in; the error names field, value and remedy.
func (r *Request) complete(k Kind) (Request, error) {
	if r == nil {
		return Request{Method: http.MethodGet}, nil
	}
	if k != KindHTTP {
		return Request{}, fmt.Errorf("request: kind %q sends none; remove it, or use an https or http url", k)
	}
	out := Request{
		Method: or(r.Method, http.MethodGet), ContentType: or(r.ContentType, "application/json"), Body: r.Body, Turns: r.Turns,
	}
	if r.Turns < 0 || r.Turns > maxTurns {
		return Request{}, fmt.Errorf("request.turns: %d is out of range; write 0 to %d", r.Turns, maxTurns)
	}
	if !methodForm.MatchString(out.Method) {
		return Request{}, fmt.Errorf("request.method: %q is no method; write one such as GET, PUT or PATCH", r.Method)
	}
	return out, nil
}

// url is what the attempt of a number asks for.
func (r Request) url(u *url.URL, attempt uint64) string {
	if r.Turns == 0 {
		return u.String()
	}
	turn := *u
	turn.Path += fmt.Sprintf("-%d", attempt%uint64(r.Turns))
	return turn.String()
}

// body is what is sent at the given time, nil for nothing.
func (r Request) body(now time.Time) io.Reader {
	if r.Body == "" {
		return nil
	}
	return strings.NewReader(strings.ReplaceAll(r.Body, NowMark, now.UTC().Format(nowForm)))
}
