package pair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/supervise"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

const (
	// stopGrace is how long a loser's etcd may take to stop before it is killed. It
	// has no quorum then, so it waits for requests that cannot end.
	stopGrace = 300 * time.Millisecond
	// barrierTimeout bounds the write that both members have to acknowledge.
	barrierTimeout = 2 * time.Second
	// memberTimeout bounds a change of the membership.
	memberTimeout = 3 * time.Second
	// askAgain is how long a refusal lasts that may pass by itself, and askDisk one
	// after which nothing but a few pages have to be written again.
	askAgain, askDisk = 30 * time.Second, 10 * time.Second
	// lockPatience is how long after its stop etcd's locks may be held by another
	// before that counts as a refusal.
	lockPatience = 10 * time.Second
	// claimRoom is what has to be free for a claim: the copy of the log's end, and a start.
	claimRoom = 4 << 20
	// joinRoom is what has to be free for a join beside the survivor's database: etcd sets
	// aside two segments of its new log, of 64 MB each.
	joinRoom = 2*64<<20 + 4<<20
)

// act does what a plan says, which was decided on v and the record was. After an error, or when it was cut short, the next
// decision looks anew.
func (a *Agent) act(ctx context.Context, p Plan, v View, was arbiter.Held) error {
	switch p.Do {
	case Start:
		return a.start(ctx, supervise.Mode{})
	case Stop:
		grace := stopGrace
		if a.obs.see().Arbiter.Record.SoloOf(a.settings.Name) {
			grace = 0 // for surgery: what is acknowledged is synced, and clients wait
		}
		if err := a.sup.Stop(ctx, grace); err != nil {
			return fmt.Errorf("stop etcd: %w", err)
		}
		a.obs.restarted(false)
		a.obs.lookAgain(ctx)
		return nil
	case Create:
		if p.Barrier {
			if err := a.barrier(ctx, v.Members); err != nil {
				return err
			}
		}
		return a.write(ctx, p, was)
	case Pair:
		if err := a.barrier(ctx, v.Members); err != nil {
			return err
		}
		return a.write(ctx, p, was)
	case Claim:
		if err := a.mayClaim(was.Record); err != nil {
			return err
		}
		return a.write(ctx, p, was)
	case GiveBack:
		return a.write(ctx, p, was)
	case Edit:
		return a.edit(ctx)
	case Expel:
		return a.expel(ctx)
	case Promote:
		return a.promote(ctx)
	case SetAside:
		return a.setAside(ctx)
	case Join:
		return a.join(ctx)
	}
	return fmt.Errorf("no such action %q", p.Do)
}

func (a *Agent) start(ctx context.Context, mode supervise.Mode) error {
	a.obs.files.Lock()
	defer a.obs.files.Unlock()
	if err := a.sup.Start(ctx, mode); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	a.obs.restarted(true)
	a.starts.note(a.clock())
	return nil
}

// starts spaces the starts of an etcd that ends again and again.
type starts struct {
	last, pause time.Duration
}

const (
	leastPause = 500 * time.Millisecond
	mostPause  = 15 * time.Second
	// calmAfter is how long etcd has to run for its next start to be the first.
	calmAfter = 30 * time.Second
)

// note begins a run.
func (s *starts) note(now time.Duration) {
	if s.last > 0 && now-s.last < calmAfter {
		s.pause = min(max(2*s.pause, leastPause), mostPause)
	} else {
		s.pause = 0
	}
	s.last = now
}

// afresh is for a directory that is another one now.
func (s *starts) afresh() { *s = starts{} }

// wait is how long the next start has to wait.
func (s *starts) wait(now time.Duration) time.Duration { return max(0, s.last+s.pause-now) }

// write changes the record, and keeps the licence that comes with a claim.
func (a *Agent) write(ctx context.Context, p Plan, was arbiter.Held) error {
	ctx, cancel := context.WithTimeout(ctx, arbiterTimeout)
	defer cancel()
	held, err := a.arbiter.Change(ctx, was, p.Next)
	if err != nil {
		// Before the next decision, or it would be the same again.
		a.obs.rereadNow(context.WithoutCancel(ctx))
		if _, now := a.obs.look(); now.Nonce == was.Nonce {
			a.hold(hurryEvery) // nothing was learned: it will be the same again
		}
	}
	if errors.Is(err, arbiter.ErrLost) {
		a.log.Info("somebody else changed the record first", "do", string(p.Do))
		return nil
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	if p.Do == Claim {
		a.state.Licence, a.state.FromPaired = held.Nonce, was.State == arbiter.Paired
	}
	a.mu.Unlock()
	a.obs.changed(held)
	return nil
}

// barrier makes a write that both of m have to acknowledge: they are the only voters
// before it and after it, by the word of a quorum.
func (a *Agent) barrier(ctx context.Context, m Members) error {
	ctx, cancel := context.WithTimeout(ctx, barrierTimeout)
	defer cancel()
	cli, err := a.obs.member().Client(ctx)
	if err != nil {
		return err
	}
	if err := areTwo(ctx, cli, m); err != nil {
		return err
	}
	// A deletion goes through the log like any write, and is allowed when the database is full.
	if _, err := cli.Delete(ctx, a.settings.Prefix+"/barrier"); err != nil {
		return fmt.Errorf("write that both members have to take: %w", err)
	}
	return areTwo(ctx, cli, m)
}

// areTwo checks through a quorum that the two of m are the voters, and nobody else.
func areTwo(ctx context.Context, cli *clientv3.Client, m Members) error {
	r, err := cli.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("list members: %w", err)
	}
	var voters []wal.ID
	for _, e := range r.Members {
		if !e.IsLearner {
			voters = append(voters, wal.ID(e.ID))
		}
	}
	if len(voters) != 2 || !slices.Contains(voters, m.Self) || !slices.Contains(voters, m.Peer) {
		return fmt.Errorf("the voters are %v, not %v and %v; looking again", voters, m.Self, m.Peer)
	}
	return nil
}

