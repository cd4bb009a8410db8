package slices

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/landing"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// crossing is a Service on the loopback with endpoints in zones a, b and c, each
// with a certificate of its own, and a datapath that sends connections in turn to
// the endpoints of the zones that it is told.
type crossing struct {
	service   netip.AddrPort
	endpoints map[string]netip.AddrPort // by zone
	to        atomic.Pointer[[]string]
	made      atomic.Int64
}

func newCrossing(t *testing.T, shared bool) *crossing {
	t.Helper()
	c := &crossing{endpoints: map[string]netip.AddrPort{}}
	one := newCertificate(t)
	for _, zone := range []string{"a", "b", "c"} {
		cert := one
		if !shared {
			cert = newCertificate(t)
		}
		c.endpoints[zone] = c.serve(t, func(conn net.Conn) {
			session := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
			_, _ = io.Copy(io.Discard, session)
		})
	}
	c.send("a")
	c.service = c.serve(t, func(conn net.Conn) {
		zones := *c.to.Load()
		back, err := net.Dial("tcp", c.endpoints[zones[int(c.made.Add(1))%len(zones)]].String())
		if err != nil {
			return
		}
		defer func() { _ = back.Close() }()
		go func() { _, _ = io.Copy(back, conn); _ = back.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(conn, back)
	})
	return c
}

// send names the zones that connections go to from now on.
func (c *crossing) send(zones ...string) { c.to.Store(&zones) }

func (c *crossing) serve(t *testing.T, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				handle(conn)
			}()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

func newCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// stands puts the crossing into the API and the world of a rig.
func (c *crossing) stands(t *testing.T, r *rig) {
	t.Helper()
	service := put(t, r.api, servicesPath+"/kubernetes", serviceAt(c.service.Addr().String(), int32(c.service.Port())))
	r.world.replaceSlices(nil)
	r.world.replaceCombined(nil)
	r.world.replaceLeases(nil)
	r.world.replaceService([]core.Service{service})
	var nodes []node
	for zone, at := range c.endpoints {
		name := map[string]string{"a": "cp1", "b": "cp2", "c": "cp3"}[zone]
		o := put(t, r.api, pathOf("kubernetes-"+name), *ourSlice(name, at.Addr().String(), zone, int32(at.Port())))
		r.world.applySlice(false, &o)
		labels := map[string]string{core.LabelTopologyZone: zone}
		put(t, r.api, nodesPath+"/"+name, core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}})
		n := node{}
		n.Metadata.Name, n.Metadata.Labels = name, labels
		nodes = append(nodes, n)
	}
	r.world.replaceNodes(nodes)
}

// newWalk is the command on cp1.
func newWalk(r *rig) (*walk, *bytes.Buffer) {
	var said bytes.Buffer
	return &walk{node: "cp1", datapath: "kube-proxy", count: 12, cluster: r.cluster, note: &said}, &said
}

func TestWalk(t *testing.T) {
	for _, c := range []struct {
		name   string
		shared bool
		to     []string
		change func(w *walk, r *rig)
		code   int
		want   string
	}{
		{"kept", false, []string{"a"}, nil, exit.Good, "12 of 12 connections stayed with the endpoints of zone a"},
		{"strays", false, []string{"a", "b", "c"}, nil, exit.Failed, "kube-proxy on this node does not honour zones: restart it"},
		{"one certificate for all", true, []string{"a"}, nil, exit.Unknown, "show the same certificate"},
		{"no such node", false, []string{"a"}, func(w *walk, _ *rig) { w.node = "cp9" }, exit.Unknown, "there is no Node named cp9: set --node to the name that kubectl get nodes shows for this machine"},
		{"no zone", false, []string{"a"}, func(w *walk, r *rig) {
			put(t, r.api, nodesPath+"/w1", core.Node{ObjectMeta: meta.ObjectMeta{Name: "w1"}})
			w.node = "w1"
		}, exit.Unknown, "node w1 has no zone: kubectl label node w1 topology.kubernetes.io/zone=NAME"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, cross := newRig(t), newCrossing(t, c.shared)
			cross.stands(t, r)
			cross.send(c.to...)
			w, _ := newWalk(r)
			if c.change != nil {
				c.change(w, r)
			}
			report, err := w.look(t.Context())
			if err == nil {
				err = report.code()
			}
			got := report.Reason
			if err != nil {
				got = err.Error()
			}
			if exit.Code(err) != c.code || !strings.Contains(got, c.want) {
				t.Errorf("code %d: %s", exit.Code(err), got)
			}
		})
	}
}

