package drill

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// force does what people do who have lost one of two members, in the run without the
// agents: the survivor is stopped and started with --force-new-cluster.
func (e *engine) force(ctx context.Context) {
	if e.clock.pause(ctx, e.run.Injected.Add(e.c.Pair.Forced)) != nil {
		return // the run ended before
	}
	if err := e.forceNew(ctx); err != nil {
		e.trouble("start with --force-new-cluster: %v", err)
	}
}

func (e *engine) forceNew(ctx context.Context) error {
	m, err := e.pairMember(e.c.Pair.Survivor)
	if err != nil {
		return err
	}
	if err := e.w.Journal(e.clock.now(), "a person starts "+m.Node().Name()+" with --force-new-cluster"); err != nil {
		return err
	}
	if err := m.Kill(ctx); err != nil {
		return err
	}
	m.RunElsewhere()
	_, err = m.Node().Spawn(ctx, lab.Process{
		Name: fmt.Sprintf("etcd-%s-%s-forced", e.c.Clusters[0].Name, m.Node().Name()), Argv: append(m.Argv(), "--force-new-cluster"),
	})
	return err
}

// givenUp says whether p is the member that stays away when the other was forced: with
// its old data it would meet a cluster of the same name and another history.
func (e *engine) givenUp(p scenario.Process) bool {
	return !e.agents && e.c.Pair.Forced > 0 && !p.Agent && !p.IsAPIServer() && p.Site != e.c.Pair.Survivor
}
