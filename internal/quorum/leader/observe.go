package leader

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

const (
	// statusEvery is how often the own member is asked; a lost leader is
	// noticed a quarter of an election timeout later at worst.
	statusEvery = 250 * time.Millisecond
	// statusTimeout is long enough for a member under load and short enough
	// to be half an election timeout.
	statusTimeout = 500 * time.Millisecond
	// membersEvery is how often the membership is read.
	membersEvery = 5 * time.Second
)

// observer watches the own member, the membership, and the link to each peer.
type observer struct {
	own    *etcd.Member
	timing probeTiming
	files  creds.Files
	mesh   int // port of the other agents, 0: no mesh
	zone   string
	boot   string
	clock  func() time.Duration
	// membersEvery is the interval of reading the membership.
	membersEvery time.Duration

	nudge func() // something worth publishing or deciding on has changed
	// reborn is called when the own member is of another cluster than before.
	reborn func()
	cond   *conditions
	log    *slog.Logger

	mu           sync.Mutex
	row          Row // without links
	noSpace      bool
	leaderlessAt time.Duration
	peers        []etcd.Peer
	peersAt      time.Duration // last read
	changedAt    time.Duration // last change; 0 with everChanged false
	everChanged  bool
	watches      map[MemberID]*running
	// answeredAt is when the own member last answered, and patience how much later
	// it still counts as one that does; see slowDisk.
	answeredAt, patience time.Duration
}

// running is a watch and the agent beside the same peer.
type running struct {
	watch *watch
	mesh  *meshPeer
	stop  context.CancelFunc
}

func newBoot() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// round asks the own member, and for the membership when that is due.
func (o *observer) round(ctx context.Context) {
	o.poll(ctx)
	o.readMembers(ctx)
}

// poll reads the own member's status into the row.
func (o *observer) poll(ctx context.Context) {
	one, cancel := context.WithTimeout(ctx, statusTimeout)
	s, err := o.own.Status(one)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if err != nil && o.patient() {
		return
	}
	o.cond.set(condOwnMember, err, "etcd beside this agent does not answer; is it running, and is etcd.endpoints its client URL? the agent keeps watching")
	if err == nil {
		o.cond.set(condVersion, supported(s.Version), "upgrade etcd; moves are made all the same")
	}
	o.mu.Lock()
	before := o.row
	o.row = o.update(before, s, err)
	changed := o.row.Reachable != before.Reachable || o.row.Leader != before.Leader ||
		o.row.Term != before.Term || o.row.Learner != before.Learner || !reflect.DeepEqual(o.row.Alarms, before.Alarms)
	o.mu.Unlock()
	if changed {
		o.nudge()
	}
}

// update returns the row after one status call.
func (o *observer) update(r Row, s etcd.Status, err error) Row {
	wasReachable := r.Reachable
	r.Boot, r.Zone = o.boot, o.zone
	r.Reachable = err == nil
	if err != nil {
		return r
	}
	o.noSpace, o.answeredAt = s.NoSpace, o.clock()
	if r.Cluster != 0 && r.Cluster != s.Cluster && o.reborn != nil {
		// etcd began anew at this address. Revisions begin anew with it, and a
		// watch from an old one would wait for the new cluster to catch up.
		o.log.Warn("the own member is of another cluster now", keyCluster, strconv.FormatUint(s.Cluster, 16))
		o.peersAt = 0
		o.reborn()
	}
	if s.Leader == 0 && (r.Leader != 0 || !wasReachable) {
		o.leaderlessAt = o.clock()
	}
	r.Member, r.Cluster, r.Leader, r.Term = MemberID(s.Member), s.Cluster, MemberID(s.Leader), s.Term
	r.Applied, r.Index, r.Learner, r.Version, r.Alarms = s.Applied, s.Index, s.Learner, s.Version, s.Alarms
	return r
}

// readMembers reads the membership now and then, and starts and stops watches.
func (o *observer) readMembers(ctx context.Context) {
	now := o.clock()
	o.mu.Lock()
	due := len(o.peers) == 0 || now-o.peersAt >= o.membersEvery
	reachable := o.row.Reachable
	o.mu.Unlock()
	if !due || !reachable {
		return
	}
	one, cancel := context.WithTimeout(ctx, time.Second)
	peers, err := o.own.Peers(one)
	cancel()
	if ctx.Err() != nil {
		return
	}
	o.cond.set(condMembers, err, "the list of members cannot be read")
	if err == nil {
		o.adopt(ctx, peers, now)
	}
}

// adopt takes a membership: it keeps the watches of members that stayed as
// they are, stops the others and starts new ones.
func (o *observer) adopt(ctx context.Context, peers []etcd.Peer, now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peersAt = now
	if len(o.peers) > 0 && !reflect.DeepEqual(o.peers, peers) {
		o.changedAt, o.everChanged = now, true
		o.log.Info("membership changed", "members", len(peers))
	}
	o.peers = peers
	wanted := map[MemberID]bool{}
	for _, p := range peers {
		id := MemberID(p.ID)
		if id == o.row.Member {
			o.row.Name = p.Name
			continue
		}
		wanted[id] = true
		if old, ok := o.watches[id]; ok && old.watch.same(p) {
			continue
		}
		o.start(ctx, p)
	}
	for id, r := range o.watches {
		if !wanted[id] {
			r.end()
			delete(o.watches, id)
		}
	}
}

