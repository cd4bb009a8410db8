package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// UnitOptions say which systemd unit runs etcd.
type UnitOptions struct {
	// Unit is its name, "etcd.service".
	Unit string
	// StateDir is for one agent only.
	StateDir string
	// Root is "/" outside tests: below it are the directories of systemd.
	Root string
	// Systemctl and Busctl are the programs, found in PATH; tests have their own.
	Systemctl, Busctl string
	Log               *slog.Logger
}

// Unit runs etcd as a systemd unit.
//
// A drop-in below /etc/systemd/system keeps systemd from starting it without
// the agent, also at boot, when nobody has read the arbiter yet: a condition on
// a file that is there only while Start runs, and Restart=no. A runtime mask would not
// do: a unit below /etc comes before /run, and after a boot it is gone.
//
// etcd is ended by a signal to its process, not by a stop of the unit, which
// would stop whatever requires it too, such as a kube-apiserver.
//
// The drop-in stays when the agent ends: etcd must not come up on its own
// between two agents. ReleaseUnit takes it away.
type Unit struct {
	o    UnitOptions
	ctl  control
	in   input
	path string // of the program
	cwd  string
	etcd Etcd
	lock *os.File

	mu   sync.Mutex
	proc *process
}

var _ Supervisor = (*Unit)(nil)

// NewUnit reads what the unit tells etcd and keeps systemd from starting it by
// itself. It starts and stops nothing. A *Refusal says what is in the way.
func NewUnit(ctx context.Context, o UnitOptions) (*Unit, error) {
	if !strings.Contains(o.Unit, ".") {
		o.Unit += ".service"
	}
	u := &Unit{o: o, ctl: newControl(o)}
	if err := owned(o.Root, o.Unit); err != nil {
		return nil, err
	}
	if err := u.read(ctx); err != nil {
		return nil, err
	}
	if err := prepareState(o.StateDir); err != nil {
		return nil, err
	}
	var err error
	if u.lock, err = lockState(o.StateDir); err != nil {
		return nil, err
	}
	if err := u.take(ctx); err != nil {
		_ = u.lock.Close()
		return nil, err
	}
	return u, nil
}

// read finds out what etcd is told.
func (u *Unit) read(ctx context.Context) error {
	f, err := u.ctl.facts(ctx)
	if err != nil {
		return err
	}
	if err := f.fit(u.o.Unit); err != nil {
		return err
	}
	env, err := f.environment()
	if err != nil {
		return err
	}
	argv, err := f.argv(env)
	if err != nil {
		return err
	}
	u.path, u.cwd = f.program, f.cwd()
	var e Etcd
	if u.in, e, err = understand(argv, env, u.cwd); err != nil {
		return err
	}
	if err := owned(u.o.Root, e.DataDir); err != nil {
		return err
	}
	who, err := lookUser(f.who())
	if err != nil {
		return err
	}
	e.UID, e.GID = who.uid, who.gid
	if e.Version, err = askVersion(ctx, u.path, identity{}); err != nil {
		return err
	}
	u.etcd = e
	return movable(e)
}

// take puts the gate in place, and looks whether etcd runs outside the unit.
func (u *Unit) take(ctx context.Context) error {
	if err := u.ctl.close(); err != nil {
		return err
	}
	if err := u.ctl.gate(ctx); err != nil {
		return err
	}
	s, err := u.look(ctx)
	if err != nil || s.Phase != Stopped {
		return err
	}
	used, err := inUse(u.etcd.DataDir)
	if err == nil && used {
		err = taken(u.etcd.DataDir)
	}
	return err
}

// Describe implements Supervisor.
func (u *Unit) Describe() Etcd { return u.etcd }

// State implements Supervisor.
func (u *Unit) State(ctx context.Context) (State, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.look(ctx)
}

// look asks systemd only when the process that it last named is gone.
func (u *Unit) look(ctx context.Context) (State, error) {
	if u.proc != nil {
		gone, err := u.proc.gone(0)
		if err != nil {
			return State{}, err
		}
		if !gone {
			return State{Phase: Running, PID: u.proc.pid, Since: u.proc.since()}, nil
		}
		u.proc.close()
		u.proc = nil
	}
	s, err := u.ctl.status(ctx)
	if err != nil {
		return State{}, err
	}
	if s.pid > 0 {
		if u.proc, err = identify(s.pid, 0); err == nil {
			return State{Phase: Running, PID: s.pid, Since: u.proc.since()}, nil
		}
		// It has ended between the two looks; the next one knows how.
		return State{Phase: Starting}, nil
	}
	if !s.settled() {
		return State{Phase: Starting}, nil
	}
	return State{Ended: s.ended}, nil
}

