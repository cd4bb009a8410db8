package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

const (
	// moveTimeout ends MoveLeader, which etcd itself would let run for ever.
	// PD uses the same 5 s for the same call.
	moveTimeout = 5 * time.Second
	// checkTimeout bounds the last check of the target. An unreachable
	// transferee stops all writes for one election timeout (1 s measured).
	checkTimeout = 700 * time.Millisecond
	// quietWindow is how long a move waits for few pending proposals: each
	// proposal in flight through a follower hangs for 7 s.
	quietWindow = 300 * time.Millisecond
	quietEvery  = 50 * time.Millisecond
	// recordTimeout bounds the write of the decision.
	recordTimeout = 2 * time.Second
	// settleAfterFail is raft's own limit on a transfer (one election
	// timeout, 1 s by default) with slack: only then is it certain that a
	// failed transfer is over.
	settleAfterFail = 1500 * time.Millisecond
)

// outcome of an attempt to move.
type moveResult struct {
	err       error
	attempted bool // MoveLeader was called
	recorded  bool // the decision is durable somewhere
	took      time.Duration
}

// mover carries out a Move on the own member.
type mover struct {
	own     *etcd.Member
	ownURL  string
	store   *store
	obs     *observer
	metrics *loadSource
	cfg     Config
	record  *decisionRecord
	// recorded is told once the record of the move is durable, and confirm is
	// asked last.
	recorded func(Move)
	confirm  func(context.Context, Move) error
}

// move checks once more, records the decision and moves leadership.
func (m *mover) move(ctx context.Context, move Move) moveResult {
	own, err := m.stillLeads(ctx, move)
	if err != nil {
		return moveResult{err: err}
	}
	if err := m.checkTarget(ctx, move, own); err != nil {
		return moveResult{err: err}
	}
	if err := m.remember(ctx, move.Target, move.Record); err != nil {
		return moveResult{err: err}
	}
	m.recorded(move)
	recorded := time.Now()
	m.awaitQuiet(ctx)
	if err := m.confirm(ctx, move); err != nil {
		return moveResult{err: err, recorded: true}
	}
	start := time.Now()
	if late := start.Sub(recorded); late > m.cfg.MoveWithin {
		// Others already age the record; the machine stood still, or starves.
		return moveResult{err: fmt.Errorf("%s after the record it is too late to begin", short(late)), recorded: true}
	}
	call, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	err = m.own.MoveLeader(call, uint64(move.Target))
	return moveResult{err: err, attempted: true, recorded: true, took: time.Since(start)}
}

// stillLeads re-reads the own status: the plan holds in one term only.
func (m *mover) stillLeads(ctx context.Context, move Move) (etcd.Status, error) {
	one, cancel := context.WithTimeout(ctx, m.obs.statusPatience())
	defer cancel()
	s, err := m.own.Status(one)
	if err != nil {
		return s, err
	}
	if s.Leader != s.Member || s.Term != move.Term {
		return s, fmt.Errorf("the own member no longer leads in term %d; leader %x, term %d", move.Term, s.Leader, s.Term)
	}
	return s, nil
}

// checkTarget makes sure the target can take over now: its peer port answers
// a fresh connection, and it follows this leader in this term, without
// alarms and not behind. Where its client port is closed between sites its
// agent speaks for it.
func (m *mover) checkTarget(ctx context.Context, move Move, own etcd.Status) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	probed := make(chan error, 1)
	go func() { probed <- m.probeTarget(ctx, move.Target) }()
	s, err := m.targetStatus(ctx, move.Target)
	if probe := <-probed; probe != nil {
		return fmt.Errorf("target cannot be reached on its peer port: %w", probe)
	}
	if err != nil {
		return fmt.Errorf("target cannot be asked: %w", err)
	}
	switch {
	case s.Leader != own.Member || s.Term != own.Term:
		return fmt.Errorf("target follows %x in term %d, not %x in term %d", s.Leader, s.Term, own.Member, own.Term)
	case s.Learner:
		return errors.New("target is a learner")
	case len(s.Alarms) > 0:
		return fmt.Errorf("target reports %s", strings.Join(s.Alarms, ", "))
	case s.Index+m.cfg.CatchUp < own.Index:
		return fmt.Errorf("target is %d entries behind", own.Index-s.Index)
	}
	return nil
}

