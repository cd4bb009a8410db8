package remote

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// host runs scripts as the one called cp-a, in a network namespace of its own.
type host struct {
	t *testing.T
	h Host
	p *Plan
}

func newHost(t *testing.T) *host {
	t.Helper()
	lacks := t.Skip
	if os.Getenv("CI") == "true" {
		lacks = t.Fatal
	}
	if os.Getuid() != 0 {
		lacks("needs root")
	}
	for _, tool := range []string{"nft", "flock", "setsid"} {
		if _, err := exec.LookPath(tool); err != nil {
			lacks(err)
		}
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		lacks(err)
	}
	p, err := build(t, "partial-split")
	if err != nil {
		t.Fatal(err)
	}
	h := inventory(t).host("cp-a")
	h.Dir = filepath.Join(t.TempDir(), "journal")
	return &host{t, h, p}
}

// sh returns the last line of what a script printed.
func (h *host) sh(script string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "sh", "-s")
	cmd.Env = append(os.Environ(), "HOLDFAST_SSH=10.9.9.9 40000 10.0.1.10 2222")
	cmd.Stdin = strings.NewReader(script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	h.t.Logf("%v: %s", err, out.String())
	return lines[len(lines)-1]
}

func (h *host) want(what, got, want string) {
	h.t.Helper()
	if got != want {
		h.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (h *host) rules() string {
	h.t.Helper()
	out, err := exec.CommandContext(h.t.Context(), "nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		h.t.Fatal(err)
	}
	return string(out)
}

// gone wants the host as it was, and no dead man.
func (h *host) gone() {
	h.t.Helper()
	if _, err := os.Stat(h.h.Dir); err == nil {
		h.t.Error("the journal is left")
	}
	if r := h.rules(); r != "" {
		h.t.Errorf("rules are left: %s", r)
	}
}

func TestAHostIsLeftAsItWas(t *testing.T) {
	h := newHost(t)
	ops := h.p.of("cp-a")
	h.want("look", h.sh(looking(h.h, ops)), "looked")
	h.want("stage", h.sh(staging(h.h, h.p)), "armed")
	if r := h.rules(); r != "" {
		t.Errorf("staging changed the host: %s", r)
	}
	pid, err := os.ReadFile(filepath.Join(h.h.Dir, "deadman.pid"))
	if err != nil {
		t.Fatal(err)
	}
	h.want("inject", h.sh(injecting(h.h, ops)), "injected")
	if r := h.rules(); !strings.Contains(r, "ip saddr 10.9.9.9 tcp dport 2222 accept") || !strings.Contains(r, "ip daddr 10.0.2.10 jump cut") {
		t.Errorf("in force: %s", r)
	}
	h.want("heal", h.sh(healing(h.h, ops)), "healed")
	if r := h.rules(); r != "" {
		t.Errorf("healed: %s", r)
	}
	h.want("inject again", h.sh(injecting(h.h, ops)), "injected")
	h.want("undo", h.sh(undone(h.h)), "undone")
	h.gone()
	if line, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline"); err == nil && strings.Contains(string(line), h.h.Dir) {
		t.Errorf("the dead man lives: %q", line)
	}
	h.want("undo again", h.sh(undone(h.h)), "nothing")
	h.want("inject too late", h.sh(injecting(h.h, ops)), "refused: "+h.h.Dir+" is gone; the dead man has undone")
}

func TestAHostUndoesByItself(t *testing.T) {
	h := newHost(t)
	h.want("stage", h.sh(staging(h.h, h.p)), "armed")
	h.want("inject", h.sh(injecting(h.h, h.p.of("cp-a"))), "injected")
	// What the timer runs, without its sleep; the timer itself is ended here.
	pid, err := os.ReadFile(filepath.Join(h.h.Dir, "deadman.pid"))
	if err != nil {
		t.Fatal(err)
	}
	defer h.sh("kill -- -" + strings.TrimSpace(string(pid)))
	h.want("dead man", h.sh("sh "+h.h.Dir+"/undo.sh deadman"), "undone")
	h.gone()
}

func TestAHostRefusesASecondDrill(t *testing.T) {
	h := newHost(t)
	ops := h.p.of("cp-a")
	h.want("stage", h.sh(staging(h.h, h.p)), "armed")
	if out := h.sh("(" + looking(h.h, ops) + ") | head -1"); !strings.Contains(out, "a drill is in force or was left behind") {
		t.Errorf("look: %q", out)
	}
	h.want("stage", h.sh(staging(h.h, h.p)), "refused: "+h.h.Dir+" exists")
	if _, err := os.Stat(filepath.Join(h.h.Dir, "undo.sh")); err != nil {
		t.Error("the refused one took the first one's journal away")
	}
	h.want("undo", h.sh(undone(h.h)), "undone")
	h.want("foreign table", h.sh("nft add table inet holdfast_drill_7; ("+looking(h.h, ops)+") | head -1"),
		"problem: an nft table holdfast_drill_* exists that is in no journal here; look whose it is and delete it")
}

// TestADamagedJournalIsNotRun removes what carries our name, and leaves the journal to a
// person.
func TestADamagedJournalIsNotRun(t *testing.T) {
	for what, damage := range map[string]string{
		"truncated": "head -c 40 undo.sh >x && mv x undo.sh",
		"garbage":   "head -c 4096 /dev/urandom >undo.sh",
		"hostile":   "echo 'touch \"$dir/ran\"; echo undone' >undo.sh",
		"no sum":    "rm undo.sum",
	} {
		t.Run(what, func(t *testing.T) {
			h := newHost(t)
			h.want("stage", h.sh(staging(h.h, h.p)), "armed")
			h.want("inject", h.sh(injecting(h.h, h.p.of("cp-a"))), "injected")
			pid, err := os.ReadFile(filepath.Join(h.h.Dir, "deadman.pid"))
			if err != nil {
				t.Fatal(err)
			}
			defer h.sh("kill -- -" + strings.TrimSpace(string(pid)))
			h.sh("cd " + h.h.Dir + " && " + damage)
			if out := h.sh(undone(h.h)); !strings.Contains(out, "is not as it was written and was not run") {
				t.Errorf("undo: %q", out)
			}
			if r := h.rules(); r != "" {
				t.Errorf("rules are left: %s", r)
			}
			if _, err := os.Stat(filepath.Join(h.h.Dir, "ran")); err == nil {
				t.Error("it was run")
			}
		})
	}
}

// TestAFullDiskRefusesTheHost leaves nothing on it.
func TestAFullDiskRefusesTheHost(t *testing.T) {
	h := newHost(t)
	full := t.TempDir()
	if err := unix.Mount("tmpfs", full, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(full, unix.MNT_DETACH) }()
	h.h.Dir = filepath.Join(full, "journal")
	out := h.sh(staging(h.h, h.p))
	h.want("stage", out, "the journal cannot be written to "+h.h.Dir+"; make room there, or set dir to a file system that has some")
	h.gone()
}
