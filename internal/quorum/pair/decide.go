package pair

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// Config is what a decision goes by.
type Config struct {
	Self, Peer string
	// LostAfter is how long there must be no quorum before a claim.
	LostAfter time.Duration
	// HeadStart is how much longer the member waits that neither led nor is
	// preferred.
	HeadStart time.Duration
	// BootGrace is how much longer a member waits that has not met the peer since
	// the agent began: both sites may be coming up.
	BootGrace time.Duration
	// StuckAfter is how long there must be no quorum before a peer that is
	// reachable counts as lost all the same.
	StuckAfter time.Duration
	// Patience is how long a member stopped for surgery waits for the arbiter
	// before it is started again as it was.
	Patience time.Duration
	// Prefer is the name of the site that should win, or empty.
	Prefer string
	// ServeStale keeps the loser's etcd running, for serializable reads, until
	// its data is set aside.
	ServeStale bool
}

// State is what an agent remembers between decisions. It is lost with the
// process, and nothing that may not be lost is in it.
type State struct {
	// Licence is the nonce of the claim that this process made and has not used
	// yet; the next surgery needs it.
	Licence string
	// FromPaired says that the licence was claimed from paired: the directory
	// has not been edited since, and the claim can be given back.
	FromPaired bool
	// Void is the nonce of a record that this process set out to change to
	// paired. Such a change may be done at any time later, even after its caller
	// gave up, so no surgery may rest on the record that it replaces: a licence
	// for that needs a change to a new generation first, which makes it fail.
	Void string
	// Refusal is why surgery was refused, RefusedUntil how long that is taken to
	// last. A member that cannot survive does not claim.
	Refusal      string
	RefusedUntil time.Duration
	// SawTwo says that the running etcd has had two voters under this process.
	SawTwo bool
	// Alone says that etcd was started from a directory in which self is the only voter,
	// and has not had a quorum since: it needs no peer to get one, only time.
	Alone bool
	// Met says that the peer has been there under this process.
	Met bool
}

// Action is the one thing to do next.
type Action string

// The actions. Each can be done again after it failed or was cut short.
const (
	Nothing Action = "nothing"
	// Start starts etcd as it was configured.
	Start Action = "start"
	// Stop stops etcd.
	Stop Action = "stop"
	// Create makes the first record; with Barrier, after a write that both took.
	Create Action = "create"
	// Claim changes the record to solo(self). It gives the licence.
	Claim Action = "claim"
	// GiveBack changes the record to paired from a claim that was not used.
	GiveBack Action = "give-back"
	// Pair makes a write that both members acknowledge, then changes the
	// record to paired.
	Pair Action = "pair"
	// Edit makes self the only member in the stopped directory.
	Edit Action = "edit"
	// Expel takes the peer out through the cluster, which has a quorum.
	Expel Action = "expel"
	// Promote makes the learner a voter.
	Promote Action = "promote"
	// SetAside moves the directory away.
	SetAside Action = "set-aside"
	// Join adds self to the survivor's cluster as a learner and starts etcd.
	Join Action = "join"
)

// Plan is what a decision came to.
type Plan struct {
	Do  Action
	Why string
	// Next is the record that Create, Claim, GiveBack and Pair write; Client fills
	// in the rest.
	Next arbiter.Record
	// Barrier: Create needs a write that both took first.
	Barrier bool
	// Read is how old the last read of the record may be.
	Read time.Duration
	// Alarm says that a person should look.
	Alarm bool
}

// Decide is the whole protocol. It has no clock, socket or goroutine.
//
// What makes it safe is argued in docs/design/pair.md: Edit follows only on a licence, and
// a licence only on an own change of the record from paired or from solo(self).
func Decide(cfg Config, s State, v View) (State, Plan) {
	d := decision{cfg: cfg, s: s, v: v, rec: v.Arbiter.Record}
	d.remember()
	plan := d.plan()
	if plan.Read == 0 {
		plan.Read = d.readWithin(plan)
	}
	return d.s, plan
}

type decision struct {
	cfg Config
	s   State
	v   View
	rec arbiter.Record
}

// remember keeps in the state what the view proves.
func (d *decision) remember() {
	if d.s.Licence != "" && d.s.Licence != d.rec.Nonce {
		d.s.Licence, d.s.FromPaired = "", false
	}
	switch {
	case d.v.quorate() || d.v.Process.Running && d.v.Members.Known && d.v.Members.Voters == 2:
		d.s.Alone = false
	case !d.v.Process.Running && d.v.Log.Content != Unread:
		d.s.Alone = d.v.Log.Content == Alone
	}
	if !d.v.Process.Running {
		d.s.SawTwo = false
	} else if d.v.Members.Known && d.v.Members.Voters == 2 {
		d.s.SawTwo = true
	}
	if d.v.quorate() || d.v.PeerSeen > 0 {
		d.s.Met = true
	}
	if d.s.Refusal != "" && d.v.Now >= d.s.RefusedUntil {
		d.s.Refusal = ""
	}
}

