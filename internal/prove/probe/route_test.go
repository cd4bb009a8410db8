package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/hops"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// turn is a sample of a route.
func turn(seq int, via ...string) Sample {
	at := epoch.Add(time.Duration(seq) * DefaultInterval)
	s := Sample{Path: "r/route/new", Seq: uint64(seq), Scheduled: at, Sent: at, Done: at.Add(time.Millisecond), OK: len(via) > 0, Hops: via}
	if via == nil {
		s.Hops, s.Class, s.Error = []string{}, ClassUnreachable, "no route"
	}
	return s
}

func routeBoard() *Board {
	return NewBoard([]Path{{Name: "r/route/new", URL: &url.URL{Scheme: "route", Host: "203.0.113.10"}, Kind: KindRoute, Mode: ModeNew, Slow: time.Second}}, 3)
}

// TestRouteRenderings is S1's hard power-off, and a route that is lost.
func TestRouteRenderings(t *testing.T) {
	board := routeBoard()
	var out bytes.Buffer
	view := &lines{&out}
	unknown := turn(6)
	unknown.Hops, unknown.Class, unknown.Error = nil, ClassOther, "no buffer space"
	for _, s := range []Sample{
		turn(0, "10.0.0.1", "10.0.0.2", "10.0.0.3"), turn(1, "10.0.0.1", "10.0.0.2", "10.0.0.3"),
		turn(2, "10.0.0.1", "10.0.0.3"), turn(3, "10.0.0.1", "10.0.0.3"), turn(4, "10.0.0.1", "10.0.0.4"),
		turn(5), unknown, turn(7), turn(8, "10.0.0.1", "10.0.0.2", "10.0.0.3"), turn(9, "10.0.0.1", "10.0.0.2", "10.0.0.3"),
	} {
		view.show(board.Add(s), s)
	}
	out.WriteString("\n")
	for _, once := range []bool{false, true} {
		if err := writeTable(&out, board, once); err != nil {
			t.Fatal(err)
		}
		out.WriteString("\n")
	}
	if err := writeDocument(&out, board); err != nil {
		t.Fatal(err)
	}
	out.WriteString("\n" + strings.Join(board.render(time.Second, 0, 100, 24), "\n") + "\n")
	golden(t, "route.txt", out.String())
}

func TestRouteSummaryIsBounded(t *testing.T) {
	tally := NewTally("r", 0, 0)
	for i := range 5 * maxGaps {
		tally.Add(turn(i, "10.0.0.1", fmt.Sprintf("10.0.0.%d", 2+i%2)))
	}
	s := tally.Summary()
	if len(s.Hops) != maxGaps || s.HopChanges != 5*maxGaps-1 || s.FewestHops != 2 {
		t.Errorf("%d kept of %d changes, fewest %d", len(s.Hops), s.HopChanges, s.FewestHops)
	}
	if text := s.turns(); len(text) > 1000 || !strings.Contains(text, "… 4979 changes …") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestNoRouteIsUnreachable(t *testing.T) {
	if got := Classify(fmt.Errorf("look: %w", hops.ErrNoRoute)); got != ClassUnreachable {
		t.Errorf("class %q", got)
	}
	if got := Classify(errors.New("else")); got != ClassOther {
		t.Errorf("class %q", got)
	}
}

// router is a network namespace in which `ip` and the program run.
type routerSpace struct {
	t       *testing.T
	space   *space.Space
	spawner *space.Spawner
}

func newRouterSpace(t *testing.T) *routerSpace {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	s, err := space.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	by, err := space.NewSpawner(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(by.Close)
	return &routerSpace{t, s, by}
}

func (r *routerSpace) ip(args string) {
	r.t.Helper()
	err := r.space.Do(func() error {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestRouteWatched is the program on a router whose kernel gets other routes.
func TestRouteWatched(t *testing.T) {
	r := newRouterSpace(t)
	for _, args := range []string{
		"link set lo up", "link add eth0 type veth peer name far0", "link set eth0 up", "link set far0 up",
		"addr add 192.0.2.1/24 dev eth0",
		"route add 203.0.113.10 nexthop via 192.0.2.11 nexthop via 192.0.2.12 nexthop via 192.0.2.13",
	} {
		r.ip(args)
	}
	cmd := exec.Command(os.Args[0], "probe", "route://203.0.113.10", "--interval", "5ms", "--json")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	var document bytes.Buffer
	cmd.Stdout = &document
	changes, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.spawner.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	in := bufio.NewScanner(changes)
	for _, step := range []struct{ ip, says string }{
		{"", "next hops 3 (192.0.2.11, 192.0.2.12, 192.0.2.13)"},
		{"route replace 203.0.113.10 nexthop via 192.0.2.11 nexthop via 192.0.2.13", "next hops 3 → 2 (192.0.2.11, 192.0.2.13)"},
		{"route replace 203.0.113.10 via 192.0.2.11", "next hops 2 → 1 (192.0.2.11)"},
		{"route del 203.0.113.10", "next hops 1 → 0"},
		{"route add 203.0.113.10 nexthop via 192.0.2.11 nexthop via 192.0.2.12", "next hops 0 → 2 (192.0.2.11, 192.0.2.12)"},
	} {
		if step.ip != "" {
			r.ip(step.ip)
		}
		if !in.Scan() {
			t.Fatalf("no line about %q", step.says)
		}
		if line := in.Text(); !strings.HasSuffix(line, "route://203.0.113.10/route/new "+step.says) {
			t.Errorf("line %q, want … %s", line, step.says)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var d Document
	if err := json.Unmarshal(document.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, h := range d.Paths[0].Route.Hops {
		counts = append(counts, h.Count)
	}
	if !slices.Equal(counts, []int{3, 2, 1, 0, 2}) || d.Paths[0].Route.Fewest != 0 || d.Paths[0].Route.Changes != 4 || d.Paths[0].Outages != 1 {
		t.Errorf("document says %+v of %+v", d.Paths[0].Route, d.Paths[0])
	}
	if d.Paths[1].Route != nil {
		t.Error("a path that is no route has next hops")
	}
}

// TestRouteSamples: what a program reads of them.
func TestRouteSamples(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, s := range []Sample{turn(0, "10.0.0.1"), turn(1), series("p", "o")[0]} {
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{`"hops":["10.0.0.1"]`, `"hops":[]`, ``} {
		line, err := b.ReadString('\n')
		if err != nil || !strings.Contains(line, want) || want == "" && strings.Contains(line, "hops") {
			t.Errorf("line %d is %s, want %s", i, line, want)
		}
	}
}
