package slices

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/health"
)

func TestProblemsAreSaidOnce(t *testing.T) {
	var log bytes.Buffer
	var events []string
	p := newProblems(slog.New(slog.NewTextHandler(&log, nil)), func(_, reason, _ string) { events = append(events, reason) })
	said := func(want int) {
		t.Helper()
		if got := strings.Count(log.String(), "\n"); got != want {
			t.Errorf("%d lines, want %d:\n%s", got, want, log.String())
		}
	}
	p.set("clock-skew", "cp2", "it differs by 7s")
	p.set("clock-skew", "cp2", "it differs by 8s")
	said(1)
	p.set("clock-skew", "cp2", "it is another matter")
	said(1)
	p.set("strange-slice", "x", "one")
	p.set("strange-slice", "x", "two")
	said(3)
	p.set("strange-slice", "x", "")
	said(4)
	p.replace([]string{"zone-missing"}, []plan.Problem{{Code: "zone-missing", Object: "cp1", Text: "no zone"}})
	p.replace([]string{"zone-missing"}, []plan.Problem{{Code: "zone-missing", Object: "cp1", Text: "no zone"}})
	said(5)
	p.replace([]string{"zone-missing"}, nil)
	said(6)
	p.set("clock-skew", "cp3", "")
	said(6)
	if all := p.all(); len(all) != 1 || all[0].Object != "cp2" || all[0].Text != "it is another matter" {
		t.Errorf("left: %+v", all)
	}
	if got := strings.Join(events, " "); got != "ClockSkew StrangeSlice StrangeSlice ZoneMissing" {
		t.Errorf("events %s", got)
	}
}

func TestDeniedNamesVerbResourceAndRemedy(t *testing.T) {
	const discovery, coordination = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	for _, c := range []struct{ op, want string }{
		{"get " + discovery, "may not list or watch endpointslices in namespace default: grant it what `holdfast slices manifest rbac` prints"},
		{"watch " + discovery, "may not watch endpointslices in namespace default"},
		{"put " + discovery + "/kubernetes-cp1", "may not update endpointslices in namespace default"},
		{"post " + coordination, "may not create leases in namespace kube-system"},
		{"patch " + coordination + "/x", "may not patch leases in namespace kube-system"},
		{"get /api/v1/nodes", "may not list or watch nodes in the cluster"},
		{"get /api/v1/nodes/cp1", "may not get nodes in the cluster"},
		{"get /readyz", "may not get"},
		{"get ", "may not get"},
	} {
		err := fmt.Errorf("around: %w", &kubeapi.StatusError{Op: c.op, Code: 403})
		if _, text := denied(err); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.op, text)
		}
	}
	for _, err := range []error{errors.New("x"), &kubeapi.StatusError{Op: "get /x", Code: 404}, nil} {
		if _, text := denied(err); text != "" {
			t.Errorf("%v: %s", err, text)
		}
	}
}

// While the own apiserver is unready nothing is asked of it, and what may lead
// to it has ended.
func TestDialerLeavesAnUnreadyApiserver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	own := l.Addr().String()
	d := newDialer(own)
	conn, err := d.dial(t.Context(), "tcp", own)
	if err != nil {
		t.Fatal(err)
	}
	d.set(true)
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read of an old connection: %v", err)
	}
	d.also([]string{"192.0.2.1:6443"})
	for _, address := range []string{own, "192.0.2.1:6443"} {
		if _, err := d.dial(t.Context(), "tcp", address); !errors.Is(err, errOwnUnready) {
			t.Errorf("dialled nevertheless: %v", err)
		}
	}
	d.set(false)
	conn, err = d.dial(t.Context(), "tcp", own)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if len(d.local) != 0 {
		t.Errorf("%d connections are kept in mind", len(d.local))
	}
}

// A connection that is made at the moment in which the own apiserver turns unready
// may lead to it, and is not among those that end then.
func TestDialerRefusesWhatIsMadeMeanwhile(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, own := range []string{l.Addr().String(), "127.0.0.1:6443"} { // directly, and through a balancer
		d := newDialer(own)
		d.net.Control = func(string, string, syscall.RawConn) error { d.set(true); return nil }
		if conn, err := d.dial(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, errOwnUnready) {
			t.Errorf("got %v, %v", conn, err)
		}
		if own == l.Addr().String() {
			continue
		}
		conn, err := d.dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatalf("the balancer is not asked: %v", err)
		}
		_ = conn.Close()
	}
}

// What stands is made an Event again and again: one that could not be written when
// it began, for the API was away, is not lost. Events keeps it to one in 5 minutes.
func TestStandingProblemsAreRecordedAgain(t *testing.T) {
	var events []string
	p := newProblems(slog.New(slog.DiscardHandler), func(_, reason, message string) { events = append(events, reason+" "+message) })
	p.set(codeWrite, "x", "one")
	p.set(codeWrite, "x", "two") // volatile: the sentence that was said stays
	p.set(plan.ZoneMissing, "cp1", "no zone")
	p.set(codeSkew, "cp2", "7s")
	p.set(codeSkew, "cp2", "")
	events = nil
	p.recordAgain()
	slices.Sort(events)
	if got := strings.Join(events, ", "); got != "WriteFailed one, ZoneMissing no zone" {
		t.Errorf("recorded %s", got)
	}
}

// Drills read these lines; they are told by their messages, and problems by code.
func TestLinesThatDrillsRead(t *testing.T) {
	r := newRig(t)
	var log bytes.Buffer
	r.log = slog.New(slog.NewJSONHandler(&log, nil))
	r.problems = newProblems(r.log, nil)
	r.health = plan.Unknown
	r.judge(health.Verdict{Grade: health.Ready})
	r.problems.set(codeApiserver, "cp1", "the apiserver of node cp1 is frozen: no answer in 1s")
	r.problems.set(codeApiserver, "cp1", "")
	r.tell(&plan.Write{Op: plan.UpdateSlice, Slice: plan.Slice{Name: "kubernetes-cp1"}, Why: "unready"})
	for _, want := range []string{
		`"msg":"own apiserver is ready"}`,
		`"msg":"the apiserver of node cp1 is frozen: no answer in 1s","problem":"apiserver-unready","object":"cp1"}`,
		`"msg":"well again","problem":"apiserver-unready","object":"cp1"}`,
		`"msg":"wrote","object":"slice kubernetes-cp1","why":"unready"}`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no line ends in %s:\n%s", want, log.String())
		}
	}
}