// refuse has this member not claim until then.
func (a *Agent) refuse(why error, until time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Refusal, a.state.RefusedUntil = why.Error(), until
}

// mayClaim reports what would be in the way of serving alone: a disk, etcd's or the agent's
// own, on which it has to keep a record before it may act on it; or data that etcd itself
// distrusts. A site that took the record and could not go on would keep the other from it.
func (a *Agent) mayClaim(was arbiter.Record) error {
	a.obs.mu.Lock()
	alarms := a.obs.status.Alarms
	a.obs.mu.Unlock()
	err := distrusted(alarms, was.SoloOf(a.settings.Name) && was.Held)
	if err == nil {
		err = supervise.Room(a.sup.Describe(), claimRoom)
	}
	if err == nil {
		err = a.disk.takes(a.dir.Data, a.dir.WAL, a.settings.StateDir)
	}
	if err != nil {
		a.refuse(err, a.clock()+askDisk)
	}
	return err
}

// distrusted is the error of a member whose data etcd found to differ from the other's. Nothing
// is written while the alarm stands, so a claim wins nothing, and the other's data, which may
// be the right one, would be moved aside for it. A person may want that all the same.
func distrusted(alarms []string, wanted bool) error {
	if wanted || !slices.Contains(alarms, "CORRUPT") {
		return nil
	}
	return errors.New("etcd's alarm CORRUPT stands for this member, so no claim by this site: its data differs from the other's; " +
		"if it is the data to go on with, holdfast pair claim here and then etcdctl alarm disarm")
}

// edit makes self the only member. The licence is used up by it.
func (a *Agent) edit(ctx context.Context) error {
	begun := time.Now()
	a.obs.files.Lock()
	plan, err := wal.Edit(a.dir, wal.Options{})
	a.obs.files.Unlock()
	var refusal *wal.Refusal
	if errors.As(err, &refusal) && refusal.Reason == wal.Running && a.clock()-a.obs.see().Process.Since < lockPatience {
		// Somebody looks at the directory, as `pair wal verify` does; it is soon free.
		return fmt.Errorf("edit the log: %w", err)
	}
	if refusal != nil {
		until := forever
		if refusal.Reason == wal.NoSpace || refusal.Reason == wal.Running {
			until = a.clock() + askAgain
		}
		a.refuse(refusal, until)
	}
	if err != nil {
		return fmt.Errorf("edit the log: %w", err)
	}
	a.mu.Lock()
	a.state.Licence, a.state.FromPaired = "", false
	a.mu.Unlock()
	a.log.Info("the log is edited: this member is the only one", "removed", len(plan.Remove), "commit", plan.Commit,
		"took", time.Since(begun).Round(time.Millisecond), "copy", plan.Copy)
	a.stats.edits.Observe(time.Since(begun).Seconds())
	a.starts.afresh()
	a.obs.change(func(v *View) bool { v.Log = Log{}; return true })
	return a.obs.lookLog(ctx)
}

// expel takes the peer out through the cluster, as the leader.
func (a *Agent) expel(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	own := a.obs.member()
	s, err := own.Status(ctx)
	if err != nil {
		return err
	}
	if s.Leader != s.Member {
		return a.peer.MoveLeader(ctx, s.Member)
	}
	v := a.obs.see()
	if v.Members.Peer == 0 {
		return errors.New("the peer's id is not known")
	}
	cli, err := own.Client(ctx)
	if err != nil {
		return err
	}
	if _, err := cli.MemberRemove(ctx, uint64(v.Members.Peer)); err != nil {
		return fmt.Errorf("remove %s from the cluster: %w", a.settings.Peer.Name, err)
	}
	return a.lookMembers(ctx)
}

