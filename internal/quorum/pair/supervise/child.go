package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// ChildOptions say how etcd is run as a child of the agent.
type ChildOptions struct {
	// Command is etcd and its arguments.
	Command []string
	// Env is the agent's environment; etcd gets it without what is the agent's alone.
	Env []string
	// StateDir keeps what the next agent has to know, for one agent only.
	StateDir string
	// User is who etcd runs as, by name or number, with a group behind a colon
	// if need be: "etcd", "etcd:etcd", "1000". Empty: as the agent.
	User string
	// Stdout and Stderr are the agent's. etcd gets them too, unless they end
	// with the agent: then it writes to etcd.log in StateDir.
	Stdout, Stderr *os.File
	// Root is "/" outside tests: below it other owners of etcd are looked for.
	Root string
	Log  *slog.Logger
}

// Child runs etcd as a child of the agent, which outlives it.
type Child struct {
	o       ChildOptions
	in      input
	program string
	cwd     string
	etcd    Etcd
	who     identity
	lock    *os.File

	mu   sync.Mutex
	rec  *record
	proc *process
	cmd  *exec.Cmd // nil for a child of a former agent
}

var _ Supervisor = (*Child)(nil)

// NewChild reads what etcd is told and adopts the child of a former agent. It
// starts nothing. A *Refusal says what is in the way.
func NewChild(ctx context.Context, o ChildOptions) (*Child, error) {
	c := &Child{o: o}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	if err := prepareState(o.StateDir); err != nil {
		return nil, err
	}
	var err error
	if c.lock, err = lockState(o.StateDir); err != nil {
		return nil, err
	}
	if err := c.adopt(); err != nil {
		_ = c.lock.Close()
		return nil, err
	}
	return c, nil
}

// read finds out what etcd is told.
func (c *Child) read(ctx context.Context) (err error) {
	if len(c.o.Command) == 0 {
		return refuse(NoProgram, "write it behind --: -- etcd --name a …", "no etcd to run is given")
	}
	if c.program, err = lookProgram(c.o.Command[0]); err != nil {
		return err
	}
	if c.who, err = lookUser(c.o.User); err != nil {
		return err
	}
	if c.cwd, err = os.Getwd(); err != nil {
		return fmt.Errorf("find working directory: %w", err)
	}
	if c.in, c.etcd, err = understand(c.o.Command[1:], childEnv(c.o.Env), c.cwd); err != nil {
		return err
	}
	if err := owned(c.o.Root, c.etcd.DataDir); err != nil {
		return err
	}
	c.etcd.UID, c.etcd.GID = c.who.uid, c.who.gid
	if c.etcd.Version, err = askVersion(ctx, c.program, c.who); err != nil {
		return err
	}
	return movable(c.etcd)
}

// understand reads a command line and environment, and the configuration file
// that they may name.
func understand(words, env []string, cwd string) (input, Etcd, error) {
	args, err := parseArguments(words)
	if err != nil {
		return input{}, Etcd{}, err
	}
	in := input{args: args, env: env}
	s, err := in.settings()
	if path := in.configFile(); path != "" {
		var content []byte
		if content, err = readConfigFile(absolute(cwd, path)); err == nil {
			s, err = parseFile(content)
		}
	}
	if err != nil {
		return input{}, Etcd{}, err
	}
	e, err := describe(s, cwd)
	return in, e, err
}

func readConfigFile(path string) ([]byte, error) {
	content, err := file.Read(path, maxFile)
	if err != nil {
		return nil, refuse(Unclear, "correct --config-file or the file", "configuration file: %v", err)
	}
	return content, nil
}

// childEnv is the environment without what speaks to the agent alone: what
// systemd expects its main process to answer, and the agent's own settings.
func childEnv(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case name == "NOTIFY_SOCKET", strings.HasPrefix(name, "WATCHDOG_"), strings.HasPrefix(name, "LISTEN_"), strings.HasPrefix(name, "HOLDFAST_"):
		default:
			out = append(out, e)
		}
	}
	return out
}

// adopt takes over the child of a former agent, and refuses an etcd of others.
func (c *Child) adopt() error {
	var err error
	if c.rec, err = readRecord(c.o.StateDir); err != nil {
		return err
	}
	if c.rec != nil && c.rec.Ended == nil {
		c.proc = c.rec.adopt()
	}
	if c.proc == nil {
		if c.rec != nil && c.rec.Ended == nil {
			c.rec.Ended = &Ended{}
		}
		return c.free()
	}
	if c.rec.DataDir != c.etcd.DataDir {
		return refuse(Unclear, "stop it, or give the former --data-dir", "etcd (process %d) of the former agent runs on %s, and --data-dir is %s now", c.proc.pid, c.rec.DataDir, c.etcd.DataDir)
	}
	c.o.Log.Info("etcd goes on running", "pid", c.proc.pid, "since", c.proc.since())
	return c.rec.write(c.o.StateDir)
}

// free checks that nobody else runs etcd on the data directory.
func (c *Child) free() error {
	used, err := inUse(c.etcd.DataDir)
	if err != nil {
		return err
	}
	if used {
		return taken(c.etcd.DataDir)
	}
	return nil
}

// Describe implements Supervisor.
func (c *Child) Describe() Etcd { return c.etcd }

// State implements Supervisor.
func (c *Child) State(context.Context) (State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.look()
}

func (c *Child) look() (State, error) {
	if c.proc != nil {
		gone, err := c.proc.gone(0)
		if err != nil {
			return State{}, err
		}
		if !gone {
			return State{Phase: Running, PID: c.proc.pid, Since: c.proc.since()}, nil
		}
		c.bury()
	}
	if c.rec == nil {
		return State{}, nil
	}
	return State{Ended: c.rec.Ended}, nil
}

