package slices

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
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
	if _, err := d.dial(t.Context(), "tcp", own); !errors.Is(err, errOwnUnready) {
		t.Errorf("dialled nevertheless: %v", err)
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