// promote makes the learner a voter, if it has caught up.
func (a *Agent) promote(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	learner := a.obs.see().Members.Learner
	cli, err := a.obs.member().Client(ctx)
	if err != nil {
		return err
	}
	_, err = cli.MemberPromote(ctx, uint64(learner))
	if errors.Is(err, rpctypes.ErrMemberLearnerNotReady) {
		a.followProgress(ctx, cli, learner)
		a.hold(200 * time.Millisecond)
		return nil
	}
	if err != nil {
		return fmt.Errorf("promote %s: %w", a.settings.Peer.Name, err)
	}
	a.obs.mu.Lock()
	a.obs.progress = 0
	a.obs.mu.Unlock()
	return a.lookMembers(ctx)
}

// lookMembers reads the membership after it was changed here, so that the next
// decision knows.
func (a *Agent) lookMembers(ctx context.Context) error {
	a.obs.change(func(v *View) bool {
		v.Members = Members{}
		a.obs.membersAt = -membersEvery
		return false
	})
	return a.obs.lookStatus(ctx)
}

// followProgress notes how far the learner's log is, for people.
func (a *Agent) followProgress(ctx context.Context, cli *clientv3.Client, learner wal.ID) {
	own, err := a.obs.member().Status(ctx)
	if err != nil || own.Index == 0 {
		return
	}
	s, err := a.peer.Status(ctx)
	if err != nil || wal.ID(s.Member) != learner {
		return
	}
	a.obs.mu.Lock()
	a.obs.progress = min(1, float64(s.Index)/float64(own.Index))
	a.obs.mu.Unlock()
}

// setAside moves the own directory away; the survivor has all that counts.
func (a *Agent) setAside(ctx context.Context) error {
	tag := fmt.Sprintf("g%d.%s", a.obs.see().Arbiter.Record.Generation, time.Now().UTC().Format("20060102.150405"))
	a.obs.files.Lock()
	copied, err := supervise.SetAside(a.sup.Describe(), tag)
	a.obs.files.Unlock()
	if err != nil {
		return fmt.Errorf("move the data aside: %w", err)
	}
	if err := replace(filepath.Join(a.settings.StateDir, asideFile), []byte(tag+"\n")); err != nil {
		return fmt.Errorf("remember where the data is: %w", err)
	}
	a.log.Warn("the data of this member is moved aside: the survivor serves without it", "to", copied)
	a.starts.afresh()
	a.obs.change(func(v *View) bool { v.Log = Log{}; return true })
	return a.obs.lookLog(ctx)
}

// asideFile holds the tag of the newest data moved aside.
const asideFile = "aside"

// prune removes older data that was moved aside, once the two are a pair again
// with what came after it. The newest stays.
func (a *Agent) prune(v View) {
	r := v.Arbiter.Record
	if r.State != arbiter.Paired || !v.quorate() || a.pruned == r.Generation {
		return
	}
	a.pruned = r.Generation
	tag, err := os.ReadFile(filepath.Join(a.settings.StateDir, asideFile))
	if err != nil {
		return // nothing was moved aside
	}
	if err := supervise.Prune(a.sup.Describe(), strings.TrimSpace(string(tag))); err != nil {
		a.log.Warn("older data that was moved aside cannot be removed; remove it by hand if the disk is small", "error", err.Error())
	}
}

// roomToJoin reports a disk too small for the survivor's database and a new log, before
// the survivor's membership is changed for nothing, again and again.
func (a *Agent) roomToJoin(database int64) error {
	data := a.sup.Describe()
	log, apart := supervise.Etcd{DataDir: filepath.Dir(data.WALDir)}, data.WALDir != ""
	data.WALDir = ""
	least := uint64(max(0, database))
	if !apart {
		least += joinRoom
	}
	err := supervise.Room(data, least)
	if err == nil && apart {
		err = supervise.Room(log, joinRoom)
	}
	if err != nil {
		return fmt.Errorf("join %s, whose database has %d MB (data moved aside earlier takes room, too): %w", a.settings.Peer.Name, database>>20, err)
	}
	return nil
}

// join adds self to the survivor's cluster as a learner, and starts etcd.
func (a *Agent) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*memberTimeout)
	defer cancel()
	cli, err := a.peer.Client(ctx)
	if err != nil {
		return err
	}
	if err := a.roomToJoin(databaseSize(ctx, cli)); err != nil {
		a.hold(askDisk)
		return err
	}
	if stale := a.obs.see().Survivor.Stale; stale != 0 {
		// Added before, and its directory is gone.
		if _, err := cli.MemberRemove(ctx, uint64(stale)); err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
			return fmt.Errorf("remove the entry of this member at %s: %w", a.settings.Peer.Name, err)
		}
	}
	own := a.sup.Describe()
	r, err := cli.MemberAddAsLearner(ctx, own.AdvertisePeer)
	if err != nil {
		return fmt.Errorf("join %s as a learner: %w", a.settings.Peer.Name, err)
	}
	var cluster []string
	for _, m := range r.Members {
		name := m.Name
		if m.ID == r.Member.ID {
			name = own.Name
		}
		for _, u := range m.PeerURLs {
			cluster = append(cluster, name+"="+u)
		}
	}
	return a.start(ctx, supervise.Mode{Existing: true, InitialCluster: strings.Join(cluster, ",")})
}
