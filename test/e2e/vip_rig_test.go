package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	stdslices "slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/address/vip"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// held is the address that the machines of a wire hold in turn.
var held = netip.MustParseAddr("192.0.2.100")

const echoPort = 7

// wire is one Ethernet segment: machines that may hold the address, and a client
// as the last station.
type wire struct {
	t        *testing.T
	segment  *segment.Segment
	machines int
	dir      string
	// addresses that are held.
	addresses []netip.Addr
	spawners  []*space.Spawner
	running   map[int]*machine
	ran       []*machine
	client    *vipClient
}

// machine is a program on a station: one of ours, or keepalived.
type machine struct {
	name string
	cmd  *exec.Cmd
	log  *buffer
	done chan struct{}
}

func newWire(t *testing.T, machines int) *wire {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this suite must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(machines + 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, segment: g, machines: machines, dir: t.TempDir(), addresses: []netip.Addr{held}, running: map[int]*machine{}}
	t.Cleanup(func() {
		for i := range w.running {
			w.kill(i, syscall.SIGKILL)
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
		w.echo(i)
	}
	w.client = w.newClient()
	return w
}

// echo answers datagrams to any address of a station with the station's number.
func (w *wire) echo(i int) {
	var conn net.PacketConn
	err := w.segment.Station(i).Do(func() (err error) {
		conn, err = net.ListenPacket("udp4", fmt.Sprintf("0.0.0.0:%d", echoPort))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	p := ipv4.NewPacketConn(conn)
	if err := p.SetControlMessage(ipv4.FlagDst, true); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, 64)
		for {
			n, cm, from, err := p.ReadFrom(b)
			if err != nil {
				if errors.Is(err, net.ErrClosed) {
					return
				}
				continue
			}
			_, _ = p.WriteTo(append(b[:n:n], byte(i)), &ipv4.ControlMessage{Src: cm.Dst}, from)
		}
	}()
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
	m := &machine{name: fmt.Sprintf("%s on station %d", filepath.Base(name), i), cmd: exec.Command(name, args...), log: &buffer{}, done: make(chan struct{})}
	m.cmd.Env = append(os.Environ(), env...)
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	if err := w.spawners[i-1].Start(m.cmd); err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = m.cmd.Wait(); close(m.done) }()
	w.running[i] = m
	w.ran = append(w.ran, m)
}

// keepalived runs the peer on a station.
func (w *wire) keepalived(i, priority int, options string) {
	w.t.Helper()
	conf := filepath.Join(w.dir, fmt.Sprintf("keepalived-%d.conf", i))
	text := fmt.Sprintf(`
global_defs {
  vrrp_version 3
}
vrrp_instance api {
  state BACKUP
  interface %s
  virtual_router_id 51
  priority %d
  advert_int 0.1
  %s
  virtual_ipaddress {
    %s/32
  }
}
`, segment.Interface, priority, options, held)
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
	m := w.running[i]
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.done:
	case <-time.After(5 * time.Second):
		w.t.Fatalf("machine %d does not end:\n%s", i, m.log)
	}
	delete(w.running, i)
}

// status asks the agent of a station.
func (w *wire) status(i int) (vip.GroupStatus, error) {
	var s vip.Status
	cmd := exec.Command("/proc/self/exe", "vip", "status", "--json", "--agent", fmt.Sprintf("%s:9389", w.segment.Station(i).Four))
	cmd.Env = append(os.Environ(), asAgent+"=1")
	var out strings.Builder
	cmd.Stdout = &out
	if err := w.spawners[i-1].Start(cmd); err != nil {
		return vip.GroupStatus{}, err
	}
	_ = cmd.Wait() // exit code 1 says that there is a fault
	if err := json.Unmarshal([]byte(out.String()), &s); err != nil {
		return vip.GroupStatus{}, err
	}
	return s.Groups[0], nil
}

// on says whether the address is on the interface of a station.
func (w *wire) on(i int) bool {
	s := w.segment.Station(i)
	eth, err := s.Netlink.LinkByName(segment.Interface)
	if err != nil {
		return false
	}
	all, err := s.Netlink.AddrList(eth, unix.AF_INET)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range all {
		if a.IP.Equal(held.AsSlice()) {
			return true
		}
	}
	return false
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
	return w.client.last() == i && w.client.neighbor() == w.segment.Station(i).MAC.String()
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
		i = w.client.last()
		alone := i != 0 && i != dead && w.on(i)
		for k := 1; k <= w.machines; k++ {
			alone = alone && (k == i || k == dead || !w.on(k))
		}
		return alone && w.client.neighbor() == w.segment.Station(i).MAC.String()
	})
	return i
}