// Start implements Supervisor.
func (u *Unit) Start(ctx context.Context, mode Mode) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	s, err := u.look(ctx)
	if err != nil {
		return err
	}
	if s.Phase != Stopped {
		return fmt.Errorf("start %s: it is %s", u.o.Unit, s.Phase)
	}
	if err := u.etcd.check(mode); err != nil {
		return err
	}
	if used, err := inUse(u.etcd.DataDir); err != nil {
		return err
	} else if used {
		return taken(u.etcd.DataDir)
	}
	if err := ready(u.etcd, u.in); err != nil {
		return err
	}
	if err := u.arguments(ctx, mode); err != nil {
		return err
	}
	if err := u.launch(ctx); err != nil {
		return err
	}
	u.o.Log.Info("etcd is started", "unit", u.o.Unit)
	return nil
}

// arguments puts the drop-in of a join in place, or takes a former one away.
func (u *Unit) arguments(ctx context.Context, mode Mode) error {
	if !mode.Existing {
		return u.ctl.unjoin(ctx)
	}
	in, err := joinInput(u.in, u.cwd, mode.InitialCluster, u.etcd)
	if err != nil {
		return err
	}
	return u.ctl.join(ctx, append([]string{u.path}, in.words()...))
}

// launch opens the gate until systemd has passed it: the condition is looked at
// when the unit's turn comes, which is some time after the job was made.
func (u *Unit) launch(ctx context.Context) error {
	if err := u.ctl.open(); err != nil {
		return err
	}
	err := u.ctl.start(ctx)
	for err == nil {
		var s unitStatus
		if s, err = u.ctl.status(ctx); err != nil || !s.down() {
			break
		}
		if !s.job {
			err = refuse(NotStarted, "see: systemctl status "+u.o.Unit, "systemd does not start %s: it is %s, %s", u.o.Unit, s.active, s.result)
			break
		}
		err = pause(ctx, slice)
	}
	return errors.Join(err, u.ctl.close())
}

// pause waits, or ends with the context.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop implements Supervisor.
func (u *Unit) Stop(ctx context.Context, grace time.Duration) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.ctl.close(); err != nil {
		return err
	}
	killed := time.Now().Add(grace)
	for {
		s, err := u.look(ctx)
		if err != nil || s.Phase == Stopped {
			return err
		}
		if s.Phase == Running {
			if err := u.proc.end(ctx, max(0, time.Until(killed))); err != nil {
				return err
			}
			continue
		}
		// On its way up or down, as in ExecStartPre or ExecStopPost.
		if err := u.ctl.kill(ctx, time.Now().After(killed)); err != nil {
			return err
		}
		if err := pause(ctx, slice); err != nil {
			return fmt.Errorf("stop %s: it has not ended: %w", u.o.Unit, err)
		}
	}
}

// Detach implements Supervisor.
func (u *Unit) Detach() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.proc != nil {
		u.proc.close()
		u.proc = nil
	}
	_ = u.ctl.close()
	_ = u.lock.Close()
}

// ReleaseUnit gives the unit back to systemd, which may start it again: when
// the pair is given up. etcd goes on as it is.
func ReleaseUnit(ctx context.Context, o UnitOptions) error {
	if !strings.Contains(o.Unit, ".") {
		o.Unit += ".service"
	}
	return newControl(o).release(ctx)
}

// unitStatus is what systemd says of the unit at an instant.
type unitStatus struct {
	active, sub, result string
	pid                 int
	ended               *Ended
	job                 bool
}

// down says that nothing of the unit runs.
func (s unitStatus) down() bool {
	return s.pid == 0 && slices.Contains([]string{"inactive", "failed"}, s.active)
}

// settled says that systemd is done with the unit until told otherwise.
func (s unitStatus) settled() bool { return s.down() && !s.job }

// endedBy reads ExecMainCode and ExecMainStatus: CLD_EXITED, CLD_KILLED and
// CLD_DUMPED of waitid(2), and the code or signal.
func endedBy(code, status int) *Ended {
	switch code {
	case 1:
		return &Ended{Known: true, Code: status}
	case 2, 3:
		return &Ended{Known: true, Signal: unix.Signal(status)}
	}
	return nil
}