func (d *decision) plan() Plan {
	switch {
	case d.v.Arbiter.Trouble == Wrong:
		return d.wrong(d.v.Arbiter.Detail)
	case !d.v.Arbiter.Known:
		if d.v.Process.Running {
			return wait("the arbiter has not been read yet; etcd runs on as it is")
		}
		return wait("etcd is not started before the arbiter has been read")
	}
	if why := d.foreign(); why != "" {
		return d.wrong(why)
	}
	switch {
	case d.rec.Generation == 0:
		return d.absent()
	case d.rec.State == arbiter.Paired:
		return d.paired()
	case d.rec.SoloOf(d.cfg.Self):
		return d.soloSelf()
	}
	return d.soloPeer()
}

// readWithin is how old the record may be when nothing more is asked for.
func (d *decision) readWithin(p Plan) time.Duration {
	calm := d.v.quorate() && p.Do == Nothing && d.v.Arbiter.Trouble == Readable &&
		(d.rec.State == arbiter.Paired || (d.rec.SoloOf(d.cfg.Self) && d.v.Members.Voters == 1))
	if calm {
		return restEvery
	}
	return hurryEvery
}

// foreign says why the record is not this pair's.
func (d *decision) foreign() string {
	if d.rec.Generation == 0 {
		return ""
	}
	if !d.rec.Has(d.cfg.Self) || !d.rec.Has(d.cfg.Peer) {
		return fmt.Sprintf("the record is of members %q and %q, not of %q and %q; give each pair an arbiter object of its own",
			d.rec.Members[0].Name, d.rec.Members[1].Name, d.cfg.Self, d.cfg.Peer)
	}
	cluster := cmp.Or(d.v.Members.Cluster, d.v.Log.Cluster)
	if cluster == 0 || cluster == d.rec.Cluster {
		return ""
	}
	return fmt.Sprintf("the record is of cluster %s, this member is of cluster %s (restored from a snapshot, or another's bucket); give it an arbiter object of its own",
		d.rec.Cluster, cluster)
}

// wrong is for an arbiter that cannot be believed. Whoever could write alone
// stops; a pair needs nobody's leave.
func (d *decision) wrong(why string) Plan {
	if d.v.Process.Running && d.v.Members.Known && d.v.Members.Voters == 1 {
		return Plan{Do: Stop, Alarm: true, Why: "it may not serve alone any longer: " + why}
	}
	return Plan{Do: Nothing, Alarm: true, Why: why}
}

// absent is for an arbiter that never had a record.
func (d *decision) absent() Plan {
	if p, ok := d.untrusted("no record is made"); !ok && (d.v.Process.Running || d.v.Arbiter.Unfit != "") {
		return p
	}
	if !d.v.Process.Running {
		switch d.v.Log.Content {
		case Unread:
			return wait("the directory has not been read yet")
		case Unfit:
			return alarm(d.v.Log.Detail)
		case Alone:
			if p, ok := d.untrusted("no record is made"); !ok {
				return p
			}
			// A single member becomes half of a pair. The record comes first:
			// of two that think so only one can make it.
			return Plan{Do: Create, Next: d.next(arbiter.Solo, d.v.Log.Cluster, d.v.Log.Self, 0), Why: "first record, for a member that is alone"}
		}
		return Plan{Do: Start, Why: "no record yet: a new pair"}
	}
	m := d.v.Members
	switch {
	case !d.v.quorate() && d.v.Quorum.Unasked != "":
		return alarm("no record is made, for the own etcd cannot be asked whether it has a quorum: " + d.v.Quorum.Unasked)
	case !d.v.quorate() || !m.Known:
		return wait("no record yet; it is made with the first write that both acknowledge")
	case m.Voters == 1 && m.SelfVoter:
		return Plan{Do: Create, Next: d.next(arbiter.Solo, m.Cluster, m.Self, 0), Why: "first record, for a member that is alone"}
	case m.Voters == 2 && m.SelfVoter:
		return Plan{Do: Create, Barrier: true, Next: d.next(arbiter.Paired, m.Cluster, m.Self, m.Peer), Why: "first record"}
	}
	return alarm(fmt.Sprintf("a pair has two voters, this cluster has %d", m.Voters))
}

