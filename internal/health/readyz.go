package health

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// readyz asks a kube-apiserver's /readyz, or what answers like it.
type readyz struct {
	host, path    string
	token         *token // nil: none
	authenticated bool   // by certificate or token
}

func (q *readyz) shows() bool { return q.authenticated }

// bearer returns the token in force; empty: none.
func (q *readyz) bearer() string {
	if q.token == nil {
		return ""
	}
	return q.token.value()
}

func (q *readyz) ask(ctx context.Context, w *wire) Result {
	authorization := ""
	if token := q.bearer(); token != "" {
		authorization = "Bearer " + token
	}
	a := w.ask(ctx, request(q.host, q.path, authorization))
	if a.err != nil {
		return gradeError(ctx, a.err, true, q.authenticated)
	}
	r := q.grade(a)
	r.RTT = a.took
	return r
}

func (q *readyz) grade(a answer) Result {
	switch a.code {
	case http.StatusOK:
		return Result{Grade: Ready}
	case http.StatusUnauthorized, http.StatusForbidden:
		if q.authenticated {
			return Result{Grade: Alive, CredentialsRefused: true, Reason: fmt.Sprintf("credentials refused (%d)", a.code)}
		}
		return Result{Grade: Alive, Reason: fmt.Sprintf("answers, but says to nobody whether it is ready (%d)", a.code)}
	}
	failing := failingChecks(a.body)
	if slices.Equal(failing, []string{"shutdown"}) {
		return Result{Grade: ShuttingDown, Reason: "says that it shuts down"}
	}
	return Result{Grade: NotReady, Reason: reasonOf(a.code, failing)}
}

func reasonOf(code int, failing []string) string {
	const most = 6
	switch n := len(failing); {
	case n == 0:
		return fmt.Sprintf("answers %d", code)
	case n > most:
		return line(fmt.Sprintf("answers %d, failing: %s and %d more", code, strings.Join(failing[:most], ", "), n-most))
	default:
		return line(fmt.Sprintf("answers %d, failing: %s", code, strings.Join(failing, ", ")))
	}
}

// failingChecks returns the names of the checks that a verbose health answer
// marks as failing, "[-]NAME failed: …", each once, in their order
// (k8s.io/apiserver/pkg/server/healthz and etcd's etcdhttp write alike).
func failingChecks(body []byte) []string {
	var names []string
	for l := range bytes.Lines(body) {
		rest, ok := bytes.CutPrefix(bytes.TrimSpace(l), []byte("[-]"))
		if !ok {
			continue
		}
		name, _, _ := bytes.Cut(rest, []byte(" "))
		if s := line(string(name)); s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return names
}

// page asks a path in plain text.
type page struct {
	host, path string
	codes      []int // empty: 200
}

func (q *page) ask(ctx context.Context, w *wire) Result {
	a := w.ask(ctx, request(q.host, q.path, ""))
	if a.err != nil {
		return gradeError(ctx, a.err, true, false)
	}
	r := Result{Grade: NotReady, Reason: reasonOf(a.code, nil), RTT: a.took}
	if slices.Contains(q.codes, a.code) || len(q.codes) == 0 && a.code == http.StatusOK {
		r.Grade, r.Reason = Ready, ""
	}
	return r
}