// start begins to watch a peer, in place of an older watch of it.
func (o *observer) start(ctx context.Context, p etcd.Peer) {
	id := MemberID(p.ID)
	if old, ok := o.watches[id]; ok {
		old.end()
		delete(o.watches, id)
	}
	if len(p.PeerURLs) == 0 {
		return
	}
	w, err := newWatch(p, o.timing, o.files, o.clock, o.nudge, o.log)
	o.cond.set(condPeerTLS, err, "peers cannot be probed")
	if err != nil {
		return
	}
	r := &running{watch: w}
	if host := hostOf(p.PeerURLs[0]); o.mesh != 0 && host != "" {
		if r.mesh, err = newMeshPeer(host, o.mesh, o.files); err != nil {
			o.cond.set(condPeerTLS, err, "agents cannot be asked")
		}
	}
	watching, cancel := context.WithCancel(ctx)
	r.stop = cancel
	o.watches[id] = r
	go w.run(watching)
}

func (r *running) end() {
	r.stop()
	if r.mesh != nil {
		r.mesh.close()
	}
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// current returns the own row as of now, links included.
func (o *observer) current() Row {
	now := o.clock()
	o.mu.Lock()
	defer o.mu.Unlock()
	// Links change between polls, so every row handed out has a number of its
	// own: a reader keeps only what is newer.
	o.row.Seq++
	r := o.row
	if r.Reachable && r.Leader == 0 {
		r.LeaderlessFor = now - o.leaderlessAt
	}
	r.Links = make(map[MemberID]Link, len(o.watches))
	for id, run := range o.watches {
		r.Links[id] = run.watch.link()
	}
	return r
}

// mostPatience bounds how long silence of the own member is put down to its disk.
const mostPatience = 3 * time.Second

// slowDisk says how long a sync of the own disk takes, 0 where it is not slow. Since
// 3.6 a status waits for the commit of the backend, which is two syncs: a leader with
// a slow disk is silent for most of the time, and leads all the same.
func (o *observer) slowDisk(sync time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.patience = 0
	if sync > 0 {
		o.patience = min(2*sync+statusTimeout, mostPatience)
	}
}

// patient says that the own member has answered not long ago, for its disk.
func (o *observer) patient() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.row.Reachable && o.clock()-o.answeredAt < o.patience
}

// statusPatience is how long the own member may take for a status.
func (o *observer) statusPatience() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(statusTimeout, o.patience)
}

// setFsync records the disk's recent latency.
func (o *observer) setFsync(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.row.Fsync = d
}

// membership returns the members, and for how long the list has stood.
func (o *observer) membership() ([]etcd.Peer, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stood := maxAge
	if o.everChanged {
		stood = o.clock() - o.changedAt
	}
	return o.peers, stood
}

// unrecorded says that etcd takes no writes for its quota, as last heard.
func (o *observer) unrecorded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.noSpace
}

// knows returns the own row, without links, and whether id is of the membership.
func (o *observer) knows(id MemberID) (self Row, member bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.row, slices.ContainsFunc(o.peers, func(p etcd.Peer) bool { return MemberID(p.ID) == id })
}

// agents returns the agents beside the peers.
func (o *observer) agents() map[MemberID]*meshPeer {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[MemberID]*meshPeer, len(o.watches))
	for id, r := range o.watches {
		if r.mesh != nil {
			all[id] = r.mesh
		}
	}
	return all
}

// watchOf returns the watch of a peer.
func (o *observer) watchOf(id MemberID) (*watch, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, ok := o.watches[id]
	if !ok {
		return nil, false
	}
	return r.watch, true
}

// voters lists the voting members; those that were added but never started
// have no name and no client URL, and count all the same.
func voters(peers []etcd.Peer) []Voter {
	var all []Voter
	for _, p := range peers {
		if !p.Learner {
			all = append(all, Voter{ID: MemberID(p.ID), Name: p.Name})
		}
	}
	return all
}

// supported says what is wrong with running a version of etcd, if anything.
// Before 3.5.28 and 3.6.9 a leader change could answer a linearizable read
// with old data (etcd#21375), and automation makes leader changes commoner.
func supported(version string) error {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return fmt.Errorf("etcd version %q: not understood; 3.5.28, 3.6.9 or newer is wanted", version)
	}
	v := [3]int{major, minor, patch}
	least := [3]int{3, 5, 28}
	if major == 3 && minor == 6 {
		least = [3]int{3, 6, 9}
	}
	for i := range v {
		if v[i] != least[i] {
			if v[i] < least[i] {
				return fmt.Errorf("etcd %s: a leader change can return stale linearizable reads (etcd#21375); upgrade to 3.5.28, 3.6.9 or newer", version)
			}
			break
		}
	}
	return nil
}
