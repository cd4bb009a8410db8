package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/address/vip"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
	"github.com/holdfast-ha/holdfast/test/caller"
)

// held is the address that the machines of a wire hold in turn.
var held = netip.MustParseAddr("192.0.2.100")

// wire is one Ethernet segment: machines that may hold the address, then a client
// and an observer as the last stations.
type wire struct {
	t        *testing.T
	segment  *segment.Segment
	machines int
	dir      string
	// addresses that are held.
	addresses []netip.Addr
	// pool is that of Services, unless it is "".
	pool     string
	spawners []*space.Spawner
	running  map[int]*machine
	zebra    map[int]*machine // of FRR
	ran      []*machine
	client   *caller.Caller
	// virtual says that whoever holds an address has its virtual MAC.
	virtual bool
}

// machine is a program on a station: one of ours, or keepalived.
type machine struct {
	name string
	cmd  *exec.Cmd
	log  *buffer
	done chan struct{}
}

// newWire has a client as its last station.
func newWire(t *testing.T, machines int) *wire {
	t.Helper()
	w := stations(t, machines)
	var err error
	if w.client, err = caller.New(w.segment.Station(machines+1), w.segment.Station(machines+2), held); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	return w
}

// stations are machines that answer, and one more.
func stations(t *testing.T, machines int) *wire {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this suite must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(machines + 2)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, segment: g, machines: machines, dir: t.TempDir(), addresses: []netip.Addr{held}, running: map[int]*machine{}, zebra: map[int]*machine{}}
	t.Cleanup(func() {
		for i := range w.running {
			w.kill(i, syscall.SIGKILL)
		}
		for _, m := range w.zebra {
			_ = syscall.Kill(-m.cmd.Process.Pid, syscall.SIGKILL)
			<-m.done
		}
		for _, s := range w.spawners {
			s.Close()
		}
		_ = g.Close()
	})
	for i := 1; i <= machines; i++ {
		s, err := space.NewSpawner(g.Station(i).Space)
		if err != nil {
			t.Fatal(err)
		}
		w.spawners = append(w.spawners, s)
		answering, err := caller.Answer(g.Station(i), byte(i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answering.Close() })
	}
	return w
}

