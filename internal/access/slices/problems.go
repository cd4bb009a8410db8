package slices

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	stdslices "slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// Codes of problems beyond those of package plan.
const (
	codeAPI         = "api-unreachable"
	codeDenied      = "rbac-denied"
	codeApiserver   = "apiserver-unready"
	codeUnknown     = "apiserver-unknown"
	codeNodeGone    = "node-missing"
	codeAddress     = "address-missing"
	codeIdentity    = "identity-missing"
	codeService     = "service-missing"
	codeFamily      = "family-missing"
	codeSkew        = "clock-skew"
	codeDatapath    = "datapath-unknown"
	codeWrite       = "write-failed"
	codeAlone       = "no-other-way"
	codeLease       = "lease-late"
	codeCredentials = "credentials"
	codeIgnored     = "zone-ignored"
)

// problems are what a person has to mend at the moment. Each is logged and made
// an Event when it begins or changes, and logged when it ends. It is safe for
// concurrent use.
type problems struct {
	log    *slog.Logger
	record func(kind, reason, message string) // an Event; may be nil

	mu   sync.Mutex
	now  map[problemKey]string
	said map[problemKey]string    // the sentence of the Event
	last map[problemKey]time.Time // when it was stated last
}

type problemKey struct{ code, object string }

func newProblems(log *slog.Logger, record func(kind, reason, message string)) *problems {
	return &problems{log: log, record: record, now: map[problemKey]string{}, said: map[problemKey]string{}, last: map[problemKey]time.Time{}}
}

// set states a problem; an empty text says that there is none.
func (p *problems) set(code, object, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(problemKey{code, object}, text)
}

// change is set; p.mu is held.
func (p *problems) change(key problemKey, text string) {
	old, was := p.now[key]
	if text != "" {
		p.last[key] = time.Now()
	}
	switch {
	case text == "" && was:
		delete(p.now, key)
		delete(p.said, key)
		delete(p.last, key)
		p.log.Info("well again", keyProblem, key.code, keyObject, key.object)
	case text != "" && old != text:
		p.now[key] = text
		if was && stdslices.Contains(volatile, key.code) {
			return // the reason changed, the state did not
		}
		p.said[key] = text
		p.log.Warn(text, keyProblem, key.code, keyObject, key.object)
		if p.record != nil {
			p.record(kubeapi.Warning, camel(key.code), text)
		}
	}
}

// recordAgain makes an Event of each problem that stands, in the words in which it
// was stated.
func (p *problems) recordAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, text := range p.said {
		if p.record == nil {
			return
		}
		p.record(kubeapi.Warning, camel(key.code), text)
	}
}

// volatile problems change their text while they last: status has the newest.
var volatile = []string{codeAPI, codeApiserver, codeUnknown, codeSkew, codeDatapath, codeWrite, codeLease, codeIgnored}

// expire ends problems of a code that nobody has stated for so long.
func (p *problems) expire(code string, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, at := range p.last {
		if key.code == code && time.Since(at) > after {
			p.change(key, "")
		}
	}
}

// has says that there is such a problem now.
func (p *problems) has(code, object string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, is := p.now[problemKey{code, object}]
	return is
}

// replace states all problems of some codes at once: what is not among them has
// ended.
func (p *problems) replace(codes []string, all []plan.Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := map[problemKey]string{}
	for _, each := range all {
		now[problemKey{each.Code, each.Object}] = each.Text
	}
	for key := range p.now {
		if _, still := now[key]; !still && stdslices.Contains(codes, key.code) {
			p.change(key, "")
		}
	}
	for key, text := range now {
		p.change(key, text)
	}
}

// all are the problems, in a stable order.
func (p *problems) all() []plan.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []plan.Problem
	for key, text := range maps.All(p.now) {
		out = append(out, plan.Problem{Code: key.code, Object: key.object, Text: text})
	}
	stdslices.SortFunc(out, func(a, b plan.Problem) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Object, b.Object))
	})
	return out
}

// planned are the codes that plan.Problems gives.
var planned = []string{
	plan.ZoneMissing, plan.NodeTwice, plan.NameTaken, plan.StrangeSlice, plan.ReconcilerActive, plan.AddressUncovered,
	plan.LastReady, plan.NodesUnzoned, plan.HintsFull, plan.ZonesUnknown, plan.PortsDiffer,
}

// camel turns "zone-missing" into "ZoneMissing", as reasons of Events are written.
func camel(code string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(code, "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// denied is what to say of a request that the API did not allow, and what it was
// about; empty for any other error.
func denied(err error) (right, text string) {
	refusal, ok := errors.AsType[*kubeapi.StatusError](err)
	if !ok || refusal.Code != http.StatusForbidden {
		return "", ""
	}
	verb, resource, where := rightOf(refusal.Op)
	return verb + " " + resource, "this agent may not " + verb + " " + resource + " " + where + ": grant it what `holdfast slices manifest rbac` prints"
}

// rightOf reads which right a request needs from its method and path, such as
// "get /apis/discovery.k8s.io/v1/namespaces/default/endpointslices".
func rightOf(op string) (verb, resource, where string) {
	method, path, _ := strings.Cut(op, " ")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2 // api/v1
	if parts[0] == "apis" {
		skip = 3
	}
	parts = parts[min(skip, len(parts)):]
	where = "in the cluster"
	if len(parts) > 2 && parts[0] == "namespaces" {
		where, parts = "in namespace "+parts[1], parts[2:]
	}
	if len(parts) == 0 {
		return method, path, where
	}
	named := len(parts) > 1
	switch {
	case method == "get" && !named:
		verb = "list or watch"
	case method == "post":
		verb = "create"
	case method == "put":
		verb = "update"
	default:
		verb = method
	}
	return verb, parts[0], where
}
