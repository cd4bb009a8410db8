package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// settleTime is how long etcd's lock has to be free, with the manifest away,
// until nothing is expected of the kubelet any more: it may start a container
// once more from its copy of the manifest. It learns of the change by inotify,
// within its next look at all pods, a second later, at the latest.
const settleTime = 3 * time.Second

// StaticPodOptions say which static pod runs etcd.
type StaticPodOptions struct {
	// Manifest is its file in the kubelet's directory.
	Manifest string
	// StateDir is for one agent only.
	StateDir string
	// Root is "/" outside tests: below it other owners of etcd are looked for.
	Root string
	Log  *slog.Logger
}

// StaticPod runs etcd as a static pod: it is started by its manifest's coming
// into the kubelet's directory and stopped by its going.
//
// A manifest that is away is in the same directory, under a name that begins
// with a dot and ends in ".holdfast", which the kubelet passes over. For a join another
// is put in its place, with an annotation that tells it from a person's.
//
// The kubelet starts it again whenever it ends, and when the machine boots,
// without the agent: until Stop it is Starting then, and never Stopped.
type StaticPod struct {
	o    StaticPodOptions
	away string
	etcd Etcd
	lock *os.File

	mu sync.Mutex
	// free is since when etcd's lock was found free without a manifest, by the
	// monotonic clock; zero if it was not.
	free    time.Time
	settled bool
}

var _ Supervisor = (*StaticPod)(nil)

// NewStaticPod reads what the manifest tells etcd. It changes nothing. A
// *Refusal says what is in the way.
func NewStaticPod(_ context.Context, o StaticPodOptions) (*StaticPod, error) {
	path, err := filepath.Abs(o.Manifest)
	if err != nil {
		return nil, fmt.Errorf("find manifest: %w", err)
	}
	o.Manifest = path
	p := &StaticPod{o: o, away: awayFrom(path)}
	if err := owned(o.Root, path); err != nil {
		return nil, err
	}
	pod, err := p.original()
	if err != nil {
		return nil, err
	}
	if p.etcd, err = pod.describe(); err != nil {
		return nil, err
	}
	if err := errors.Join(owned(o.Root, p.etcd.DataDir), movable(p.etcd)); err != nil {
		return nil, err
	}
	if err := prepareState(o.StateDir); err != nil {
		return nil, err
	}
	p.lock, err = lockState(o.StateDir)
	return p, err
}

// awayFrom is where a manifest is while it is away.
func awayFrom(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".holdfast")
}

// original reads a person's manifest: the one in place, unless it is of a join,
// or the one that is away.
func (p *StaticPod) original() (*manifest, error) {
	first := error(nil)
	for _, path := range []string{p.o.Manifest, p.away} {
		m, err := readManifest(path)
		if err == nil && !(m.joins && path == p.o.Manifest && exists(p.away)) {
			return m, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, refuse(NoProgram, "correct --static-pod", "no manifest: %v", first)
}

func readManifest(path string) (*manifest, error) {
	content, err := file.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return parseManifest(content)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Describe implements Supervisor.
func (p *StaticPod) Describe() Etcd { return p.etcd }

// State implements Supervisor.
func (p *StaticPod) State(context.Context) (State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.look()
}

// look asks etcd's own lock. Once stopped it is not touched any more, as the
// agent may need it.
func (p *StaticPod) look() (State, error) {
	placed := exists(p.o.Manifest)
	if !placed && p.settled {
		return State{}, nil
	}
	p.settled = false
	used, err := inUse(p.etcd.DataDir)
	if err != nil {
		return State{}, err
	}
	switch {
	case used:
		p.free = time.Time{}
		s := State{Phase: Running, PID: holder(p.etcd.DataDir)}
		if proc, err := identify(s.PID, 0); err == nil {
			s.Since = proc.since()
			proc.close()
		}
		return s, nil
	case placed:
		p.free = time.Time{}
		return State{Phase: Starting}, nil
	case p.free.IsZero():
		p.free = time.Now()
	}
	p.settled = time.Since(p.free) >= settleTime
	if !p.settled {
		return State{Phase: Starting}, nil
	}
	return State{}, nil
}

// Start implements Supervisor.
func (p *StaticPod) Start(_ context.Context, mode Mode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.look()
	if err != nil {
		return err
	}
	if s.Phase != Stopped {
		return fmt.Errorf("start %s: it is %s", p.o.Manifest, s.Phase)
	}
	if err := p.etcd.check(mode); err != nil {
		return err
	}
	m, err := readManifest(p.away)
	if err != nil {
		return err
	}
	if err := p.ready(m); err != nil {
		return err
	}
	if !mode.Existing {
		err = os.Rename(p.away, p.o.Manifest)
	} else {
		err = p.join(m, mode.InitialCluster)
	}
	if err != nil {
		return fmt.Errorf("start static pod: %w", err)
	}
	p.settled, p.free = false, time.Time{}
	p.o.Log.Info("etcd is started", "manifest", p.o.Manifest)
	return syncDirs(filepath.Dir(p.o.Manifest))
}

// ready looks for what a start would fail of.
func (p *StaticPod) ready(m *manifest) error {
	if err := finishMoves(p.etcd); err != nil {
		return err
	}
	if err := errors.Join(readyDir(p.etcd), readySpace(p.etcd)); err != nil {
		return err
	}
	if !m.pod.Spec.HostNetwork {
		return nil
	}
	return readyPorts(p.etcd)
}

// join puts a manifest with the arguments of a join in place, and leaves the
// original where it is.
func (p *StaticPod) join(m *manifest, cluster string) error {
	content, err := m.join(cluster)
	if err != nil {
		return err
	}
	tmp := p.away + ".tmp"
	if err := writeSynced(tmp, content); err != nil {
		return err
	}
	return os.Rename(tmp, p.o.Manifest)
}

// withdraw takes the manifest away from the kubelet.
func (p *StaticPod) withdraw() error {
	m, err := readManifest(p.o.Manifest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && m.joins && exists(p.away):
		err = os.Remove(p.o.Manifest)
	default:
		// Also one that cannot be read: the kubelet might.
		err = os.Rename(p.o.Manifest, p.away)
	}
	if err != nil {
		return fmt.Errorf("stop static pod: %w", err)
	}
	p.o.Log.Info("the manifest of etcd is taken away", "from", p.o.Manifest, "original", p.away)
	return syncDirs(filepath.Dir(p.o.Manifest))
}

// Stop implements Supervisor. The kubelet asks etcd to end; when grace is over
// it is killed here, if its process can be seen from here.
func (p *StaticPod) Stop(ctx context.Context, grace time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.withdraw(); err != nil {
		return err
	}
	deadline := time.Now().Add(grace)
	for {
		s, err := p.look()
		if err != nil || s.Phase == Stopped {
			return err
		}
		if s.PID > 0 && !time.Now().Before(deadline) {
			if proc, err := identify(s.PID, 0); err == nil {
				err = proc.signal(unix.SIGKILL)
				proc.close()
				if err != nil {
					return err
				}
			}
		}
		if err := pause(ctx, slice); err != nil {
			return fmt.Errorf("stop static pod: it has not ended: %w", err)
		}
	}
}

// Detach implements Supervisor.
func (p *StaticPod) Detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.lock.Close()
}

// ReleaseStaticPod gives a manifest that is away back to the kubelet: when the
// pair is given up.
func ReleaseStaticPod(path string) error {
	away := awayFrom(path)
	if !exists(away) {
		return nil
	}
	if err := os.Rename(away, path); err != nil {
		return fmt.Errorf("give static pod back: %w", err)
	}
	return syncDirs(filepath.Dir(path))
}
