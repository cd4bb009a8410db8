package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// store is an etcd of one member on the client's station.
type store struct {
	w   *wire
	cmd *exec.Cmd
}

func (w *wire) etcd() *store {
	w.t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(cache, "holdfast", "peers", "etcd-3.6")
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			w.t.Fatal("this suite must not be skipped in CI: make peers builds etcd")
		}
		w.t.Skip("needs etcd; see scripts/peers")
	}
	client := w.segment.Station(w.machines + 1)
	spawner, err := space.NewSpawner(client.Space)
	if err != nil {
		w.t.Fatal(err)
	}
	url := fmt.Sprintf("http://%s:2379", client.Four)
	s := &store{w: w, cmd: exec.Command(path, "--data-dir", filepath.Join(w.dir, "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://127.0.0.1:2380", "--log-level", "error")}
	if err := spawner.Start(s.cmd); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		spawner.Close()
	})
	return s
}

func (s *store) freeze(on bool) {
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.w.t.Fatal(err)
	}
}

// startByLease runs our agent with a record in etcd, and the default timers.
func (w *wire) startByLease(i int) {
	w.t.Helper()
	var peers []string
	for k := 1; k <= w.machines; k++ {
		peers = append(peers, fmt.Sprintf("{name: node-%d, address: '%s:9390'}", k, w.segment.Station(k).Four))
	}
	path := filepath.Join(w.dir, fmt.Sprintf("vip-%d.yaml", i))
	text := fmt.Sprintf(`
groups:
  - name: api
    addresses: %s
    interface: %s
    lease:
      etcd: {endpoints: ["http://%s:2379"]}
      self: node-%d
      peers: [%s]
control: %s
telemetry: {listen: %s:9389}
`, list(w.addresses), segment.Interface, w.segment.Station(w.machines+1).Four, i, strings.Join(peers, ", "), w.socket(i), w.segment.Station(i).Four)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	w.launch(i, []string{asAgent + "=1"}, "/proc/self/exe", "vip", "run", "--config", path)
}
