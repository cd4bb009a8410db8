package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// hosts is a lab whose nodes a1 and b1 have an OpenSSH server each, and c1 is
// where the controller stands.
type hosts struct {
	t    *testing.T
	lab  *lab.Lab
	dir  string
	keys map[string]ssh.Signer
	// six has the inventory know hosts by their IPv6 addresses.
	six bool
}

// remoteCut is a scenario of a few seconds; what is cut is TCP and all else.
const remoteCut = `version: 1
name: remote-cut
title: The a-b link is cut
phases: {baseline: 1s, hold: 4s, settle: 2s}
faults:
  - {name: a-b, cuts: [{from: a, to: b}]}
expect: [{role: clean}]
variants: [{name: main, leaders: {main: a}}]
`

func newHosts(t *testing.T) *hosts {
	t.Helper()
	return newHostsOf(t, "a1", "b1")
}

// newHostsOf has only the named nodes serve; keys and settings are there for both.
func newHostsOf(t *testing.T, serving ...string) *hosts {
	t.Helper()
	nightly(t)
	server, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs the package openssh-server, which scripts/setup does not install: it would start a daemon")
		}
		t.Skip("needs the package openssh-server")
	}
	spec, err := lab.Default("lan")
	if err != nil {
		t.Fatal(err)
	}
	spec.Etcd, spec.Dir = nil, t.TempDir()
	l, err := lab.Start(t.Context(), spec, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h := &hosts{t: t, lab: l, dir: t.TempDir(), keys: map[string]ssh.Signer{}}
	// sshd gives up its rights in this directory; it wants it of root, and empty.
	if err := os.Mkdir("/run/sshd", 0o755); err == nil {
		t.Cleanup(func() { _ = os.Remove("/run/sshd") })
	}
	h.write("id", h.key("client"))
	h.write("authorized_keys", string(ssh.MarshalAuthorizedKey(h.keys["client"].PublicKey())))
	for _, name := range []string{"a1", "b1"} {
		h.configure(name)
	}
	for _, name := range serving {
		h.serve(server, name)
	}
	h.inventory(map[string]string{"a1": "a1", "b1": "b1"})
	h.write("cut.yaml", remoteCut)
	h.write("probe.yaml", fmt.Sprintf("targets:\n  - {name: ssh-of-a, url: 'tcp://%s', modes: [new]}\n", h.ssh("a1")))
	return h
}

func (h *hosts) path(name string) string { return filepath.Join(h.dir, name) }