// bury notes how the process that is gone has ended.
func (c *Child) bury() {
	how := Ended{}
	if c.cmd != nil {
		_ = c.cmd.Wait() // its error says the same
		if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
			how.Known = true
			if ws.Signaled() {
				how.Signal = ws.Signal()
			} else {
				how.Code = ws.ExitStatus()
			}
		}
	}
	c.o.Log.Info("etcd has ended", "pid", c.proc.pid, "how", how.String())
	c.proc.close()
	c.proc, c.cmd, c.rec.Ended = nil, nil, &how
	c.save()
}

// save writes the record. Without it the next agent finds the child by its
// token, so that a full disk is no reason to give up.
func (c *Child) save() {
	if err := c.rec.write(c.o.StateDir); err != nil {
		c.o.Log.Warn("the record of etcd's process is not written", "err", err)
	}
}

// Start implements Supervisor.
func (c *Child) Start(_ context.Context, mode Mode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.look()
	if err != nil {
		return err
	}
	if s.Phase != Stopped {
		return fmt.Errorf("start etcd: it is %s, process %d", s.Phase, s.PID)
	}
	if err := c.etcd.check(mode); err != nil {
		return err
	}
	if err := c.free(); err != nil {
		return err
	}
	if err := ready(c.etcd, c.in); err != nil {
		return err
	}
	in := c.in
	if mode.Existing {
		if in, err = joinInput(c.in, c.cwd, mode.InitialCluster, c.etcd); err != nil {
			return err
		}
	}
	return c.launch(in)
}

// joinInput is the input of a member that joins. With a configuration file it
// writes the copy that the input names: into the data directory, which whoever
// etcd runs as reaches for certain.
func joinInput(in input, cwd, cluster string, e Etcd) (input, error) {
	parent := filepath.Join(e.DataDir, asideParent)
	path := filepath.Join(parent, joinName)
	if from := in.configFile(); from != "" {
		content, err := readConfigFile(absolute(cwd, from))
		if err != nil {
			return input{}, err
		}
		if content, err = joinFile(content, cluster); err != nil {
			return input{}, err
		}
		if err := makeDir(parent, e); err != nil && !errors.Is(err, fs.ErrExist) {
			return input{}, err
		}
		if err := replace(path, content); err != nil {
			return input{}, err
		}
		if err := ownAs(path, e.DataDir); err != nil {
			return input{}, err
		}
	}
	return in.join(cluster, path), nil
}

func (c *Child) launch(in input) error {
	rec := &record{
		Version: recordVersion, Token: newToken(), Boot: bootID(), DataDir: c.etcd.DataDir,
		Command: append([]string{c.program}, in.words()...),
	}
	if err := rec.write(c.o.StateDir); err != nil {
		return err
	}
	out, err := outputs(c.o.Stdout, c.o.Stderr, filepath.Join(c.o.StateDir, logName))
	if err != nil {
		return err
	}
	defer out.close()
	fd := -1
	cmd := exec.Command(c.program, in.words()...)
	cmd.Env = append(in.env, rec.mark())
	cmd.Stdout, cmd.Stderr = out.stdout, out.stderr
	// A session of its own: neither a terminal that closes nor a signal to the
	// agent's group ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, PidFD: &fd, Credential: c.who.credential()}
	if err := cmd.Start(); err != nil {
		rec.Ended = &Ended{}
		c.rec = rec
		return startError(c.program, err)
	}
	if fd < 0 {
		// Still a child that nobody waited for: the number is its own.
		if fd, err = unix.PidfdOpen(cmd.Process.Pid, 0); err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return fmt.Errorf("start etcd: this kernel has no pidfd_open, which came with 5.3: %w", err)
		}
	}
	start, err := startOf(cmd.Process.Pid)
	if err != nil {
		c.o.Log.Warn("when etcd started is not known", "err", err)
	}
	c.rec, c.cmd, c.proc = rec, cmd, &process{pid: cmd.Process.Pid, start: start, fd: fd}
	c.rec.PID, c.rec.Start = c.proc.pid, start
	c.save()
	c.o.Log.Info("etcd is started", "pid", c.proc.pid, "log", out.where)
	return nil
}

// Stop implements Supervisor.
func (c *Child) Stop(ctx context.Context, grace time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.look()
	if err != nil || s.Phase == Stopped {
		return err
	}
	if err := c.proc.end(ctx, grace); err != nil {
		return err
	}
	c.bury()
	return nil
}

// end asks, then kills, and returns when the process is gone.
func (p *process) end(ctx context.Context, grace time.Duration) error {
	if grace > 0 {
		if err := p.signal(unix.SIGTERM); err != nil {
			return err
		}
		if gone, err := p.await(ctx, grace); gone || err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("stop etcd: process %d has not ended: %w", p.pid, context.Cause(ctx))
	}
	if err := p.signal(unix.SIGKILL); err != nil {
		return err
	}
	const forever = time.Duration(1<<63 - 1)
	gone, err := p.await(ctx, forever)
	if err == nil && !gone {
		// It waits for a disk that does not answer.
		err = fmt.Errorf("stop etcd: process %d is killed and still not gone: %w", p.pid, context.Cause(ctx))
	}
	return err
}

// Detach implements Supervisor.
func (c *Child) Detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc != nil {
		c.proc.close()
		c.proc = nil
	}
	_ = c.lock.Close()
}

// startError is a person's view of a program that could not be started.
func startError(program string, err error) error {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return refuse(NotPermitted, "allow it, or choose another --user", "%s cannot be run: %v", program, err)
	case errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.ENOENT):
		return refuse(NoProgram, "install etcd for this machine", "%s cannot be run: %v", program, err)
	}
	return fmt.Errorf("start etcd: %w", err)
}
