package pair

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/supervise"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

const (
	// quorumEvery is how often the own etcd has to prove a quorum, and
	// quorumTimeout how long it may take.
	quorumEvery   = 500 * time.Millisecond
	quorumTimeout = 900 * time.Millisecond
	// statusEvery is how often it is asked for its own view.
	statusEvery = 300 * time.Millisecond
	// membersEvery is how often for its membership.
	membersEvery = time.Second
	// probeEvery is how often the peer's raft listener is asked.
	probeEvery = 400 * time.Millisecond
	// survivorEvery is how often the survivor is asked while it serves alone.
	survivorEvery = 500 * time.Millisecond
	// arbiterTimeout bounds a request to the arbiter.
	arbiterTimeout = 2 * time.Second
	// processEvery is how often the process is looked at.
	processEvery = 100 * time.Millisecond
	// clientsEvery is how often the places are tried of which clients reach one.
	clientsEvery = 2 * time.Second
)

// observer keeps the newest of what can be seen. Each of its looks runs in a loop of its
// own, so that one that hangs delays no other.
type observer struct {
	clock    func() time.Duration
	nudge    func()
	settings Settings
	store    arbiter.Store
	sup      supervise.Supervisor
	dir      wal.Dir
	arbiter  *arbiter.Client
	peer     *etcd.Member
	prober   *etcd.Prober // of the peer's raft listener
	listener *etcd.Prober // of the own

	// files is held by whoever opens the directory, or starts etcd on it: it is opened
	// under etcd's own locks, which keep out a second one of this process, too. A look
	// beside the surgery has it refused as if etcd ran.
	files sync.Mutex

	mu   sync.Mutex
	view View
	held arbiter.Held
	own  *etcd.Member
	// readWithin is how old the record may be, as the last decision wants it.
	readWithin time.Duration
	tried      time.Duration // when the arbiter was last asked
	status     etcd.Status
	progress   float64 // how far the learner is, 0 to 1
	transfer   Transfer
	pid        int    // 0: not known yet
	ended      string // how the process last ended
	membersAt  time.Duration
	noTLS      bool // what keeps the own etcd from being asked is TLS
	raced      bool // the arbiter has shown that its compare-and-swap is one
	apart      bool // and that it does not rest on the pair
}

// see returns the view as of now.
func (o *observer) see() View {
	v, _ := o.look()
	return v
}

// look returns the view as of now, and the record in it as it was read: what is decided
// on the one may change only the other.
func (o *observer) look() (View, arbiter.Held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := o.view
	v.Survivor.Members = slices.Clone(v.Survivor.Members)
	v.Now = o.clock()
	return v, o.held
}

// change applies f to the view, and wakes the decision if f says so.
func (o *observer) change(f func(v *View) bool) {
	o.mu.Lock()
	wake := f(&o.view)
	o.mu.Unlock()
	if wake {
		o.nudge()
	}
}

func (o *observer) member() *etcd.Member {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.own
}

// restarted forgets what the process before said, and connects anew: the old
// connection may be waiting to try again.
func (o *observer) restarted(running bool) {
	own, err := etcd.Dial(o.settings.Etcd.Endpoint, o.settings.access())
	o.mu.Lock()
	old := o.own
	if err == nil {
		o.own = own
	}
	confirmed, led := o.view.Quorum.Confirmed, o.view.Quorum.Led
	o.view.Process = Process{Running: running, Since: o.clock()}
	o.view.Quorum = Quorum{Confirmed: confirmed, Led: led && !running}
	o.view.Members = Members{}
	o.view.Log = Log{}
	o.status, o.membersAt = etcd.Status{}, 0
	o.mu.Unlock()
	if err == nil && old != nil {
		_ = old.Close() // nothing is lost with it
	}
	o.nudge()
}

// lookProcess notices a process that ended or began by itself.
func (o *observer) lookProcess(ctx context.Context) error {
	s, err := o.sup.State(ctx)
	if err != nil {
		return fmt.Errorf("look at etcd: %w", err)
	}
	o.mu.Lock()
	running := s.Phase != supervise.Stopped
	same := running == o.view.Process.Running && o.view.Process.Since > 0 && (!running || s.PID == 0 || o.pid == 0 || s.PID == o.pid)
	o.pid = s.PID
	if s.Ended != nil {
		o.ended = s.Ended.String()
	}
	o.mu.Unlock()
	if !same {
		o.restarted(running)
	}
	return nil
}

