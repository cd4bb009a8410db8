package drill

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// forced says whether a person helps in this run as people do without agents.
func (e *engine) forced() bool { return !e.agents && e.c.Pair.Forced != "" }

// force starts a member that returns with --force-new-cluster. The other one stays away:
// with its old data it would meet a cluster of the same name and another history.
func (e *engine) force(ctx context.Context, p scenario.Process) error {
	if p.Site != e.c.Pair.Forced {
		return nil
	}
	m := e.members[p]
	if err := e.w.Journal(e.clock.now(), "a person starts "+m.Node().Name()+" with --force-new-cluster"); err != nil {
		return err
	}
	m.RunElsewhere()
	_, err := m.Node().Spawn(ctx, lab.Process{
		Name: fmt.Sprintf("etcd-%s-%s-forced", p.Cluster, m.Node().Name()), Argv: append(m.Argv(), "--force-new-cluster"),
	})
	return err
}
