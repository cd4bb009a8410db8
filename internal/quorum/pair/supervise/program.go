package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// knownVersions are those whose logs package wal edits.
var knownVersions = []string{"3.5", "3.6", "3.7"}

// lookProgram finds the program and returns its absolute path.
func lookProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", refuse(NoProgram, "install etcd, or write its path behind --", "%v", err)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return path, nil
}

// askVersion runs the program with --version and checks that it is an etcd
// which the pair knows.
func askVersion(ctx context.Context, program string, who identity) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential()}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil && len(out) == 0 {
		if cmd.Process == nil {
			return "", startError(program, err)
		}
		return "", refuse(NoProgram, "run etcd itself, without a shell or another program around it", "%s --version: %v", program, err)
	}
	return parseVersion(program, out)
}

// parseVersion reads "etcd Version: 3.6.16" of the first line.
func parseVersion(program string, out []byte) (string, error) {
	line, _, _ := bytes.Cut(out, []byte("\n"))
	version, ok := strings.CutPrefix(string(line), "etcd Version: ")
	if !ok {
		return "", refuse(NoProgram, "run etcd itself, without a shell or another program around it", "%s --version does not answer as etcd does", program)
	}
	version = strings.TrimSpace(version)
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 || !slices.Contains(knownVersions, parts[0]+"."+parts[1]) {
		return "", refuse(Unfit, "use one of them", "%s is etcd %q; known are %s", program, version, strings.Join(knownVersions, ", "))
	}
	return version, nil
}

// identity is who etcd runs as.
type identity struct {
	uid, gid int
	groups   []uint32
	// other says that it is not who the agent runs as.
	other bool
}

// lookUser reads "name", "name:group" or numbers; empty is the agent's own.
func lookUser(spec string) (identity, error) {
	own := identity{uid: os.Geteuid(), gid: os.Getegid()}
	if spec == "" {
		return own, nil
	}
	name, group, grouped := strings.Cut(spec, ":")
	who, err := lookName(name)
	if err == nil && grouped {
		who.gid, err = lookGroup(group)
	}
	if err != nil {
		return identity{}, refuse(NotPermitted, "name one that is known to this machine", "--user %q: %v", spec, err)
	}
	who.other = who.uid != own.uid || who.gid != own.gid
	if who.other && own.uid != 0 {
		return identity{}, refuse(NotPermitted, "run the agent as root or as that user", "--user %q: user %d may not run etcd as another", spec, own.uid)
	}
	return who, nil
}

func lookName(name string) (identity, error) {
	u, err := user.Lookup(name)
	if id, bad := strconv.ParseUint(name, 10, 31); err != nil && bad == nil {
		// A number need not be of a known user.
		if u, err = user.LookupId(name); err != nil {
			return identity{uid: int(id), gid: int(id)}, nil
		}
	}
	if err != nil {
		return identity{}, err
	}
	who := identity{}
	if who.uid, err = strconv.Atoi(u.Uid); err != nil {
		return who, err
	}
	if who.gid, err = strconv.Atoi(u.Gid); err != nil {
		return who, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return who, err
	}
	for _, g := range groups {
		if id, err := strconv.ParseUint(g, 10, 32); err == nil {
			who.groups = append(who.groups, uint32(id))
		}
	}
	return who, nil
}

func lookGroup(name string) (int, error) {
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(id), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

func (w identity) credential() *syscall.Credential {
	if !w.other {
		return nil
	}
	return &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.gid), Groups: w.groups}
}
