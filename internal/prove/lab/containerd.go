package lab

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/image"
)

const (
	// PodImage is the image of the lab's pods, which every node has: the peer
	// "pod" and nothing else.
	PodImage = "lab.invalid/pod:1"
	podPath  = "/pod"
	// cniPlugins is where Debian installs containernetworking-plugins.
	cniPlugins = "/usr/lib/cni"
	// containerdState is below one of empties: there is one per machine.
	containerdState  = "/run/containerd"
	containerdSocket = containerdState + "/containerd.sock"
)

// Containerd is the container runtime of a node. Its containers outlive it, as
// anywhere, and end with the lab.
type Containerd struct {
	program
	machine *machine
	// dir holds what it keeps, image is the archive of PodImage.
	dir, image  string
	snapshotter string
}

// containerdConfig is the whole configuration. What differs from the defaults:
// the state directory holds the network namespaces, too; nothing is written
// outside the given directories; nothing is fetched.
const containerdConfig = `version = 2
root = %[1]q
state = %[2]q
oom_score = 0
disabled_plugins = ["io.containerd.internal.v1.restart", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = %[3]q

[plugins."io.containerd.internal.v1.opt"]
  path = %[4]q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[5]q
  restrict_oom_score_adj = %[6]t
  netns_mounts_under_state_dir = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %[7]q
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[8]q
    conf_dir = %[9]q
`

// containerdText is the configuration for a node's directory.
func containerdText(dir, snapshotter string, restrictOOM bool) string {
	own := filepath.Join(dir, "containerd")
	return fmt.Sprintf(containerdConfig, filepath.Join(own, "root"), containerdState, containerdSocket,
		filepath.Join(own, "opt"), PodImage, restrictOOM, snapshotter, cniPlugins, cniDir(dir))
}

// newContainerd writes the configuration of a node's containerd.
func newContainerd(n *Node, m *machine, dir, archive string) (*Containerd, error) {
	c := &Containerd{machine: m, dir: filepath.Join(dir, "containerd"), image: archive, snapshotter: "native"}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of containerd: %w", err)
	}
	if canOverlay(c.dir) {
		c.snapshotter = "overlayfs"
	}
	text := containerdText(dir, c.snapshotter, !hasCapability(unix.CAP_SYS_RESOURCE))
	config := filepath.Join(c.dir, "config.toml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration of containerd: %w", err)
	}
	c.program = program{
		node: n, name: "containerd-" + n.name, by: m.inside,
		argv: []string{"containerd", "--config", config},
	}
	return c, nil
}

// Start starts containerd unless it runs, and returns when it serves.
func (c *Containerd) Start(ctx context.Context) error {
	if err := c.Launch(ctx); err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Wait returns when the running containerd serves, or has ended.
func (c *Containerd) Wait(ctx context.Context) error {
	return c.await(ctx, "containerd", func() error { return c.Healthy(ctx) })
}

// Healthy connects; nil says that it accepts.
func (c *Containerd) Healthy(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.machine.path(containerdSocket))
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// Stop ends containerd in order, Kill at once.
func (c *Containerd) Stop(ctx context.Context) error { return c.end(ctx, containerdGrace) }
func (c *Containerd) Kill(ctx context.Context) error { return c.end(ctx, 0) }

// containerdGrace is plenty: containers are not ended with it.
const containerdGrace = 5 * time.Second

// load imports PodImage.
func (c *Containerd) load(ctx context.Context) error { return c.Import(ctx, c.image) }

// Import loads an image from an archive below the lab's directory.
func (c *Containerd) Import(ctx context.Context, archive string) error {
	return c.Ctr(ctx, "images", "import", "--snapshotter", c.snapshotter, archive)
}

// Ctr runs containerd's own client in the namespace of Kubernetes.
func (c *Containerd) Ctr(ctx context.Context, args ...string) error {
	var out bytes.Buffer
	argv := append([]string{"ctr", "--address", containerdSocket, "--namespace", "k8s.io"}, args...)
	p := Process{Name: "ctr-" + c.node.name, Argv: argv, Stdout: &out, Stderr: &out}
	child, err := c.node.lab.spawn(ctx, c.node.name, c.machine.inside, p)
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		return fmt.Errorf("run ctr %s in %s: %w", args[0], c.node.name, ctx.Err())
	}
	if err := child.Err(); err != nil {
		return fmt.Errorf("run ctr %s in %s: %w: %s", args[0], c.node.name, err, strings.TrimSpace(out.String()))
	}
	return nil
}

// writePodImage writes the archive of PodImage.
func writePodImage(path string) error {
	peer, err := findPeer(podPeer)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(peer)
	if err != nil {
		return fmt.Errorf("read program of pods: %w", err)
	}
	var archive bytes.Buffer
	if err := (image.Image{Name: PodImage, Path: podPath, Program: program}).Write(&archive); err != nil {
		return err
	}
	if err := os.WriteFile(path, archive.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write image of pods: %w", err)
	}
	return nil
}

// hasCapability reports whether this process has a capability in effect.
// Without CAP_SYS_RESOURCE runc may not lower a container's oom_score_adj, and
// fails, unless containerd keeps it from trying.
func hasCapability(n int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[n/32].Effective&(1<<(n%32)) != 0
}

// canOverlay tries whether overlayfs works on the filesystem of dir: it does
// not on every one, such as another overlay.
func canOverlay(dir string) bool {
	work, err := os.MkdirTemp(dir, "overlay-")
	if err != nil {
		return false
	}
	defer func() { _ = os.RemoveAll(work) }()
	p := func(name string) string { return filepath.Join(work, name) }
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if os.Mkdir(p(name), 0o700) != nil {
			return false
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", p("lower"), p("upper"), p("work"))
	return tryMount("overlay", p("merged"), options) == nil
}
