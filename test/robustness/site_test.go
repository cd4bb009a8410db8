package robustness

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// versions are the released etcds that scripts/peers builds.
var versions = []string{"3.5", "3.6", "3.7"}

// peer returns the binary of a released etcd. Without it the test skips on a
// laptop and fails in CI, where nothing may go untested.
func peer(t *testing.T, version string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "holdfast", "peers", "etcd-"+version)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no etcd %s: %v; run scripts/peers", version, err)
		}
		t.Skipf("no etcd %s: %v; run scripts/peers", version, err)
	}
	return path
}

// site is one of the two places: an etcd member on an address of its own of
// the loopback network. Clients are at their site and reach its port directly; the other
// site comes in through peers and clients, which can be cut.
type site struct {
	name, binary   string
	ip             string
	data, output   string
	extra          []string
	peers, clients *link
	etcd           *process
	aside          []string // data directories of its former members, oldest first
}

func (s *site) clientURL() string { return "http://" + net.JoinHostPort(s.ip, "2379") }
func (s *site) peerURL() string   { return "http://" + s.peers.address }

// networks gives each run a /24 of 127.0.0.0/8, so that runs side by side, and other test
// binaries, use the same ports without meeting.
var networks atomic.Uint32

func network(t *testing.T) (a, b string) {
	t.Helper()
	base := 127<<24 | (64+uint32(os.Getpid())%128)<<16 | (networks.Add(1)%256)<<8
	at := func(host uint32) string {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], base+host)
		return net.IP(ip[:]).String()
	}
	return at(1), at(2)
}

// pair makes two sites and starts their cluster of two, with etcd's default timers.
func pair(t *testing.T, dir, version string, extra ...string) (a, b *site) {
	t.Helper()
	a, b = sites(t, dir, version, extra...)
	for _, s := range []*site{a, b} {
		s.start(t, "--initial-cluster", initialCluster(a, b))
	}
	for _, s := range []*site{a, b} {
		s.await(t, 30*time.Second)
	}
	return a, b
}

func sites(t *testing.T, dir, version string, extra ...string) (a, b *site) {
	t.Helper()
	aIP, bIP := network(t)
	make := func(name, ip string) *site {
		return &site{
			name: name, ip: ip, binary: peer(t, version), extra: extra,
			data: filepath.Join(dir, name), output: filepath.Join(dir, name+".log"),
			peers:   newLink(t, ip+":3380", ip+":2380"),
			clients: newLink(t, ip+":3379", ip+":2379"),
		}
	}
	return make("a", aIP), make("b", bIP)
}

func initialCluster(a, b *site) string {
	return fmt.Sprintf("%s=%s,%s=%s", a.name, a.peerURL(), b.name, b.peerURL())
}

// args is how its etcd is told to run.
func (s *site) args(more ...string) []string {
	return append([]string{
		"--name", s.name, "--data-dir", s.data,
		"--listen-client-urls", s.clientURL(), "--advertise-client-urls", "http://" + s.clients.address,
		"--listen-peer-urls", "http://" + s.peers.target, "--initial-advertise-peer-urls", s.peerURL(),
		"--log-level", "warn",
	}, append(s.extra, more...)...)
}

func (s *site) start(t *testing.T, args ...string) {
	t.Helper()
	s.etcd = spawn(t, s.output, s.binary, s.args(args...)...)
}

// dial returns a client of this member alone, at its site.
func (s *site) dial(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.clientURL()}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
		MaxUnaryRetries: 1, // 0 would be the default of 100
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// await waits until the member answers a linearizable read, which leaves the history as it is.
func (s *site) await(t *testing.T, within time.Duration) { t.Helper(); s.reaches(t, 0, within) }

// reaches waits until a linearizable read through the member shows the revision,
// and returns what it showed.
func (s *site) reaches(t *testing.T, revision int64, within time.Duration) int64 {
	t.Helper()
	c := s.dial(t)
	defer func() { _ = c.Close() }()
	var now int64
	var err error
	if !comes(within, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var got *clientv3.GetResponse
		if got, err = c.Get(ctx, "none"); err == nil {
			now = got.Header.Revision
		}
		return err == nil && now >= revision
	}) {
		t.Fatalf("%s is at revision %d after %s, want %d: %v; %s", s.name, now, within, revision, err, s.state())
	}
	return now
}

// state says how its etcd does, for a message.
func (s *site) state() string {
	if s.etcd == nil {
		return "an agent runs it"
	}
	return s.etcd.state() + "; its log is " + s.output
}

// advances waits until so many more revisions were written.
func (s *site) advances(t *testing.T, revisions int64) {
	t.Helper()
	s.reaches(t, s.reaches(t, 0, 10*time.Second)+revisions, 60*time.Second)
}

// comes asks until what is so, and says whether it came to be.
func comes(within time.Duration, what func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(within)
	for !what() {
		select {
		case <-tick.C:
		case <-late:
			return false
		}
	}
	return true
}

// leads asks the member whether it leads.
func (s *site) leads(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got, err := s.dial(t).Status(ctx, s.clientURL())
	if err != nil {
		t.Fatal(err)
	}
	return got.Leader == got.Header.MemberId
}

// setAside renames the directory of a member that the cluster no longer has.
func (s *site) setAside(t *testing.T) {
	t.Helper()
	to := fmt.Sprintf("%s-aside-%d", s.data, len(s.aside)+1)
	if err := os.Rename(s.data, to); err != nil {
		t.Fatal(err)
	}
	s.aside = append(s.aside, to)
}

// rejoin adds s to the cluster of survivor, as a learner first, with an empty directory.
func (s *site) rejoin(t *testing.T, survivor *site) {
	t.Helper()
	s.setAside(t)
	c := survivor.dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	added, err := c.MemberAddAsLearner(ctx, []string{s.peerURL()})
	if err != nil {
		t.Fatalf("add %s: %v", s.name, err)
	}
	s.start(t, "--initial-cluster", initialCluster(survivor, s), "--initial-cluster-state", "existing")
	if !comes(30*time.Second, func() bool {
		_, err = c.MemberPromote(ctx, added.Member.ID)
		return err == nil || errors.Is(ctx.Err(), context.DeadlineExceeded)
	}) || err != nil {
		t.Fatalf("promote %s: %v; its log is %s", s.name, err, s.output)
	}
	s.await(t, 20*time.Second)
}

// cut pulls the cable between the sites; heal plugs it in again.
func cut(sites ...*site) {
	for _, s := range sites {
		s.peers.cut()
		s.clients.cut()
	}
}

func heal(sites ...*site) {
	for _, s := range sites {
		s.peers.heal()
		s.clients.heal()
	}
}

// reset ends the connections between the sites.
func reset(sites ...*site) {
	for _, s := range sites {
		s.peers.reset()
		s.clients.reset()
	}
}

// in is a random number of [from, to).
func in(r *rand.Rand, from, to int) int { return from + r.IntN(to-from) }
