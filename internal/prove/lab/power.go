package lab

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// PowerOn makes the node a machine of its own: what SpawnInside starts has pids
// of its own and ends with the machine, whoever started it and whatever session it
// made. A node that is on stays so.
func (n *Node) PowerOn(ctx context.Context) error {
	if n.machine.Load() != nil {
		return nil
	}
	program, err := findPeer(podPeer)
	if err != nil {
		return err
	}
	_, err = n.bootBy(ctx, []string{program, "init"})
	return err
}

// PowerOff ends every process of the machine at one moment, as a loss of power
// does: the kernel kills a pid namespace whose process 1 is killed. It returns when all
// are gone. Files stay as they are.
func (n *Node) PowerOff(ctx context.Context) error {
	m := n.machine.Swap(nil)
	if m == nil {
		return fmt.Errorf("power off %s: %w", n.name, errOff)
	}
	defer m.inside.Close()
	if err := m.init.Stop(ctx, 0); err != nil {
		return fmt.Errorf("power off %s: %w", n.name, err)
	}
	return nil
}

// errOff says that a node is no machine, or is off.
var errOff = errors.New("it is not on; power it on first")

// SpawnInside is Spawn on the machine of the node.
func (n *Node) SpawnInside(ctx context.Context, p Process) (*Child, error) {
	m := n.machine.Load()
	if m == nil {
		return nil, fmt.Errorf("start %s in %s: %w", p.Name, n.name, errOff)
	}
	return n.lab.spawn(ctx, n.name, m.inside, p)
}

// Inside lists the pids, as seen from outside, of all processes of the machine but
// process 1; none when it is off.
func (n *Node) Inside() ([]int, error) {
	m := n.machine.Load()
	if m == nil {
		return nil, nil
	}
	var own unix.Stat_t
	if err := unix.Stat(pidNamespace(m.init.Pid()), &own); err != nil {
		return nil, fmt.Errorf("look at the machine %s: %w", n.name, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil || pid == m.init.Pid() {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(pidNamespace(pid), &st) == nil && st.Ino == own.Ino {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func pidNamespace(pid int) string { return fmt.Sprintf("/proc/%d/ns/pid", pid) }
