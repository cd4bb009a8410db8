package pair

import (
	"fmt"
	"time"
)

// soloPeer is for the record that lets only the peer serve.
func (d *decision) soloPeer() Plan {
	if d.v.Process.Running {
		return d.soloPeerRunning()
	}
	v := d.v
	switch {
	case v.Log.Content == Unread:
		return wait("the directory has not been read yet")
	case v.since(v.Survivor.Answered) >= 2*fresh:
		return Plan{Do: Nothing, Read: time.Second, Why: fmt.Sprintf("%s serves alone, generation %d; its etcd does not answer here", d.cfg.Peer, d.rec.Generation)}
	case v.Survivor.Cluster != d.rec.Cluster:
		return alarm(fmt.Sprintf("what answers at %s is of cluster %s, the record of %s", d.cfg.Peer, v.Survivor.Cluster, d.rec.Cluster))
	case v.Log.Content != Empty && v.Log.Content != Alone && v.Log.Cluster == d.rec.Cluster && v.Survivor.lists(v.Log.Self):
		return d.rejoined()
	case d.rec.Held:
		return Plan{Do: Nothing, Read: time.Second, Why: d.cfg.Peer + " serves alone because a person asked for it; holdfast pair release ends that"}
	case v.Survivor.Answered <= v.Process.Since:
		// Before this one was stopped it may have had its quorum with it.
		return wait("the survivor has to answer once more without this member")
	case v.Log.Content != Empty && (v.Arbiter.Trouble != Readable || v.Arbiter.Asked <= v.Process.Since):
		// They may have become a pair since the record was read, and a person may
		// have taken the peer out: then this is the only member that goes on.
		return Plan{Do: Nothing, Read: time.Millisecond, Why: "the record must be read again before data is set aside"}
	case v.Log.Content != Empty:
		return Plan{Do: SetAside, Why: fmt.Sprintf("%s serves without this member", d.cfg.Peer)}
	}
	return Plan{Do: Join, Why: fmt.Sprintf("%s serves and has no such member", d.cfg.Peer)}
}

// rejoined is for a stopped member that the survivor knows.
func (d *decision) rejoined() Plan {
	if d.v.Log.Content == Unfit {
		return alarm(d.v.Log.Detail)
	}
	if !d.v.Log.Learner && len(d.v.Survivor.Members) != 2 {
		return wait("the survivor's membership is not of two")
	}
	return Plan{Do: Start, Why: "the survivor has this member"}
}

func (d *decision) soloPeerRunning() Plan {
	v, m := d.v, d.v.Members
	switch {
	case m.Known && m.Voters == 1 && m.SelfVoter:
		return Plan{Do: Stop, Alarm: true, Why: fmt.Sprintf("%s may serve alone, this member not (generation %d)", d.cfg.Peer, d.rec.Generation)}
	case v.quorate():
		return Plan{Do: Nothing, Read: hurryEvery, Why: "a quorum with the survivor stands"}
	case v.Quorum.Leader && v.answers() && v.Survivor.lists(m.Self):
		return Plan{Do: Nothing, Read: hurryEvery, Why: "catching up with " + d.cfg.Peer}
	case v.Survivor.lists(m.Self) && v.since(v.Survivor.Answered) < 2*fresh:
		return wait("the survivor has this member; waiting for its leader")
	case !m.Known && v.since(v.Process.Since) < joinGrace:
		return wait("etcd is starting")
	case v.Survivor.Answered <= v.Process.Since && v.since(v.Process.Since) < joinGrace && (!m.SelfVoter || v.Quorum.Leader && v.answers()):
		// What it said before may be from before it took this member in.
		return wait("the survivor has not answered since etcd was started")
	case d.cfg.ServeStale && (v.since(v.Survivor.Answered) >= 2*fresh || d.rec.Held):
		return Plan{Do: Nothing, Read: hurryEvery, Why: "serves stale reads until the survivor answers"}
	}
	return Plan{Do: Stop, Why: fmt.Sprintf("%s serves alone, generation %d", d.cfg.Peer, d.rec.Generation)}
}

// joinGrace is how long a member that joins may take to say who it is.
const joinGrace = 30 * time.Second

// forever is when a refusal ends that no wait mends.
const forever time.Duration = 1<<63 - 1
