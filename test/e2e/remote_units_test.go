package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// bootUnits makes systemd the first process of a node, with units and state of its own:
// an sshd, and a service that is to be struck. The machine's are not touched. A unit
// with default dependencies, such as a transient one, brings sysinit.target along: it
// must want nothing here, above all not systemd-tmpfiles, which empties /tmp at boot.
const bootUnits = `set -e
group=$1 conf=$2
echo $$ >"$group/cgroup.procs"
exec unshare --pid --fork --kill-child --mount --cgroup --ipc --uts sh -c 'set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /etc/systemd/system
mount -t tmpfs tmpfs /var/log
mount -t proc proc /proc
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs tmpfs /var/tmp
mount -t tmpfs tmpfs /usr/lib/tmpfiles.d
mount -t tmpfs tmpfs /etc/tmpfiles.d
for wants in /lib/systemd/system/*.wants; do mount -t tmpfs tmpfs "$wants"; done
mkdir -p /run/lock /run/sshd
u=/etc/systemd/system
printf "[Unit]\nDefaultDependencies=no\nWants=drill-sshd.service victim.service\n" >$u/drill.target
printf "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/usr/sbin/sshd -D -e -f %s\n" "$1" >$u/drill-sshd.service
printf "[Unit]\nDefaultDependencies=no\n[Service]\nRestart=always\nRestartSec=100ms\nExecStart=/bin/sleep 86400\n" >$u/victim.service
exec env -i container=holdfast PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=drill.target --log-target=console --show-status=no' boot "$conf"
`

// lacks skips a test that the machine cannot run, and fails it in CI.
func (h *hosts) lacks(why ...any) {
	h.t.Helper()
	if os.Getenv("CI") == "true" {
		h.t.Fatal(why...)
	}
	h.t.Skip(why...)
}

// systemd boots one in the node b1 in place of its sshd, and returns how to run
// systemctl there.
func (h *hosts) systemd() func(args ...string) string {
	h.t.Helper()
	for _, need := range []string{"/lib/systemd/systemd", "systemctl", "systemd-run", "unshare", "nsenter"} {
		if _, err := exec.LookPath(need); err != nil {
			h.lacks("no systemd to boot: ", err)
		}
	}
	group := h.group()
	if _, err := h.node("b1").Spawn(h.t.Context(), lab.Process{Name: "systemd", Argv: []string{"sh", "-c", bootUnits, "boot", group, h.path("sshd-b1")}}); err != nil {
		h.t.Fatal(err)
	}
	init := 0
	eventually(h.t, 30*time.Second, "systemd", func() bool {
		procs, _ := os.ReadFile(filepath.Join(group, "init.scope", "cgroup.procs"))
		_, _ = fmt.Sscan(string(procs), &init)
		return init != 0
	})
	ctl := func(args ...string) string {
		out, _ := exec.CommandContext(h.t.Context(), "nsenter", append([]string{"-t", fmt.Sprint(init), "-m", "-p", "-C", "--", "systemctl"}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	eventually(h.t, 30*time.Second, "the units", func() bool {
		return ctl("is-active", "victim.service") == "active" && ctl("is-active", "drill-sshd.service") == "active" && h.reaches()
	})
	return ctl
}

// group makes a control group that is removed with the test.
func (h *hosts) group() string {
	h.t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		w := strings.Fields(line)
		if len(w) < 3 || w[2] != "cgroup2" {
			continue
		}
		dir, err := os.MkdirTemp(w[1], "holdfast-remote-")
		if err != nil {
			h.lacks("no control group for systemd: ", err)
		}
		h.t.Cleanup(func() {
			_ = h.lab.Close()
			eventually(h.t, 10*time.Second, "the end of the control group", func() bool { return dropGroup(dir) == nil })
		})
		return dir
	}
	h.lacks("no cgroup2 for systemd")
	return ""
}

func dropGroup(dir string) error {
	below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, b := range below {
		if err := dropGroup(filepath.Dir(b)); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// TestRemoteUnits stops, kills and pauses a service of a real systemd over sshd, and
// has systemd's own timer be the dead man.
func TestRemoteUnits(t *testing.T) {
	h := newHostsOf(t, "a1")
	ctl := h.systemd()
	h.edit("site: b, role: server,", "site: b, role: server, units: {main: victim.service},")
	for verb, struck := range map[string]func() bool{
		"stop":  func() bool { return ctl("is-active", "victim.service") == "inactive" },
		"kill":  func() bool { return ctl("is-active", "victim.service") != "active" },
		"pause": func() bool { return strings.Contains(h.process(ctl), "State:\tT") },
	} {
		h.write("fault.yaml", strings.Replace(remoteCut, "cuts: [{from: a, to: b}]", verb+": [main/b]", 1))
		before := h.state("b1")
		child, out := h.drill("run", h.path("fault.yaml"), "--inventory", h.path("hosts.yaml"), "--yes")
		eventually(t, 30*time.Second, "the injection", func() bool { return strings.Contains(out.String(), "injected a-b") })
		if !struck() {
			t.Errorf("%s: %s, %s", verb, ctl("is-active", "victim.service"), h.process(ctl))
		}
		if timers := ctl("list-timers", "--all"); !strings.Contains(timers, "holdfast-drill-undo") {
			t.Errorf("%s: no dead man: %s", verb, timers)
		}
		if err := h.ended(child, out); err != nil {
			t.Errorf("%s: %v:\n%s", verb, err, out)
		}
		eventually(t, 5*time.Second, "the service", func() bool {
			return ctl("is-active", "victim.service") == "active" && !strings.Contains(h.process(ctl), "State:\tT")
		})
		if after := h.state("b1"); after != before || strings.Contains(ctl("list-timers", "--all"), "holdfast-drill-undo") {
			t.Errorf("%s: not as before:\n%s", verb, after)
		}
	}
	ctl("stop", "victim.service")
	child, out := h.drill("run", h.path("fault.yaml"), "--inventory", h.path("hosts.yaml"), "--yes")
	if err := h.ended(child, out); err == nil || !strings.Contains(out.String(), "victim.service is not active, so there is nothing to") {
		t.Errorf("a unit that does not run: %v:\n%s", err, out)
	}
}

// process is the status of the service's main process as the kernel has it.
func (h *hosts) process(ctl func(...string) string) string {
	pid := ctl("show", "-p", "MainPID", "--value", "victim.service")
	procs, _ := exec.CommandContext(h.t.Context(), "pgrep", "-f", "^/bin/sleep 86400$").Output()
	for _, outer := range strings.Fields(string(procs)) {
		status, _ := os.ReadFile("/proc/" + outer + "/status")
		if strings.Contains(string(status), "NSpid:\t"+outer+"\t"+pid+"\n") {
			return string(status)
		}
	}
	return "no process " + pid
}
