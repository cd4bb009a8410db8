package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// podPeer is the program in the directory of peers that runs in pods and as
// process 1 of machines.
const podPeer = "pod"

// machine is what a node with containers has beyond its network: pids and
// mounts of its own. They end with process 1, which ends with the lab, so that
// the kernel takes back every container, shim and mount however the lab ended.
type machine struct {
	init *Child
	// inside starts programs of the machine.
	inside *space.Spawner
}

// empties are what programs of a node write to at places fixed in their code:
// containerd's sockets of shims, kubelet's device plugins, CNI's cache, links
// to the logs of containers.
var empties = []string{"/run", "/var/lib", "/var/log"}

// fixed are settings of the whole machine that a kubelet changes
// (pkg/kubelet/cm, setupKernelTunables). It finds them done.
var fixed = []string{
	"/proc/sys/vm/overcommit_memory=1",
	"/proc/sys/vm/panic_on_oom=0",
	"/proc/sys/kernel/panic=10",
	"/proc/sys/kernel/panic_on_oops=1",
	"/proc/sys/kernel/keys/root_maxkeys=1000000",
	"/proc/sys/kernel/keys/root_maxbytes=25000000",
}

// boot starts the machine of a node.
func (n *Node) boot(ctx context.Context) (*machine, error) {
	program, err := findPeer(podPeer)
	if err != nil {
		return nil, err
	}
	argv := []string{program, "init"}
	for _, dir := range empties {
		argv = append(argv, "-empty", dir)
	}
	for _, dir := range []string{n.lab.dir, n.lab.data, filepath.Dir(program)} {
		argv = append(argv, "-keep", dir)
	}
	for _, f := range fixed {
		argv = append(argv, "-fix", f)
	}
	return n.bootBy(ctx, argv)
}

// bootBy starts the machine with a process 1.
func (n *Node) bootBy(ctx context.Context, argv []string) (*machine, error) {
	m := &machine{}
	var err error
	if m.init, err = n.runInit(ctx, argv); err != nil {
		return nil, fmt.Errorf("boot %s: %w", n.name, err)
	}
	if m.inside, err = space.NewSpawnerWith(n.space, m.init.Pid(), true); err != nil {
		return nil, fmt.Errorf("boot %s: %w", n.name, err)
	}
	n.machine.Store(m)
	return m, nil
}

// runInit starts process 1 and waits for its word.
func (n *Node) runInit(ctx context.Context, argv []string) (*Child, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer func() { _ = read.Close() }()
	p := Process{Name: "init-" + n.name, Argv: argv, Stdout: write, cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	child, err := n.Spawn(ctx, p)
	_ = write.Close()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = read.Close() })
	defer stop()
	word, err := bufio.NewReader(read).ReadString('\n')
	if strings.TrimSpace(word) == readyWord {
		return child, nil
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("it has ended: see %s", n.lab.logPath(p.Name))
	}
	return nil, errors.Join(fmt.Errorf("start process 1: %w", err), child.Stop(context.WithoutCancel(ctx), 0))
}

// path is where a file of the machine is seen from outside.
func (m *machine) path(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", m.init.Pid()), name)
}