func (d *decision) paired() Plan {
	v := d.v
	if !v.Process.Running {
		switch v.Log.Content {
		case Unread:
			return wait("the directory has not been read yet")
		case Empty:
			return alarm("the data is gone; the peer has to claim before this member can join anew, as it does by itself once it has no quorum")
		case Alone:
			return alarm("the directory is that of a member alone, but the record says paired: an old copy: move it away, and the peer takes this member back; if the peer was removed on purpose: holdfast pair claim")
		case Unfit:
			return alarm(v.Log.Detail)
		}
		return Plan{Do: Start, Why: fmt.Sprintf("paired, generation %d", d.rec.Generation)}
	}
	m := v.Members
	switch {
	case !m.Known:
		return d.claimIfLost()
	case m.Voters == 1 && m.SelfVoter && d.s.SawTwo:
		// Somebody removed the peer through the cluster, which took both.
		return d.claim("the peer was removed from the cluster")
	case m.Voters == 1 && m.SelfVoter:
		return Plan{Do: Stop, Alarm: true, Why: "this member is alone, but the record says paired: an old copy of a directory"}
	case m.Voters > 2 || !m.SelfVoter:
		return alarm(fmt.Sprintf("a pair has two voters, this member among them; this cluster has %d", m.Voters))
	}
	return d.claimIfLost()
}

// claimIfLost claims from paired once the peer has been lost long enough.
func (d *decision) claimIfLost() Plan {
	if d.v.quorate() {
		return Plan{Do: Nothing, Why: fmt.Sprintf("paired, generation %d", d.rec.Generation)}
	}
	if d.v.Quorum.Unasked != "" {
		return alarm(unasked + d.v.Quorum.Unasked)
	}
	if why := d.notYet(d.lostAfter()); why != "" {
		return wait(why)
	}
	switch {
	case d.s.Refusal != "":
		return alarm("no quorum, and this member cannot survive: " + d.s.Refusal)
	case d.v.Blind != "":
		return alarm("no quorum; no claim, for this site does not see its clients: " + d.v.Blind)
	}
	return d.claim(fmt.Sprintf("no quorum for %s", round(d.v.lost())))
}

// unasked begins the alarm of an agent that etcd refuses: the pair may be well.
const unasked = "no claim, for the own etcd cannot be asked whether it has a quorum: "

// lostAfter is how long this member waits before it claims from paired.
func (d *decision) lostAfter() time.Duration {
	after := d.cfg.LostAfter
	if !d.v.Quorum.Led && d.cfg.Prefer != d.cfg.Self {
		after += d.cfg.HeadStart
	}
	if !d.s.Met {
		after += d.cfg.BootGrace
	}
	return after
}

// notYet says why the peer does not count as lost; empty: it does.
func (d *decision) notYet(after time.Duration) string {
	lost := d.v.lost()
	switch {
	case lost < after:
		return fmt.Sprintf("no quorum for %s of %s", round(lost), after)
	case !d.v.answers() && lost < d.cfg.StuckAfter:
		return fmt.Sprintf("no quorum for %s, and the own etcd does not answer", round(lost))
	case d.v.peerReachable() && lost < d.cfg.StuckAfter:
		return fmt.Sprintf("no quorum for %s, but the peer's etcd can be reached; it counts as lost after %s", round(lost), d.cfg.StuckAfter)
	}
	return ""
}

// untrusted is what to do instead of a change of the record while the arbiter is not
// known to be fit for it.
func (d *decision) untrusted(what string) (Plan, bool) {
	switch a := d.v.Arbiter; {
	case a.Unfit != "":
		return alarm(what + ": " + a.Unfit), false
	case a.Untried != "":
		return wait(what + " before the arbiter has been tried: " + a.Untried), false
	}
	return Plan{}, true
}

func (d *decision) claim(why string) Plan {
	if p, ok := d.untrusted(why + "; no claim"); !ok {
		return p
	}
	next := d.rec
	next.State, next.Survivor = arbiter.Solo, d.cfg.Self
	if id := d.v.Members.Self; id != 0 {
		next = withID(next, d.cfg.Self, id)
	}
	return Plan{Do: Claim, Next: next, Why: why}
}

// soloSelf is for the record that lets this member serve alone.
func (d *decision) soloSelf() Plan {
	if !d.v.Process.Running {
		return d.soloSelfStopped()
	}
	m := d.v.Members
	switch {
	case m.Known && m.Voters == 1 && m.SelfVoter:
		if m.Learner != 0 && !d.rec.Held {
			return Plan{Do: Promote, Why: "the peer is catching up", Read: restEvery}
		}
		if m.Learner != 0 {
			// Somebody let it join: the record may say more by now.
			return Plan{Do: Nothing, Why: "a person asked for this member alone, and the peer is there", Read: hurryEvery}
		}
		return Plan{Do: Nothing, Why: fmt.Sprintf("serves alone, generation %d", d.rec.Generation)}
	case d.v.quorate() && m.Known && m.Voters == 2 && m.SelfVoter && d.rec.Held:
		return Plan{Do: Expel, Why: "a person asked for this member alone"}
	case d.v.quorate() && m.Known && m.Voters == 2 && m.SelfVoter:
		d.s.Void = d.rec.Nonce
		return Plan{Do: Pair, Next: d.next(arbiter.Paired, d.rec.Cluster, m.Self, m.Peer), Why: "both members have a quorum"}
	}
	return d.surgery()
}

