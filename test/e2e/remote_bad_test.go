package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// refusedAs wants a drill that ends with 2 and a line, and changed nothing.
func (h *hosts) refusedAs(what, want string, more ...string) {
	h.t.Helper()
	child, out := h.run(more...)
	err := h.ended(child, out)
	if err == nil || !strings.Contains(err.Error(), "status 2") || !strings.Contains(lastLine(out.String()), want) {
		h.t.Errorf("%s: %v:\n%s", what, err, out)
	}
	if !h.untouched() {
		h.t.Errorf("%s: something was left", what)
	}
	h.t.Logf("%s: %s", what, lastLine(out.String()))
}

// edit replaces text in the inventory.
func (h *hosts) edit(old, text string) {
	h.t.Helper()
	data, err := os.ReadFile(h.path("hosts.yaml"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("hosts.yaml", strings.Replace(string(data), old, text, 1))
}

// TestRemoteBadHosts wants one line, exit 2 and nothing left for hosts that are not fit.
func TestRemoteBadHosts(t *testing.T) {
	h := newHosts(t)
	keys := map[string]string{"a1": "a1", "b1": "b1"}
	h.edit("user: root", "user: root, sudo: true")
	want := "sudo"
	h.refusedAs("a sudo that asks, or none", want)
	h.inventory(keys)
	full := h.path("full")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", full, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(full, unix.MNT_DETACH) })
	h.edit(h.journal("a1"), filepath.Join(full, "journal"))
	h.refusedAs("a full disk", "the journal cannot be written to")
	if _, err := os.Stat(filepath.Join(full, "journal")); err == nil {
		t.Error("a journal is left on the full disk")
	}
	h.inventory(keys)
	h.edit("ssh: '"+h.ssh("b1")+"'", "ssh: '"+h.ssh("b1")+"0'")
	h.refusedAs("a host that does not answer", "host b1: connect")
}

// TestRemoteKilledAnywhere kills the controller in each step; the dead men undo.
func TestRemoteKilledAnywhere(t *testing.T) {
	h := newHosts(t)
	for _, step := range []string{"prepared", "injected"} {
		child, out := h.run("--hold", "2s")
		eventually(t, 20*time.Second, step, func() bool { return strings.Contains(out.String(), step) })
		if err := child.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, 45*time.Second, "the dead man after "+step, h.untouched)
	}
}

// TestRemoteTwoControllers lets one of two win, or neither.
func TestRemoteTwoControllers(t *testing.T) {
	h := newHosts(t)
	first, said1 := h.run()
	second, said2 := h.run()
	err1, err2 := h.ended(first, said1), h.ended(second, said2)
	if err1 == nil && err2 == nil {
		t.Errorf("both drilled at once:\n%s\n%s", said1, said2)
	}
	for _, out := range []string{said1.String(), said2.String()} {
		if !strings.Contains(out, "undone on 2 hosts") && !strings.Contains(out, "exists") {
			t.Errorf("%s", out)
		}
	}
	if !h.untouched() {
		t.Error("something was left")
	}
}

// TestRemoteReport wants the documents of a lab drill.
func TestRemoteReport(t *testing.T) {
	h := newHosts(t)
	child, out := h.run("--probe", h.path("probe.yaml"), "--max-outage", "3s", "--out", h.path("report"), "--json")
	if err := h.ended(child, out); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, name := range []string{"report.json", "report.html", "junit.xml", "metrics.prom", "runs/main-with/run.json", "runs/main-with/commands.log"} {
		if _, err := os.Stat(filepath.Join(h.path("report"), name)); err != nil {
			t.Error(err)
		}
	}
	if !h.untouched() {
		t.Error("something was left")
	}
}