// lookAgain is for right after etcd was stopped or its directory changed: what is next
// waits for both looks.
func (o *observer) lookAgain(ctx context.Context) {
	_ = o.lookLog(ctx) // it never fails
	o.rereadNow(ctx)
}

// lookLog reads the directory of a stopped member.
func (o *observer) lookLog(context.Context) error {
	o.files.Lock()
	defer o.files.Unlock()
	v := o.see()
	if v.Process.Running || v.Process.Since == 0 || v.Log.Content != Unread {
		return nil
	}
	log := readLog(o.dir)
	o.change(func(now *View) bool {
		if now.Process != v.Process {
			return false
		}
		now.Log = log
		return true
	})
	return nil
}

// readLog says what a directory holds.
func readLog(dir wal.Dir) Log {
	plan, err := wal.Verify(dir)
	var refusal *wal.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Reason == wal.NotThere:
		return Log{Content: Empty}
	case errors.As(err, &refusal) && refusal.Reason == wal.Running:
		return Log{} // it is about to end, or is not ours
	case err != nil:
		return Log{Content: Unfit, Detail: err.Error()}
	}
	log := Log{Content: Two, Cluster: plan.Cluster, Self: plan.Self}
	voters := 0
	for _, m := range plan.Others {
		if !m.Learner {
			voters++ // also one whose removal is not known to be committed
		}
	}
	self := slices.IndexFunc(plan.Members, func(m wal.Member) bool { return m.ID == plan.Self })
	switch {
	case self < 0:
		log.Content, log.Detail = Unfit, "the end of the log removes this member"
	case plan.Members[self].Learner:
		log.Learner = true
	case voters == 0:
		log.Content = Alone
	case voters > 1:
		log.Content, log.Detail = Unfit, fmt.Sprintf("the directory is of a cluster of %d voters; a pair has two", voters+1)
	}
	return log
}

// lookQuorum has the own etcd prove a quorum.
func (o *observer) lookQuorum(ctx context.Context) error {
	v := o.see()
	if !v.Process.Running {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, quorumTimeout)
	defer cancel()
	own := o.member()
	cli, err := own.Client(ctx)
	sent := o.clock()
	if err == nil {
		_, err = cli.Get(ctx, o.settings.Prefix+"/barrier", clientv3.WithCountOnly())
	}
	if err != nil {
		o.refused(v.Process, own.Failed(err)) // which reads the account anew if that was it
		return nil
	}
	o.change(func(now *View) bool {
		if now.Process != v.Process {
			return false
		}
		now.Quorum.Unasked = ""
		wake := !v.quorate()
		now.Quorum.Confirmed = sent
		now.Quorum.Led = o.status.Leader != 0 && o.status.Leader == o.status.Member
		return wake
	})
	return nil
}

// refused notes that the own etcd does not let itself be asked. A credential that a
// person must mend is no sign that the peer is lost.
func (o *observer) refused(process Process, err error) {
	why := ""
	if errors.Is(err, etcd.ErrAuth) || errors.Is(err, etcd.ErrPermission) || errors.Is(err, etcd.ErrTLS) {
		why = err.Error()
	}
	o.change(func(now *View) bool {
		if now.Process == process && (why != "" || !errors.Is(err, context.DeadlineExceeded)) {
			now.Quorum.Unasked = why
			o.noTLS = errors.Is(err, etcd.ErrTLS)
		}
		return false
	})
}