// surgery is for a member that may serve alone, and has two voters and no quorum.
func (d *decision) surgery() Plan {
	if d.s.Alone {
		// Another stop would only begin the wait anew: on a machine slower than
		// our patience, for ever.
		return wait("etcd is starting as the only member")
	}
	after := d.cfg.LostAfter
	if d.licensed() || d.rec.Held {
		after = fresh
	}
	if d.v.Quorum.Unasked != "" {
		return alarm(unasked + d.v.Quorum.Unasked)
	}
	if why := d.notYet(after); why != "" {
		return wait(why)
	}
	if d.s.Refusal != "" {
		return alarm("no quorum, and this member cannot survive: " + d.s.Refusal)
	}
	if !d.licensed() {
		return d.claim("solo without a quorum: a new licence for surgery")
	}
	if d.v.since(d.v.Arbiter.Asked) >= fresh {
		return Plan{Do: Nothing, Why: "the arbiter must be readable before etcd is stopped for surgery", Read: hurryEvery, Alarm: true}
	}
	return Plan{Do: Stop, Why: "no quorum; this member is to be made the only one"}
}

// owns reports whether the record is that of this process's last claim.
func (d *decision) owns() bool {
	return d.s.Licence != "" && d.s.Licence == d.rec.Nonce
}

// licensed reports whether surgery may rest on the record.
func (d *decision) licensed() bool { return d.owns() && d.s.Void != d.rec.Nonce }

func (d *decision) soloSelfStopped() Plan {
	v := d.v
	switch v.Log.Content {
	case Unread:
		return wait("the directory has not been read yet")
	case Empty:
		return alarm(fmt.Sprintf("this member may serve alone, but its data is gone; if only the peer has data: holdfast pair claim --accept-data-loss there (%s)", d.cfg.Peer))
	case Alone:
		return Plan{Do: Start, Why: fmt.Sprintf("serves alone, generation %d", d.rec.Generation)}
	case Unfit:
		d.s.Refusal, d.s.RefusedUntil = v.Log.Detail, forever
		if d.owns() && d.s.FromPaired {
			return d.giveBack()
		}
		return alarm(v.Log.Detail)
	}
	switch {
	case v.Log.Learner:
		return alarm("this member may serve alone, but is a learner: an old copy; holdfast pair claim --accept-data-loss where the newest data is")
	case d.owns() && d.s.Refusal != "" && d.s.FromPaired:
		return d.giveBack()
	case d.owns() && d.s.Refusal != "":
		return alarm(d.s.Refusal)
	case !d.licensed():
		return Plan{Do: Start, Why: "the log has two voters; perhaps the peer is there"}
	case v.Arbiter.Trouble == Readable && v.Arbiter.Asked > v.Process.Since:
		return Plan{Do: Edit, Why: "the record, read after the stop, has the nonce of the claim"}
	case v.since(v.Process.Since) < d.cfg.Patience:
		return Plan{Do: Nothing, Why: "the record must be read again before surgery", Read: time.Millisecond}
	}
	return Plan{Do: Start, Alarm: true, Why: "the arbiter cannot be read, so nobody writes; etcd goes on as it was"}
}

// giveBack ends a claim that was not used.
func (d *decision) giveBack() Plan {
	d.s.Void = d.rec.Nonce
	next := d.rec
	next.State, next.Survivor, next.Held, next.Forced = arbiter.Paired, "", false, false
	return Plan{Do: GiveBack, Next: next, Alarm: true, Why: "this member cannot survive: " + d.s.Refusal}
}

// next is a record of this pair in another state.
func (d *decision) next(state arbiter.State, cluster, self, peer wal.ID) arbiter.Record {
	r := arbiter.Record{Cluster: cluster, State: state}
	r.Members = [2]arbiter.Member{{Name: d.cfg.Self, ID: self}, {Name: d.cfg.Peer, ID: peer}}
	if d.cfg.Peer < d.cfg.Self {
		r.Members[0], r.Members[1] = r.Members[1], r.Members[0]
	}
	if state == arbiter.Solo {
		r.Survivor = d.cfg.Self
	}
	return r
}

func withID(r arbiter.Record, name string, id wal.ID) arbiter.Record {
	for i := range r.Members {
		if r.Members[i].Name == name {
			r.Members[i].ID = id
		}
	}
	return r
}

func wait(why string) Plan { return Plan{Do: Nothing, Why: why} }

func alarm(why string) Plan { return Plan{Do: Nothing, Why: why, Alarm: true} }

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