// settings of one machine; extra are lines below its group.
func (w *wire) settings(i int, router, extra string) string {
	path := filepath.Join(w.dir, fmt.Sprintf("vip-%d.yaml", i))
	text := fmt.Sprintf(`
groups:
  - name: api
    addresses: %s
    interface: %s
    vrrp: {vrid: 51, %s}
%s
control: %s
telemetry: {listen: %s:9389}
`, list(w.addresses), segment.Interface, router, extra, w.socket(i), w.segment.Station(i).Four)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// list is addresses as YAML.
func list(all []netip.Addr) string {
	var words []string
	for _, a := range all {
		words = append(words, fmt.Sprintf("%q", a))
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func (w *wire) socket(i int) string { return filepath.Join(w.dir, fmt.Sprintf("vip-%d.sock", i)) }

// router is what the machines of most tests have; the lower the number, the
// better.
func router(i int) string { return fmt.Sprintf("priority: %d, interval: 100ms", 210-10*i) }

// start runs our agent on a station.
func (w *wire) start(i int, router, extra string) {
	w.t.Helper()
	w.launch(i, []string{asAgent + "=1"}, "/proc/self/exe", "vip", "run", "--config", w.settings(i, router, extra))
}

func (w *wire) launch(i int, env []string, name string, args ...string) {
	w.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	w.running[i] = w.begin(i, filepath.Base(name), cmd)
}

// keepalived runs the peer on a station.
func (w *wire) keepalived(i, priority int, options string) {
	w.t.Helper()
	w.keepalivedOf(i, 51, priority, options, held)
}

// keepalivedOf runs it for another virtual router than ours.
func (w *wire) keepalivedOf(i, vrid, priority int, options string, address netip.Addr) {
	w.t.Helper()
	conf := filepath.Join(w.dir, fmt.Sprintf("keepalived-%d.conf", i))
	text := fmt.Sprintf(`
global_defs {
  vrrp_version 3
}
vrrp_instance api {
  state BACKUP
  interface %s
  virtual_router_id %d
  priority %d
  advert_int 0.1
  %s
  virtual_ipaddress {
    %s/32
  }
}
`, segment.Interface, vrid, priority, options, address)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(w.dir, fmt.Sprintf("keepalived-%d.%s", i, name)) }
	w.launch(i, nil, "keepalived", "--dont-fork", "--log-console", "--vrrp", "--use-file", conf, "--pid", at("pid"), "--vrrp_pid", at("vrrp"))
}

func needKeepalived(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("keepalived"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("this suite must not be skipped in CI: scripts/setup installs keepalived")
		}
		t.Skip("needs keepalived; see scripts/setup")
	}
}

// kill sends a signal to the whole group of processes, and waits for its end if it
// is to end.
func (w *wire) kill(i int, sig syscall.Signal) {
	m := w.running[i]
	_ = syscall.Kill(-m.cmd.Process.Pid, sig)
	if sig == syscall.SIGKILL {
		<-m.done
		delete(w.running, i)
	}
}

// stop ends an agent politely.
func (w *wire) stop(i int) {
	w.t.Helper()
	_ = w.running[i].cmd.Process.Signal(syscall.SIGTERM)
	w.ended(i)
}

// ended waits for the end of an agent.
func (w *wire) ended(i int) {
	w.t.Helper()
	m := w.running[i]
	select {
	case <-m.done:
	case <-time.After(5 * time.Second):
		w.t.Fatalf("machine %d does not end:\n%s", i, m.log)
	}
	delete(w.running, i)
}

// status asks the agent of a station about its first group.
func (w *wire) status(i int) (vip.GroupStatus, error) {
	s, err := w.statusOf(i)
	if err != nil {
		return vip.GroupStatus{}, err
	}
	return s.Groups[0], nil
}

func (w *wire) statusOf(i int) (s vip.Status, err error) {
	cmd := exec.Command("/proc/self/exe", "vip", "status", "--json", "--agent", fmt.Sprintf("%s:9389", w.segment.Station(i).Four))
	cmd.Env = append(os.Environ(), asAgent+"=1")
	var out strings.Builder
	cmd.Stdout = &out
	if err := w.spawners[i-1].Start(cmd); err != nil {
		return s, err
	}
	_ = cmd.Wait() // exit code 1 says that there is a fault
	err = json.Unmarshal([]byte(out.String()), &s)
	return s, err
}

// on says whether the address is on a station.
func (w *wire) on(i int) bool { return w.has(i, held) }

func (w *wire) has(i int, address netip.Addr) bool {
	all, err := w.segment.Station(i).Netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range all {
		if a.IP.Equal(address.AsSlice()) {
			return true
		}
	}
	return false
}

// mac is what clients have to believe of an address while a machine holds it.
func (w *wire) mac(i int, address netip.Addr) string {
	switch {
	case !w.virtual:
		return w.segment.Station(i).MAC.String()
	case address.Is4():
		return virtual4
	}
	return virtual6
}

// logs are what all machines said, also those that are dead.
func (w *wire) logs() {
	for _, m := range w.ran {
		w.t.Logf("%s:\n%s", m.name, m.log)
	}
}

func (w *wire) await(what string, within time.Duration, f func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(within)
	for !f() {
		if time.Now().After(deadline) {
			w.logs()
			w.t.Fatalf("not within %s: %s", within, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// holds says that the client is answered by one machine, and no other has the
// address.
func (w *wire) holds(i int) bool {
	for k := 1; k <= w.machines; k++ {
		if w.on(k) != (k == i) {
			return false
		}
	}
	return w.client.Last() == i && w.client.Neighbor(held) == w.mac(i, held)
}

func (w *wire) awaitHolder(i int) {
	w.t.Helper()
	w.await(fmt.Sprintf("machine %d holds the address alone", i), 10*time.Second, func() bool { return w.holds(i) })
}

// awaitAnother waits until another machine than the one whose agent is dead
// answers alone; the address may still be on that one, mute. Two that waited for
// the same silence may both have taken over for a moment.
func (w *wire) awaitAnother(dead int) (i int) {
	w.t.Helper()
	w.await("another machine answers alone", 10*time.Second, func() bool {
		i = w.client.Last()
		alone := i != 0 && i != dead && w.on(i)
		for k := 1; k <= w.machines; k++ {
			alone = alone && (k == i || k == dead || !w.on(k))
		}
		return alone && w.client.Neighbor(held) == w.mac(i, held)
	})
	return i
}

// awaitOne waits until some machine holds the address alone, and returns it.
func (w *wire) awaitOne() (i int) {
	w.t.Helper()
	w.await("one machine holds the address", 10*time.Second, func() bool {
		i = w.client.Last()
		return i != 0 && w.holds(i)
	})
	return i
}

// release asks the agent of a station to hand over.
func (w *wire) release(i int) error {
	cmd := exec.Command("/proc/self/exe", "vip", "release", "api", "--control", w.socket(i))
	cmd.Env = append(os.Environ(), asAgent+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
