package frr

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// programs is where Debian's package has the daemons.
const programs = "/usr/lib/frr"

// Group is the group that may talk to a daemon of Debian's package. The
// daemon insists on being in it.
const Group = "frrvty"

// Preflight reports that FRR is missing, in one line with the remedy.
func Preflight() error {
	for _, name := range []string{"zebra", "bgpd", "bfdd"} {
		if _, err := os.Stat(filepath.Join(programs, name)); err != nil {
			return fmt.Errorf("the program %s is missing: install the package frr", filepath.Join(programs, name))
		}
	}
	if _, err := exec.LookPath("vtysh"); err != nil {
		return errors.New("the program vtysh is missing: install the package frr")
	}
	return nil
}

// Shell is what a shell with mounts of its own does with [Arguments]: it gives the
// daemon an empty /var/tmp and becomes it.
const Shell = `mount -t tmpfs tmpfs /var/tmp && exec "$0" "$@"`

// Arguments are the command line of a daemon in its directory. It wants user root
// and [Group] from its first moment on.
func Arguments(daemon string) []string {
	args := []string{
		filepath.Join(programs, daemon), "-u", "root", "-g", Group, "-f", daemon + ".conf", "-z", "zserv.api", "-i", daemon + ".pid",
		"--vty_socket", ".", "-P", "0", "--log", "stdout",
	}
	if daemon == "bfdd" {
		args = append(args, "--bfdctl", "bfdd.sock")
	}
	return args
}

// Command is a daemon (zebra, bgpd, bfdd, vrrpd) ready to be started in the
// network namespace of a router by a spawner of package space. Its settings
// and sockets are in dir, which is made if need be; daemons of one router share
// one. zebra comes first. It logs to its stdout.
func Command(dir, daemon, settings string) (*exec.Cmd, error) {
	group, err := user.LookupGroup(Group)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w: install the package frr", daemon, err)
	}
	gid, err := strconv.ParseUint(group.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("run %s: group %s: %w", daemon, Group, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("run %s: %w", daemon, err)
	}
	// Settings may hold passwords.
	if err := os.WriteFile(filepath.Join(dir, daemon+".conf"), []byte(settings), 0o600); err != nil {
		return nil, fmt.Errorf("run %s: %w", daemon, err)
	}
	args := append([]string{"-c", Shell}, Arguments(daemon)...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// Mounts of its own, private ones, before anything is mounted.
		Unshareflags: syscall.CLONE_NEWNS,
		// The group that it would take by itself, which would cancel the signal
		// of its parent's death.
		Credential: &syscall.Credential{Uid: 0, Gid: uint32(gid), Groups: []uint32{uint32(gid)}},
	}
	return cmd, nil
}
