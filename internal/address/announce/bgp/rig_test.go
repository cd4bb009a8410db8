package bgp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// rig is a segment with FRR on station 1 and speakers on the others.
type rig struct {
	t       *testing.T
	segment *segment.Segment
	router  *space.Spawner
	console frr.Console
	log     *buffer
	daemons map[string]*exec.Cmd
}

func newRig(t *testing.T, stations int) *rig {
	t.Helper()
	if os.Geteuid() != 0 || frr.Preflight() != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root, after scripts/setup")
		}
		t.Skip("needs root and FRR; see scripts/setup")
	}
	g, err := segment.New(stations)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	r := &rig{t: t, segment: g, log: &buffer{}, daemons: map[string]*exec.Cmd{}}
	if r.router, err = space.NewSpawner(g.Station(1).Space); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.router.Close)
	r.console = frr.Console{Dir: t.TempDir()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

// frr starts zebra, bfdd and bgpd with a configuration of the latter.
func (r *rig) frr(bgpd string) {
	r.t.Helper()
	r.daemon("zebra", "")
	r.daemon("bfdd", "bfd\n profile fast\n  detect-multiplier 3\n  receive-interval 100\n  transmit-interval 100\n")
	r.daemon("bgpd", bgpd)
}

func (r *rig) daemon(name, text string) {
	r.t.Helper()
	cmd, err := frr.Command(r.console.Dir, name, text)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := r.router.Start(cmd); err != nil {
		r.t.Fatal(err)
	}
	r.daemons[name] = cmd
	r.t.Cleanup(func() { r.stop(name) })
	r.until(name+" answers", 20*time.Second, func() error {
		_, err := r.vtysh(name, "show version")
		return err
	})
}

func (r *rig) stop(name string) {
	if cmd := r.daemons[name]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		delete(r.daemons, name)
	}
}

func (r *rig) vtysh(daemon string, commands ...string) (string, error) {
	return r.console.Ask(r.t.Context(), daemon, commands...)
}

func (r *rig) tell(daemon string, commands ...string) {
	r.t.Helper()
	if err := r.console.Tell(r.t.Context(), daemon, commands...); err != nil {
		r.t.Fatalf("%v: %v", commands, err)
	}
}

// until waits for f.
func (r *rig) until(what string, within time.Duration, f func() error) {
	r.t.Helper()
	r.measure(what, 20*time.Millisecond, within, f)
}

// measure waits for f, asked every so often, and returns how long that took.
func (r *rig) measure(what string, every, within time.Duration, f func() error) time.Duration {
	r.t.Helper()
	start := time.Now()
	for ; ; <-time.After(every) {
		err := f()
		took := time.Since(start)
		if err == nil {
			return took
		}
		if took > within {
			r.t.Fatalf("not within %v: %s: %v", within, what, err)
		}
	}
}

// hops are the next hops of an address in the router's kernel.
func (r *rig) hops(address string) []string {
	n, err := netlink.ParseIPNet(address)
	if err != nil {
		r.t.Fatal(err)
	}
	family := netlink.FAMILY_V4
	if n.IP.To4() == nil {
		family = netlink.FAMILY_V6
	}
	list, err := r.segment.Station(1).Netlink.RouteListFiltered(family, &netlink.Route{Dst: n}, netlink.RT_FILTER_DST)
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, route := range list {
		if route.Gw != nil {
			all = append(all, route.Gw.String())
		}
		for _, h := range route.MultiPath {
			all = append(all, h.Gw.String())
		}
	}
	return all
}

// counted waits until an address has as many next hops.
func (r *rig) counted(address string, n int, within time.Duration) time.Duration {
	r.t.Helper()
	return r.measure(fmt.Sprintf("%s has %d next hops", address, n), time.Millisecond, within, func() error {
		if got := r.hops(address); len(got) != n {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// seen is a path that the router has been told of.
type seen struct {
	Metric *int `json:"metric"`
	LocPrf *int `json:"locPrf"`
	AsPath struct {
		String string `json:"string"`
	} `json:"aspath"`
	Community struct {
		String string `json:"string"`
	} `json:"community"`
	LargeCommunity struct {
		String string `json:"string"`
	} `json:"largeCommunity"`
	Nexthops []struct {
		IP string `json:"ip"`
	} `json:"nexthops"`
}

// paths of an address in the router's BGP table; family is ipv4 or ipv6.
func (r *rig) paths(family, prefix string) []seen {
	r.t.Helper()
	out, err := r.vtysh("bgpd", fmt.Sprintf("show bgp %s unicast %s json", family, prefix))
	if err != nil {
		r.t.Fatal(err)
	}
	var v struct {
		Paths []seen `json:"paths"`
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return v.Paths
}

// speaker is a process on a station.
type speaker struct {
	rig   *rig
	cmd   *exec.Cmd
	in    io.WriteCloser
	log   *buffer
	ended chan error
}

// speak starts a speaker with settings in YAML.
func (r *rig) speak(station int, settings string) *speaker {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "bgp.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		r.t.Fatal(err)
	}
	spawner, err := space.NewSpawner(r.segment.Station(station).Space)
	if err != nil {
		r.t.Fatal(err)
	}
	s := &speaker{rig: r, log: &buffer{}, ended: make(chan error, 1)}
	s.cmd = exec.Command(os.Args[0], "-test.run=^$")
	s.cmd.Env = append(os.Environ(), childVariable+"="+file)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	if err := spawner.Start(s.cmd); err != nil {
		r.t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	r.t.Cleanup(func() {
		s.kill()
		spawner.Close()
		if r.t.Failed() {
			r.t.Logf("station %d:\n%s", station, s.log)
		}
	})
	return s
}

func (s *speaker) tell(line string) {
	s.rig.t.Helper()
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		s.rig.t.Fatal(err)
	}
}

func (s *speaker) signal(n syscall.Signal) { _ = s.cmd.Process.Signal(n) }

// memory is what the process takes.
func (s *speaker) memory() string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.rig.t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "RssAnon") {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(all, ", ")
}

// kill ends the process at once.
func (s *speaker) kill() {
	s.signal(syscall.SIGKILL)
	s.wait(10 * time.Second)
}

func (s *speaker) wait(d time.Duration) bool {
	select {
	case err := <-s.ended:
		s.ended <- err
		return true
	case <-time.After(d):
		return false
	}
}

// says waits until the log has a line with all the words.
func (s *speaker) says(within time.Duration, words ...string) {
	s.rig.t.Helper()
	s.rig.until(fmt.Sprintf("the log says %q", words), within, func() error {
		if s.count(words...) == 0 {
			return fmt.Errorf("it says:\n%s", s.log)
		}
		return nil
	})
}

// count is how many lines of the log have all the words.
func (s *speaker) count(words ...string) int {
	n := 0
line:
	for line := range strings.Lines(s.log.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue line
			}
		}
		n++
	}
	return n
}

// buffer collects what processes say.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