// A stray is looked for again, so that a datapath which was only late is not blamed.
func TestWalkLooksAgain(t *testing.T) {
	r, cross := newRig(t), newCrossing(t, false)
	cross.stands(t, r)
	cross.send("b")
	w, _ := newWalk(r)
	w.note = writer(func([]byte) { cross.send("a") })
	report, err := w.look(t.Context())
	if err != nil || report.Verdict != landing.Kept {
		t.Errorf("%s: %s, %v", report.Verdict, report.Reason, err)
	}
	cross.send("b")
	w.note = writer(func([]byte) { put(t, r.api, pathOf("kubernetes-cp3"), *ourSlice("cp3", "127.0.0.1", "b", 1)) })
	report, err = w.look(t.Context())
	if err != nil || report.Verdict != landing.Unclear || !strings.Contains(report.Reason, "the endpoints changed meanwhile") {
		t.Errorf("%s: %s, %v", report.Verdict, report.Reason, err)
	}
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// TestPathReport keeps what people and programs are shown.
func TestPathReport(t *testing.T) {
	r := PathReport{Version: PathVersion, Node: "w-a1", Zone: "a", Service: "10.96.0.1:443", Result: landing.Result{
		Verdict: landing.Strays, Count: 20, Strays: 12, Lost: 1, Strangers: 1, LostBy: "dial tcp 10.96.0.1:443: i/o timeout",
		Reason: "12 of 20 connections left zone a, to 10.0.0.2:6443, 10.0.0.3:6443: kube-proxy on this node does not honour zones: restart it",
		Rows: []landing.Row{
			{Address: "10.0.0.1:6443", Node: "cp-a", Zone: "a", Ready: true, Hinted: true, Certificate: "3f2a91c0", Connections: 6},
			{Address: "10.0.0.2:6443", Node: "cp-b", Zone: "b", Ready: true, Certificate: "a4405e17", Connections: 12},
			{Address: "10.0.0.3:6443", Node: "cp-c", Zone: "c", Error: "dial tcp 10.0.0.3:6443: i/o timeout"},
		},
	}}
	var out bytes.Buffer
	for _, asJSON := range []bool{false, true} {
		if err := r.show(&out, asJSON); err != nil {
			t.Fatal(err)
		}
	}
	golden := filepath.Join("testdata", "path.txt")
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("differs from %s; run with -update and look at the diff:\n%s", golden, out.String())
	}
	var back map[string]any
	if err := json.Unmarshal(out.Bytes()[bytes.IndexByte(out.Bytes(), '{'):], &back); err != nil || back["version"] != 1.0 || back["endpoints"] == nil {
		t.Errorf("%v, %v", back, err)
	}
}

func TestWalkMistakes(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--count 0", "--count 0: write a number from 1 to 500"},
		{"--count 501", "--count 501: write a number from 1 to 500"},
		{"--node Node_1", `node: "Node_1" cannot be the name of a Node`},
		{"--server 10.0.0.1:6443", `api.servers\[0\]: server "10.0.0.1:6443": not a URL`},
		{"--datapath ovn", `datapath: "ovn"; write auto`},
		{"extra", `unknown command "extra"`},
	} {
		cmd := pathCommand()
		cmd.SetArgs(strings.Fields(c.args))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage = true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !regexp.MustCompile("^"+c.want).MatchString(err.Error()) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}
