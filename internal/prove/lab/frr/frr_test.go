package frr

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// childVariable makes the test's program a parent of a daemon that is killed.
const childVariable = "HOLDFAST_TEST_FRR_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		if err := parent(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// parent starts zebra, says its pid and hangs.
func parent(dir string) error {
	s, err := space.New()
	if err != nil {
		return err
	}
	by, err := space.NewSpawner(s)
	if err != nil {
		return err
	}
	cmd, err := Command(dir, "zebra", "")
	if err != nil {
		return err
	}
	if err := by.Start(cmd); err != nil {
		return err
	}
	fmt.Println(cmd.Process.Pid)
	select {}
}

func require(t *testing.T) {
	t.Helper()
	err := Preflight()
	if err == nil && os.Geteuid() != 0 {
		err = fmt.Errorf("namespaces need root")
	}
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test must not be skipped in CI: %v", err)
	}
	t.Skip(err)
}

// output collects what daemons say.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// deep is a directory whose name does not fit into a path of a socket, below
// one that only root may enter.
func deep(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long-name-", 12), "router")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestDaemons(t *testing.T) {
	require(t)
	s, err := space.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	by, err := space.NewSpawner(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(by.Close)
	c := Config{
		AS: 65001, RouterID: netip.MustParseAddr("192.0.2.1"), Neighbors: neighbors(65010, "192.0.2.2"),
		Hold: 9 * time.Second, BFD: &BFD{100 * time.Millisecond, 3}, MaxPaths: 8,
		Accept: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:1::/64")},
	}
	dir, log := deep(t), &output{}
	console := Console{Dir: dir}
	for _, d := range []struct{ name, settings string }{{"zebra", ""}, {"bfdd", c.BFDD()}, {"bgpd", c.BGPD()}} {
		cmd, err := Command(dir, d.name, d.settings)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = log, log
		if err := by.Start(cmd); err != nil {
			t.Fatal(err)
		}
		crash := fmt.Sprintf("/var/tmp/frr/%s.%d", d.name, cmd.Process.Pid)
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if _, err := os.Stat(crash); err == nil {
				t.Errorf("%s is left", crash)
			}
		})
		if err := console.Await(within(t, 20*time.Second), d.name); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
	}
	ctx := within(t, 20*time.Second)
	sessions, err := console.Sessions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n := sessions[netip.MustParseAddr("192.0.2.2")]
	if len(sessions) != 1 || n.State == "" || n.State == "Established" || n.BFD == "" {
		t.Errorf("sessions are %+v", sessions)
	}
	// Every line of the configuration was understood.
	running, err := console.Ask(ctx, "bgpd", "show running-config")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(c.BGPD()) {
		line = strings.TrimSpace(line)
		if line == "!" || strings.HasSuffix(line, "activate") || strings.HasPrefix(line, "ip") {
			continue
		}
		if !strings.Contains(running, line) {
			t.Errorf("bgpd did not take %q:\n%s", line, running)
		}
	}
	if strings.Contains(log.String(), "Unknown command") {
		t.Errorf("a daemon complains:\n%s", log)
	}
	if err := console.Tell(ctx, "bgpd", "router bgp 65001", "no neighbor 192.0.2.2"); err != nil {
		t.Fatal(err)
	}
	if sessions, err := console.Sessions(ctx); err != nil || len(sessions) > 0 {
		t.Errorf("sessions are %v, %v", sessions, err)
	}
	if err := console.Tell(ctx, "bgpd", "router bgp 65001", "neighbour"); err == nil {
		t.Error("a misspelt line is taken")
	}
}

// TestDiesWithParent: however its parent ends.
func TestDiesWithParent(t *testing.T) {
	require(t)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childVariable+"="+deep(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	console := Console{Dir: cmd.Env[len(cmd.Env)-1][len(childVariable)+1:]}
	if err := console.Await(within(t, 20*time.Second), "zebra"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	ctx := within(t, 10*time.Second)
	for syscall.Kill(pid, 0) == nil && !zombie(pid) {
		select {
		case <-ctx.Done():
			t.Fatalf("zebra, process %d, outlives its parent", pid)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// zombie says that a process is dead and only waits to be reaped.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