// lookStatus asks the own etcd for its view, and for the membership when that
// is old or may have changed.
func (o *observer) lookStatus(ctx context.Context) error {
	v := o.see()
	if !v.Process.Running {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	own, sent := o.member(), o.clock()
	s, err := own.Status(ctx)
	if err != nil {
		if errors.Is(err, etcd.ErrTLS) {
			o.refused(v.Process, err)
		}
		o.lookListener(ctx, v.Process)
		return nil
	}
	var peers []etcd.Peer
	o.mu.Lock()
	due := o.clock()-o.membersAt >= membersEvery || o.status.Term != s.Term || o.status.Learner != s.Learner
	o.mu.Unlock()
	if due {
		if peers, err = own.Peers(ctx); err != nil {
			peers = nil
		}
	}
	o.change(func(now *View) bool {
		if now.Process != v.Process {
			return false
		}
		o.status = s
		if o.noTLS {
			o.noTLS, now.Quorum.Unasked = false, ""
		}
		now.Quorum.Answers, now.Quorum.Leader = sent, s.Leader != 0
		if peers == nil {
			return false
		}
		o.membersAt = o.clock()
		was := now.Members
		now.Members = membersOf(s, peers, o.settings.Peer.URL)
		return now.Members != was
	})
	return nil
}

// lookListener asks the own raft listener, where the client port does not answer.
// etcd opens that only once it has published its name through the leader, which a member
// that has just joined may wait 7 s for.
func (o *observer) lookListener(ctx context.Context, process Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	sent := o.clock()
	if _, err := o.listener.Probe(ctx, false); err != nil {
		return // Answers grows old
	}
	o.change(func(now *View) bool {
		if now.Process == process {
			now.Quorum.Answers = sent
		}
		return false
	})
}

func membersOf(s etcd.Status, peers []etcd.Peer, peerURL string) Members {
	m := Members{Known: true, Cluster: wal.ID(s.Cluster), Self: wal.ID(s.Member)}
	for _, p := range peers {
		switch {
		case p.Learner && slices.Contains(p.PeerURLs, peerURL):
			m.Learner = wal.ID(p.ID)
		case p.Learner:
		default:
			m.Voters++
			if p.ID == s.Member {
				m.SelfVoter = true
			} else {
				m.Peer = wal.ID(p.ID)
			}
		}
	}
	if m.Voters != 2 {
		m.Peer = 0
	}
	return m
}

// lookPeer asks the peer's raft listener whether it is there.
func (o *observer) lookPeer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	sent := o.clock()
	if _, err := o.prober.Probe(ctx, false); err != nil {
		return nil
	}
	o.change(func(v *View) bool { v.PeerSeen = sent; return false })
	return nil
}

// lookSurvivor asks the peer's etcd, through its quorum, whom it has.
func (o *observer) lookSurvivor(ctx context.Context) error {
	v := o.see()
	if v.Arbiter.Record.State != arbiter.Solo || !v.Arbiter.Record.SoloOf(o.settings.Peer.Name) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	sent := o.clock()
	cli, err := o.peer.Client(ctx)
	if err != nil {
		return err
	}
	r, err := cli.MemberList(ctx)
	if err != nil {
		return o.peer.Failed(err)
	}
	s := Survivor{Answered: sent, Cluster: wal.ID(r.Header.ClusterId)}
	own := o.sup.Describe().AdvertisePeer
	for _, m := range r.Members {
		s.Members = append(s.Members, wal.ID(m.ID))
		if slices.ContainsFunc(m.PeerURLs, func(u string) bool { return slices.Contains(own, u) }) {
			s.Stale = wal.ID(m.ID)
		}
	}
	o.change(func(v *View) bool { v.Survivor = s; return !v.Process.Running })
	if v.Process.Running && !v.answers() {
		size := databaseSize(ctx, cli)
		o.mu.Lock()
		o.transfer = Transfer{Bytes: min(received(o.dir.Data), size), Of: size}
		o.mu.Unlock()
	}
	return nil
}

// lookClients tries the places of which clients reach one.
func (o *observer) lookClients(ctx context.Context) error {
	if len(o.settings.Clients) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answers := make(chan error, len(o.settings.Clients))
	for _, c := range o.settings.Clients {
		go func() {
			u, err := url.Parse(c)
			if err != nil {
				answers <- err
				return
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
			if err == nil {
				_ = conn.Close() // that it came about is the answer
			}
			answers <- err
		}()
	}
	blind := ""
	for range o.settings.Clients {
		err := <-answers
		if err == nil {
			blind = ""
			break
		}
		blind = err.Error()
	}
	o.change(func(v *View) bool {
		changed := (v.Blind == "") != (blind == "")
		v.Blind = blind
		return changed
	})
	return nil
}
