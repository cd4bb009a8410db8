package health

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// noSpace is the reason that etcd gives while its database is full.
const noSpace = "ALARM NOSPACE"

// etcd asks a member's /health, which says whether its raft has a leader and
// whether a linearizable read works (server/etcdserver/api/etcdhttp/health.go,
// the same in 3.5, 3.6 and 3.7):
//
//   - {"health":"true"}: Ready.
//   - RAFT NO LEADER, RANGE ERROR…: NotReady.
//   - ALARM CORRUPT: NotReady.
//   - ALARM NOSPACE hides all of the above, so the question is put again
//     without it. A full database is full on every member and still serves
//     reads and deletes, with which people mend it: Ready, with a reason.
//
// A read that finds no quorum takes etcd 7 s to give up, so a member that has
// just lost its leader is graded Frozen until it knows.
//
// A learner says true and serves no client but for serializable reads;
// /readyz/non_learner knows (from 3.5.11; 404 before).
type etcd struct {
	host          string
	authenticated bool
}

func (q *etcd) shows() bool { return q.authenticated }

func (q *etcd) ask(ctx context.Context, w *wire) Result {
	a := w.ask(ctx, request(q.host, "/health", ""))
	took := a.took
	alarm := ""
	if a.err == nil && reasonOfEtcd(a.body) == noSpace {
		alarm = "alarm NOSPACE: serves reads and deletes only; compact, defragment and disarm"
		a = w.ask(ctx, request(q.host, "/health?exclude=NOSPACE", ""))
	}
	if r := q.grade(ctx, a); r.Grade != Ready {
		r.RTT = took
		return r
	}
	a = w.ask(ctx, request(q.host, "/readyz/non_learner", ""))
	switch {
	case a.err != nil:
		return gradeError(ctx, a.err, true, q.authenticated)
	case a.code == http.StatusServiceUnavailable:
		return Result{Grade: NotReady, Reason: "is a learner", RTT: took}
	}
	return Result{Grade: Ready, Reason: alarm, RTT: took}
}

func (q *etcd) grade(ctx context.Context, a answer) Result {
	switch {
	case a.err != nil:
		return gradeError(ctx, a.err, true, q.authenticated)
	case a.code == http.StatusUnauthorized, a.code == http.StatusForbidden:
		return Result{Grade: Alive, Reason: fmt.Sprintf("answers, but not to us (%d)", a.code), CredentialsRefused: q.authenticated}
	case a.code == http.StatusOK && healthOfEtcd(a.body).Health == "true":
		return Result{Grade: Ready}
	}
	why := reasonOfEtcd(a.body)
	switch why {
	case "":
		why = fmt.Sprintf("answers %d", a.code)
	case "RAFT NO LEADER":
		why = "no leader"
	}
	return Result{Grade: NotReady, Reason: line(why)}
}

type etcdHealth struct {
	Health string `json:"health"`
	Reason string `json:"reason"`
}

// healthOfEtcd reads an answer; nonsense is the zero value.
func healthOfEtcd(body []byte) etcdHealth {
	var h etcdHealth
	if json.Unmarshal(body, &h) != nil {
		return etcdHealth{}
	}
	return h
}

func reasonOfEtcd(body []byte) string { return healthOfEtcd(body).Reason }