func (h *hosts) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(h.path(name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// key makes a key pair and returns the private half in OpenSSH's form.
func (h *hosts) key(name string) string {
	h.t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, name)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.keys[name], err = ssh.NewSignerFromKey(private); err != nil {
		h.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

func (h *hosts) node(name string) *lab.Node {
	h.t.Helper()
	n, err := h.lab.Node(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *hosts) ssh(name string) string { return net.JoinHostPort(h.node(name).IP().String(), "22") }

// configure writes the settings of a node's sshd, with a key of its own.
func (h *hosts) configure(name string) {
	h.t.Helper()
	h.write("host-"+name, h.key(name))
	h.write("sshd-"+name, fmt.Sprintf("ListenAddress %s\nListenAddress %s\nPort 22\nHostKey %s\nAuthorizedKeysFile %s\nPermitRootLogin prohibit-password\n"+
		"PasswordAuthentication no\nUsePAM no\nStrictModes no\nPidFile none\n", h.node(name).IP(), h.node(name).IP6(), h.path("host-"+name), h.path("authorized_keys")))
}

// serve runs sshd in the namespace of a node.
func (h *hosts) serve(server, name string) {
	h.t.Helper()
	if _, err := h.node(name).Spawn(h.t.Context(), lab.Process{Name: "sshd-" + name, Argv: []string{server, "-D", "-e", "-f", h.path("sshd-" + name)}}); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, 10*time.Second, "sshd of "+name, func() bool {
		conn, err := h.node("c1").DialContext(h.t.Context(), "tcp", h.ssh(name))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// inventory writes hosts.yaml, and known_hosts with the named key for each host.
func (h *hosts) inventory(keys map[string]string) {
	h.t.Helper()
	var known, list strings.Builder
	for _, name := range []string{"a1", "b1"} {
		known.WriteString(knownhosts.Line([]string{h.ssh(name)}, h.keys[keys[name]].PublicKey()) + "\n")
		ip := h.node(name).IP()
		if h.six {
			ip = h.node(name).IP6()
		}
		fmt.Fprintf(&list, "  - {name: %s, address: '%s', ssh: '%s', user: root, key: id, site: %s, role: server, dir: %s}\n",
			name, ip, h.ssh(name), name[:1], h.journal(name))
	}
	h.write("known_hosts", known.String())
	h.write("hosts.yaml", "version: 1\nknownHosts: known_hosts\nhosts:\n"+list.String())
}

func (h *hosts) journal(name string) string { return h.path("journal-" + name) }

// drill runs `holdfast drill` on c1.
func (h *hosts) drill(args ...string) (*lab.Child, *buffer) {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	out := &buffer{}
	child, err := h.node("c1").Spawn(h.t.Context(), lab.Process{
		Name: "drill", Argv: append([]string{self, "drill"}, args...),
		Env: []string{asAgent + "=1"}, Stdout: out, Stderr: out,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return child, out
}

func (h *hosts) run(more ...string) (*lab.Child, *buffer) {
	return h.drill(append([]string{"run", h.path("cut.yaml"), "--inventory", h.path("hosts.yaml"), "--yes"}, more...)...)
}

// ended waits for a drill and returns its exit error.
func (h *hosts) ended(c *lab.Child, out *buffer) error {
	h.t.Helper()
	select {
	case <-c.Done():
		return c.Err()
	case <-time.After(90 * time.Second):
		h.t.Fatalf("the drill does not end:\n%s", out)
		return nil
	}
}

// rules is the whole ruleset of a node.
func (h *hosts) rules(name string) string {
	h.t.Helper()
	var text []byte
	err := h.node(name).Do(func() (err error) {
		text, err = exec.CommandContext(h.t.Context(), "nft", "list", "ruleset").Output()
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// reaches says whether a1 connects to b1 within a second.
func (h *hosts) reaches() bool {
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Second)
	defer cancel()
	conn, err := h.node("a1").DialContext(ctx, "tcp", h.ssh("b1"))
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// cut waits until the fault is in force; out is what the drill said.
func (h *hosts) cut(out *buffer) {
	h.t.Helper()
	defer func() {
		if h.t.Failed() {
			h.t.Logf("the drill said:\n%s", out)
		}
	}()
	eventually(h.t, 20*time.Second, "the cut", func() bool { return !h.reaches() })
}

// untouched wants hosts as they were: no rule, no journal, and the way free.
func (h *hosts) untouched() bool {
	for _, name := range []string{"a1", "b1"} {
		if _, err := os.Stat(h.journal(name)); err == nil || h.rules(name) != "" {
			return false
		}
	}
	return h.reaches()
}

func TestRemoteCut(t *testing.T) {
	h := newHosts(t)
	child, out := h.run("--probe", h.path("probe.yaml"))
	h.cut(out)
	if err := h.ended(child, out); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	if !h.untouched() {
		t.Errorf("a1: %s\nb1: %s\n%s", h.rules("a1"), h.rules("b1"), out)
	}
	// The controller's own way was spared, though it stands in no site of the cut.
	if !strings.Contains(out.String(), "no outage") {
		t.Errorf("the controller lost its own way:\n%s", out)
	}
	t.Log(out)
}

// TestRemoteDeadMan kills the controller, which cannot undo anything then.
func TestRemoteDeadMan(t *testing.T) {
	h := newHosts(t)
	child, out := h.run("--hold", "2s")
	h.cut(out)
	if err := child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if h.untouched() {
		t.Fatalf("nothing was in force:\n%s", out)
	}
	second, said := h.run()
	if err := h.ended(second, said); err == nil || !strings.Contains(said.String(), "a drill is in force or was left behind") {
		t.Errorf("a second drill: %v:\n%s", err, said)
	}
	start := time.Now()
	eventually(t, 40*time.Second, "the dead man", h.untouched)
	t.Logf("undone %v after the kill", time.Since(start).Round(time.Second))
}

// TestRemoteUndo takes a drill back whose controller was killed.
func TestRemoteUndo(t *testing.T) {
	h := newHosts(t)
	child, out := h.run("--hold", "1h")
	h.cut(out)
	if err := child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	undo, said := h.drill("undo", "--inventory", h.path("hosts.yaml"))
	if err := h.ended(undo, said); err != nil || strings.Count(said.String(), "undone") != 2 {
		t.Errorf("%v:\n%s", err, said)
	}
	if !h.untouched() {
		t.Errorf("a1: %s\nb1: %s", h.rules("a1"), h.rules("b1"))
	}
	if again, said := h.drill("undo", "--inventory", h.path("hosts.yaml")); h.ended(again, said) != nil || strings.Count(said.String(), "nothing to undo") != 2 {
		t.Errorf("a second time:\n%s", said)
	}
	if left, _ := exec.CommandContext(t.Context(), "pgrep", "-f", "sh "+h.journal("")).Output(); len(left) > 0 {
		t.Errorf("dead men are left: %s", left)
	}
}

// TestRemoteRefuses wants one line and no change for what forbids a drill.
func TestRemoteRefuses(t *testing.T) {
	h := newHosts(t)
	refused := func(what, want string) {
		t.Helper()
		child, out := h.run()
		err := h.ended(child, out)
		if err == nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v:\n%s", what, err, out)
		}
		t.Logf("%s: %s", what, lastLine(out.String()))
	}
	h.inventory(map[string]string{"a1": "a1", "b1": "a1"})
	refused("host key changed", "is not the one in "+h.path("known_hosts")+":2")
	h.inventory(map[string]string{"a1": "a1", "b1": "b1"})
	h.write("known_hosts", "")
	refused("host key unknown", "is not in "+h.path("known_hosts"))
	h.inventory(map[string]string{"a1": "a1", "b1": "b1"})
	h.write("id", h.key("stranger"))
	refused("key that nobody authorized", "log in as root")
	if !h.untouched() {
		t.Error("a refused drill changed something")
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// eventually waits for a condition.
func eventually(t *testing.T, most time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(most)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, most)
		}
		<-tick.C
	}
}