func (m *mover) probeTarget(ctx context.Context, target MemberID) error {
	w, ok := m.obs.watchOf(target)
	if !ok {
		return errors.New("it is no longer a member")
	}
	_, err := w.probe(ctx, true)
	return err
}

// targetStatus asks the target on its client URLs, and its agent if those are
// closed. Both are asked at once: half of the deadline may not go to waste.
func (m *mover) targetStatus(ctx context.Context, target MemberID) (etcd.Status, error) {
	type answer struct {
		status etcd.Status
		err    error
	}
	answers := make(chan answer, 2)
	go func() {
		s, err := m.statusByClient(ctx, target)
		answers <- answer{s, err}
	}()
	go func() {
		s, err := m.statusByAgent(ctx, target)
		answers <- answer{s, err}
	}()
	first := <-answers
	if first.err == nil {
		return first.status, nil
	}
	second := <-answers
	return second.status, second.err
}

func (m *mover) statusByClient(ctx context.Context, target MemberID) (etcd.Status, error) {
	peers, _ := m.obs.membership()
	err := errors.New("it has no client URL")
	for _, p := range peers {
		if MemberID(p.ID) != target {
			continue
		}
		for _, url := range p.ClientURLs {
			var conn *etcd.Member
			if conn, err = m.store.member(url); err != nil {
				continue
			}
			var s etcd.Status
			if s, err = conn.Status(ctx); err == nil && MemberID(s.Member) == target {
				return s, nil
			}
		}
	}
	return etcd.Status{}, err
}

func (m *mover) statusByAgent(ctx context.Context, target MemberID) (etcd.Status, error) {
	agent, ok := m.obs.agents()[target]
	if !ok {
		return etcd.Status{}, errors.New("no agent beside it is known")
	}
	rows, err := agent.rows(ctx)
	if err != nil {
		return etcd.Status{}, err
	}
	for _, r := range rows {
		if r.Member == target && r.Reachable && r.Age < 2*time.Second {
			return etcd.Status{
				Cluster: r.Cluster, Member: uint64(r.Member), Leader: uint64(r.Leader), Term: r.Term,
				Index: r.Index, Applied: r.Applied, Learner: r.Learner, Alarms: r.Alarms, Version: r.Version,
			}, nil
		}
	}
	return etcd.Status{}, errors.New("its agent does not reach it")
}

// remember makes the record durable before the move: in etcd, or, where etcd
// takes no writes (NOSPACE), in the agent of the target, who decides next.
func (m *mover) remember(ctx context.Context, target MemberID, p Penalty) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := m.record.write(ctx, m.store, m.ownURL, p)
	if err == nil || !isNoSpace(err) {
		return err
	}
	agent, ok := m.obs.agents()[target]
	if !ok {
		return fmt.Errorf("%w, and no agent beside the target could keep the record instead", err)
	}
	return agent.tell(ctx, p)
}

// isNoSpace reports whether the cluster refuses writes for its quota alarm.
func isNoSpace(err error) bool {
	return errors.Is(err, rpctypes.ErrNoSpace) || strings.Contains(err.Error(), "database space exceeded")
}

// awaitQuiet waits for a moment of few pending proposals, at most quietWindow.
func (m *mover) awaitQuiet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, quietWindow)
	defer cancel()
	least := -1.0
	for {
		load, err := m.metrics.Read(ctx)
		if err != nil {
			return // no metrics, no choice of moment
		}
		if load.Pending == 0 || (least >= 0 && load.Pending <= least) {
			return
		}
		least = load.Pending
		if !pause(ctx, quietEvery) {
			return
		}
	}
}
