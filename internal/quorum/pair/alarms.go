package pair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

// raised are the alarms of etcd that stand, as it last told them. While one does, a
// quorum answers reads, and no member takes a write.
func (o *observer) raised() []etcd.Alarm {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.status.Raised)
}

// remedies say what a person does about an alarm.
var remedies = map[string]string{
	"NOSPACE": "its database is as large as --quota-backend-bytes allows; compact and defragment, or raise the quota, then etcdctl alarm disarm",
	"CORRUPT": "its data differs from the other's; find out whose is right, and there: holdfast pair claim, etcdctl alarm disarm, holdfast pair release",
}

// sentences are sentences about alarms, in order.
func sentences(raised []etcd.Alarm, name func(member uint64) string) []string {
	var all []string
	for _, a := range raised {
		text := fmt.Sprintf("etcd's alarm %s stands for %s, so no member takes writes", a.Name, name(a.Member))
		if remedy := remedies[a.Name]; remedy != "" {
			text += ": " + remedy
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// nameOf names a member of the pair by its id; others keep theirs.
func (a *Agent) nameOf(v View) func(uint64) string {
	return func(id uint64) string {
		switch m := v.Members; id {
		case uint64(m.Self):
			return a.settings.Name
		case uint64(m.Peer), uint64(m.Learner):
			return a.settings.Peer.Name
		}
		return fmt.Sprintf("member %x", id)
	}
}

// reportAlarms logs alarms that etcd has raised or ended, and notes them for people.
func (a *Agent) reportAlarms(v View, now []string) {
	a.mu.Lock()
	was := a.alarms
	a.alarms = now
	a.mu.Unlock()
	if slices.Equal(was, now) {
		return
	}
	level, text := slog.LevelWarn, strings.Join(now, "; ")
	if len(now) == 0 {
		level, text = slog.LevelInfo, "no alarm of etcd stands any more"
	}
	a.history.add(Event{Time: time.Now(), Do: Nothing, Why: text, Record: describe(v.Arbiter.Record), Alarm: len(now) > 0})
	a.log.Log(context.Background(), level, text, "record", describe(v.Arbiter.Record))
}

// serves is nil if clients can write here.
func serves(v View, p Plan, alarms []string) error {
	switch {
	case !v.quorate():
		return errors.New(p.Why)
	case len(alarms) > 0:
		return errors.New(alarms[0])
	}
	return nil
}
