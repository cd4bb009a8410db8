package gate

import (
	"errors"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const ms = time.Millisecond

// vips are an address of each family that no station has of its own.
var vips = []netip.Addr{netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("2001:db8::100")}

func newSegment(t *testing.T, n int) *segment.Segment {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func newGate(t *testing.T, s *segment.Station) *Gate {
	t.Helper()
	return newGateOf(t, s, Config{})
}

func newGateOf(t *testing.T, s *segment.Station, c Config) *Gate {
	t.Helper()
	var g *Gate
	err := s.Do(func() (err error) {
		g, err = New(c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !f(); <-time.After(2 * ms) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

func left(t *testing.T, g *Gate, addr netip.Addr) time.Duration {
	t.Helper()
	d, err := g.Left(addr)
	must(t, err)
	return d
}

// listed is the text of the rules, without what changes from run to run.
func listed(t *testing.T, s *segment.Station) string {
	t.Helper()
	var out []byte
	err := s.Do(func() (err error) {
		out, err = exec.Command("nft", "--stateless", "list", "ruleset").CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(regexp.MustCompile(`(timeout|expires) [0-9a-z]+`).ReplaceAll(out, []byte("$1 some")))
}

func TestRules(t *testing.T) {
	for file, c := range map[string]Config{"ruleset.nft": {}, "router.nft": {Refused: vips, Virtual: vips, VirtualPrefix: "hvip"}} {
		t.Run(file, func(t *testing.T) { testRules(t, file, c) })
	}
}

func testRules(t *testing.T, file string, c Config) {
	s := newSegment(t, 1).Station(1)
	g := newGateOf(t, s, c)
	for _, vip := range vips {
		must(t, g.Guard(vip, segment.Interface))
		must(t, g.Open(vip, segment.Interface, time.Hour))
	}
	got, name := listed(t, s), filepath.Join("testdata", file)
	if *update {
		must(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	must(t, err)
	if got != string(want) {
		t.Errorf("the rules have changed; run the test with -update and read the difference\n%s", got)
	}
	// Everything may be done twice, and a second run starts from nothing.
	for _, vip := range vips {
		must(t, g.Guard(vip, segment.Interface))
	}
	if again := listed(t, s); again != got {
		t.Errorf("guarding again changed the rules:\n%s", again)
	}
	newGate(t, s)
	if d := left(t, g, vips[0]); d != 0 {
		t.Errorf("open for %v after another run has begun", d)
	}
	must(t, g.Clear())
	must(t, g.Clear())
	if rest := listed(t, s); rest != "" {
		t.Errorf("left behind:\n%s", rest)
	}
}

func TestRenewKeepsOpenAndNeverOpens(t *testing.T) {
	g := newGate(t, newSegment(t, 1).Station(1))
	four, six := vips[0], vips[1]
	if err := g.Renew(time.Second, four); !errors.Is(err, ErrShut) {
		t.Errorf("renewed what never was open: %v", err)
	}
	must(t, g.Open(four, segment.Interface, 200*ms))
	must(t, g.Open(four, segment.Interface, time.Hour))
	if d := left(t, g, four); d < 50*time.Minute {
		t.Errorf("opened again for an hour, %v left", d)
	}
	must(t, g.Renew(time.Minute, four))
	if d := left(t, g, four); d > time.Minute || d < 50*time.Second {
		t.Errorf("renewed for a minute, %v left", d)
	}
	if err := g.Renew(time.Hour, four, six); !errors.Is(err, ErrShut) {
		t.Errorf("renewed a pair of which one is shut: %v", err)
	}
	if d := left(t, g, four); d > time.Minute {
		t.Errorf("%v left: half of a refused renewal was done", d)
	}
	must(t, g.Open(six, segment.Interface, time.Minute))
	must(t, g.Renew(time.Hour, four, six))
	must(t, g.Renew(1*ms, four, six))
	eventually(t, "shut after the timeout", func() bool { return left(t, g, four) == 0 && left(t, g, six) == 0 })
	if err := g.Renew(time.Hour, four, six); !errors.Is(err, ErrShut) || left(t, g, six) != 0 {
		t.Errorf("renewed after the timeout: %v, %v left", err, left(t, g, six))
	}
	must(t, g.Open(four, segment.Interface, time.Hour))
	must(t, g.Shut(four))
	must(t, g.Shut(four, six))
	if d := left(t, g, four); d != 0 {
		t.Errorf("%v left after Shut", d)
	}
	must(t, g.Forget(four))
	must(t, g.Forget(four, six))
}

func TestDeadlineIsKept(t *testing.T) {
	g := newGate(t, newSegment(t, 1).Station(1))
	four := vips[0]
	for _, late := range []time.Duration{-time.Second, 0, permit} {
		if err := g.OpenUntil(four, segment.Interface, time.Now().Add(late)); !errors.Is(err, ErrLate) {
			t.Errorf("opened with %v left: %v", late, err)
		}
	}
	if err := g.RenewUntil(time.Now().Add(time.Hour), four); !errors.Is(err, ErrLate) {
		t.Errorf("renewed what is shut: %v", err)
	}
	deadline := time.Now().Add(time.Minute)
	must(t, g.OpenUntil(four, segment.Interface, deadline))
	if d := left(t, g, four); d > time.Until(deadline) || d < 50*time.Second {
		t.Errorf("%v left until a deadline in a minute", d)
	}
	must(t, g.RenewUntil(time.Now().Add(time.Hour), four))
	if d := left(t, g, four); d < 50*time.Minute {
		t.Errorf("renewed for an hour, %v left", d)
	}
	// Held up between reading the clock and the second transaction.
	must(t, g.transact(func() error { return g.set(permits, permit, four) }))
	err := g.until(time.Now().Add(time.Hour), []netip.Addr{four}, func(d time.Duration) error {
		<-time.After(permit + 50*ms)
		return g.extend(d, []netip.Addr{four})
	})
	if g.because(err, ErrLate) != ErrLate {
		t.Errorf("opened after the permit had run out: %v", err)
	}
}

func TestFlushedRulesAreMadeAnew(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	g := newGate(t, s)
	four := vips[0]
	var whole string
	flush := func() {
		t.Helper()
		must(t, s.Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() }))
	}
	for name, open := range map[string]func() error{
		"Open":      func() error { return g.Open(four, segment.Interface, time.Hour) },
		"OpenUntil": func() error { return g.OpenUntil(four, segment.Interface, time.Now().Add(time.Hour)) },
	} {
		must(t, open())
		if whole == "" {
			whole = listed(t, s)
		}
		flush()
		for _, err := range []error{g.Renew(time.Hour, four), g.RenewUntil(time.Now().Add(time.Hour), four)} {
			if !errors.Is(err, ErrFlushed) {
				t.Errorf("renewed without rules: %v", err)
			}
		}
		must(t, open())
		// A permit lives on for its time, unless it was traded.
		if got := listed(t, s); got != whole {
			t.Errorf("%s made other rules:\n%s", name, got)
		}
	}
	flush()
	must(t, g.Shut(four))
	if left(t, g, four) != 0 {
		t.Error("open after Shut")
	}
	flush()
	must(t, g.Guard(four, segment.Interface))
	must(t, g.Open(four, segment.Interface, time.Hour))
	if got := listed(t, s); got != whole {
		t.Errorf("Guard made other rules:\n%s", got)
	}
	must(t, g.Guard(four, "eth7")) // yet to come
	must(t, g.Open(vips[1], "eth7", time.Hour))
	if left(t, g, four) == 0 || left(t, g, vips[1]) == 0 {
		t.Error("guarding another interface shut an address")
	}
}

func TestTwoAgentsDoNotDisturbEachOther(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	first := newGate(t, s)
	must(t, first.Open(vips[0], segment.Interface, time.Hour))
	var second *Gate
	must(t, s.Do(func() (err error) {
		second, err = New(Config{Table: "holdfast_other"})
		return err
	}))
	defer func() { _ = second.Close() }()
	must(t, second.Clear())
	if left(t, first, vips[0]) == 0 {
		t.Error("another table's end shut the address")
	}
}
