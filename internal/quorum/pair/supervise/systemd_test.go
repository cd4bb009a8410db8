package supervise

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/offspring"
)

// insideVariable is set where the test binary runs under a systemd of its own.
const insideVariable = "SUPERVISE_TEST_SYSTEMD"

// boot makes systemd the first process of new namespaces, with units and state
// of its own. The machine's are not touched: sysinit.target, which units bring along,
// wants nothing here, above all not systemd-tmpfiles, which empties /tmp at boot.
const boot = `set -e
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
mkdir -p /run/lock /etc/systemd/system/dbus.socket.d /etc/systemd/system/dbus.service.d
printf '[Unit]\nRequires=dbus.socket\nAfter=dbus.socket\nDefaultDependencies=no\n' > /etc/systemd/system/holdfast-test.target
for unit in dbus.socket dbus.service; do
	printf '[Unit]\nDefaultDependencies=no\n' > /etc/systemd/system/$unit.d/test.conf
done
exec env -i container=holdfast PATH=/usr/sbin:/usr/bin:/sbin:/bin "$1" --system --unit=holdfast-test.target --log-target=console --show-status=no
`

// systemd boots one and returns its process.
func systemd(t *testing.T) int {
	t.Helper()
	program := "/lib/systemd/systemd"
	if os.Geteuid() != 0 {
		t.Skip("booting systemd takes root")
	}
	for _, need := range []string{program, "busctl", "systemctl", "dbus-daemon", "unshare", "nsenter"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip("no systemd to boot: ", err)
		}
	}
	group := testGroup(t)
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--ipc", "--uts", "bash", "-c", boot, "boot", program)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	f, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	if err := offspring.Start(cmd); err != nil {
		t.Skip("no systemd can be booted here: ", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	init := 0
	if !comes(30*time.Second, func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		_, _ = fmt.Sscan(string(b), &init)
		return init != 0 && inside(init, "systemctl", "is-active", "dbus.socket").Run() == nil
	}) {
		t.Skipf("systemd does not come up here: %s", said.String())
	}
	return init
}

// testGroup makes a control group that is removed with the test.
func testGroup(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		w := strings.Fields(line)
		if len(w) < 3 || w[2] != "cgroup2" {
			continue
		}
		dir, err := os.MkdirTemp(w[1], "holdfast-supervise-")
		if err != nil {
			t.Skip("no control group for systemd: ", err)
		}
		t.Cleanup(func() {
			if !comes(10*time.Second, func() bool { return removeGroup(dir) == nil }) {
				t.Errorf("%s is left behind: %v", dir, removeGroup(dir))
			}
		})
		return dir
	}
	t.Skip("no cgroup2 for systemd")
	return ""
}

func removeGroup(dir string) error {
	below, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	for _, b := range below {
		if err := removeGroup(filepath.Dir(b)); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

func inside(init int, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", fmt.Sprint(init), "-m", "-p", "-C", "-i", "-u", "--"}, args...)...)
}

// TestUnit runs the tests of units under a systemd of their own.
func TestUnit(t *testing.T) {
	if os.Getenv(insideVariable) != "" {
		t.Skip("inside already")
	}
	if !many() {
		t.Skip("HOLDFAST_PAIR=1 runs it")
	}
	init := systemd(t)
	args := []string{"env", insideVariable + "=1", os.Args[0], "-test.run=^TestInside", "-test.v=" + fmt.Sprint(testing.Verbose())}
	out, err := inside(init, args...).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Fatalf("%v\n%s", err, out)
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

func needInside(t *testing.T) {
	t.Helper()
	if os.Getenv(insideVariable) == "" {
		t.Skip("TestUnit runs it under a systemd of its own")
	}
}

func systemctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemctl %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
