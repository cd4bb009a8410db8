package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MemberStatus is what a member says of itself.
type MemberStatus struct {
	ID uint64 `json:"id"`
	// Leader is the member that this one takes for the leader, 0 for none.
	Leader   uint64   `json:"leader"`
	Term     uint64   `json:"term"`
	Index    uint64   `json:"index"`
	Applied  uint64   `json:"applied"`
	Revision int64    `json:"revision"`
	Version  string   `json:"version"`
	Learner  bool     `json:"learner,omitempty"`
	Errors   []string `json:"errors,omitempty"` // alarms, "etcdserver: no leader"
}

// statusPatience bounds one question to a member: it is answered from memory.
const statusPatience = time.Second

// Status asks the member itself; it answers without a leader too.
func (m *Member) Status(ctx context.Context) (MemberStatus, error) {
	c, err := m.Client()
	if err != nil {
		return MemberStatus{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	r, err := c.Status(ctx, m.ClientURL())
	if err != nil {
		return MemberStatus{}, fmt.Errorf("ask %s for its status: %w", m.node.name, err)
	}
	return MemberStatus{
		ID: r.Header.MemberId, Leader: r.Leader, Term: r.RaftTerm, Index: r.RaftIndex, Applied: r.RaftAppliedIndex,
		Revision: r.Header.Revision, Version: r.Version, Learner: r.IsLearner, Errors: r.Errors,
	}, nil
}

// Status asks the member of a cluster in a site.
func (l *Lab) Status(ctx context.Context, cluster, site string) (MemberStatus, error) {
	m, err := l.Member(cluster, site)
	if err != nil {
		return MemberStatus{}, err
	}
	return m.Status(ctx)
}

// moveDeadline bounds MoveLeader when ctx does not: an election takes up to
// two timeouts, and a first attempt may meet one.
const moveDeadline = 30 * time.Second

// MoveLeader makes the member in site the leader of the cluster, and returns
// when every running member says so.
func (l *Lab) MoveLeader(ctx context.Context, cluster, site string) error {
	target, err := l.Member(cluster, site)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, moveDeadline)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		done, err := l.tryMove(ctx, target)
		if done {
			l.log.Info("leader is set", "lab", l.spec.Name, "cluster", target.cluster.Name, "site", site)
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("move leader of %s to %s: %w", target.cluster.Name, site, errors.Join(ctx.Err(), err))
		}
	}
}

// tryMove looks who leads and asks that member to hand over to target. It
// reports true when all running members follow target already.
func (l *Lab) tryMove(ctx context.Context, target *Member) (bool, error) {
	want, err := target.Status(ctx)
	if err != nil {
		return false, err
	}
	settled := true
	for _, m := range target.cluster.members {
		if m.Child() == nil && !m.elsewhere.Load() {
			continue
		}
		st, err := m.Status(ctx)
		if err != nil {
			return false, err
		}
		settled = settled && st.Leader == want.ID
		if st.Leader != st.ID || st.ID == want.ID {
			continue
		}
		c, err := m.Client()
		if err != nil {
			return false, err
		}
		if _, err := c.MoveLeader(ctx, want.ID); err != nil {
			return false, fmt.Errorf("hand over from %s: %w", m.node.name, err)
		}
	}
	return settled, nil
}