// awaitOne waits until some machine holds the address alone, and returns it.
func (w *wire) awaitOne() (i int) {
	w.t.Helper()
	w.await("one machine holds the address", 10*time.Second, func() bool {
		i = w.client.last()
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

// answer is one that the client got.
type answer struct {
	at time.Time
	by int
}

// question is one that the client asked.
type question struct {
	at time.Time
	by int // who answered; 0: nobody yet
}

// vipClient asks the address for an echo once a millisecond, and everybody on the
// segment by ARP who has it, every 5 ms.
type vipClient struct {
	w       *wire
	station *segment.Station
	latest  atomic.Int64

	mu      sync.Mutex
	asked   []question // by number
	replies []answer   // to ARP, by the machine's MAC
}

func (w *wire) newClient() *vipClient {
	c := &vipClient{w: w, station: w.segment.Station(w.machines + 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	w.t.Cleanup(func() { cancel(); all.Wait() })
	var conn net.PacketConn
	var ears int
	err := c.station.Do(func() (err error) {
		if conn, err = net.ListenPacket("udp4", ":0"); err != nil {
			return err
		}
		ears, err = arpSocket()
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	file := os.NewFile(uintptr(ears), "arp")
	context.AfterFunc(ctx, func() { _ = conn.Close(); _ = file.Close() })
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(held, echoPort))
	all.Go(func() { every(ctx, time.Millisecond, func() { _, _ = conn.WriteTo(c.number(), to) }) })
	all.Go(func() { c.hearEchoes(conn) })
	ask := announce.ARP{To: announce.Broadcast, From: announce.MAC(c.station.MAC), Op: announce.Request,
		SenderMAC: announce.MAC(c.station.MAC), Sender: c.station.Four, Target: held}.Append(nil)
	all.Go(func() { every(ctx, 5*time.Millisecond, func() { _, _ = file.Write(ask) }) })
	all.Go(func() { c.hearReplies(file) })
	return c
}

func arpSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0x0608)
	if err != nil {
		return 0, err
	}
	iface, err := net.InterfaceByName(segment.Interface)
	if err != nil {
		return 0, err
	}
	return fd, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0608, Ifindex: iface.Index})
}

func every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// number is the next question.
func (c *vipClient) number() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, question{at: time.Now()})
	return binary.BigEndian.AppendUint32(nil, uint32(len(c.asked)-1))
}

func (c *vipClient) hearEchoes(conn net.PacketConn) {
	b := make([]byte, 64)
	for {
		n, _, err := conn.ReadFrom(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil || n != 5:
			continue // an ICMP error of nobody there
		}
		by := int(b[4])
		c.latest.Store(int64(by))
		c.mu.Lock()
		c.asked[binary.BigEndian.Uint32(b)].by = by
		c.mu.Unlock()
	}
}

func (c *vipClient) hearReplies(file *os.File) {
	b := make([]byte, 256)
	for {
		n, err := file.Read(b)
		if err != nil {
			return
		}
		a, err := announce.ParseARP(b[:n])
		// Gratuitous ones go to all: those are announcements, not answers.
		if err != nil || a.Op != announce.Reply || a.Sender != held || a.Target != c.station.Four {
			continue
		}
		c.mu.Lock()
		c.replies = append(c.replies, answer{time.Now(), int(a.SenderMAC[5])})
		c.mu.Unlock()
	}
}

func (c *vipClient) last() int { return int(c.latest.Load()) }

// neighbor is what the client's kernel believes of the address.
func (c *vipClient) neighbor() string {
	eth, err := c.station.Netlink.LinkByName(segment.Interface)
	if err != nil {
		return err.Error()
	}
	all, err := c.station.Netlink.NeighList(eth.Attrs().Index, unix.AF_INET)
	if err != nil {
		return err.Error()
	}
	for _, n := range all {
		if n.IP.Equal(held.AsSlice()) {
			return n.HardwareAddr.String()
		}
	}
	return ""
}

// seen is what the client met with since a moment.
type seen struct {
	// gap is the longest time in which every question stayed without an answer,
	// counted from question to question: on a busy machine a client that does
	// not come to ask, or an answer that is late, is no gap. lost counts them all.
	gap  time.Duration
	lost int
	// both is for how long two machines answered ARP.
	both time.Duration
	// by are the machines that answered, in order of their first answer.
	by []int
}

// tail is how old a question must be to count as lost.
const tail = 50 * time.Millisecond

// since judges what was seen from a moment on.
func (c *vipClient) since(t time.Time) seen {
	<-time.After(tail)
	c.mu.Lock()
	defer c.mu.Unlock()
	var s seen
	var first time.Time // of a row of lost ones
	end := time.Now().Add(-tail)
	for _, q := range c.asked {
		switch {
		case q.at.Before(t) || q.at.After(end):
			continue
		case q.by == 0:
			s.lost++
			if first.IsZero() {
				first = q.at
			}
			s.gap = max(s.gap, q.at.Sub(first)+time.Millisecond)
			continue
		case !first.IsZero():
			s.gap = max(s.gap, q.at.Sub(first))
			first = time.Time{}
		}
		if !stdslices.Contains(s.by, q.by) {
			s.by = append(s.by, q.by)
		}
	}
	s.both = overlap(c.replies, t)
	return s
}

// spell is a time in which a machine answered without a break.
type spell struct{ begin, end time.Time }

// overlap is the longest time in which two machines both answered.
func overlap(all []answer, since time.Time) (longest time.Duration) {
	spells := map[int][]spell{}
	for _, a := range all {
		own := spells[a.by]
		if n := len(own); n > 0 && a.at.Sub(own[n-1].end) < 60*time.Millisecond {
			own[n-1].end = a.at
			continue
		}
		spells[a.by] = append(own, spell{a.at, a.at})
	}
	for i, own := range spells {
		for k, others := range spells {
			for _, x := range own {
				for _, y := range others {
					if i >= k || x.end.Before(since) || y.end.Before(since) {
						continue
					}
					begin, end := x.begin, x.end
					if y.begin.After(begin) {
						begin = y.begin
					}
					if y.end.Before(end) {
						end = y.end
					}
					longest = max(longest, end.Sub(begin))
				}
			}
		}
	}
	return longest
}
