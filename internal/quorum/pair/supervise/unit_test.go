package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writeUnit installs a unit of its own name and takes it away with the test.
func writeUnit(t *testing.T, name, service string) {
	t.Helper()
	path := filepath.Join("/etc/systemd/system", name)
	text := "[Unit]\nDefaultDependencies=no\n[Service]\n" + service + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	systemctl(t, "daemon-reload")
	t.Cleanup(func() {
		systemctl(t, "stop", name)
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		systemctl(t, "daemon-reload")
	})
}

// asUnit is a member that systemd starts, as eager as it can be.
func (m *member) asUnit(t *testing.T, name, service string) UnitOptions {
	t.Helper()
	writeUnit(t, name, "Type=notify\nRestart=always\nRestartSec=100ms\nTimeoutStartSec=20\n"+service)
	t.Cleanup(func() {
		if err := ReleaseUnit(context.Background(), UnitOptions{Unit: name, Root: "/"}); err != nil {
			t.Error(err)
		}
	})
	return UnitOptions{Unit: name, StateDir: m.state, Root: "/", Log: slog.New(slog.DiscardHandler)}
}

// plainUnit gives the flags in ExecStart, one of them by the environment.
func (m *member) plainUnit(t *testing.T, name string) UnitOptions {
	t.Helper()
	env := filepath.Join(t.TempDir(), "etcd.env")
	if err := os.WriteFile(env, []byte("# of etcd\nETCD_SNAPSHOT_COUNT=\"5000\"\nMORE=--max-wals 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := m.options.Command
	return m.asUnit(t, name, "Environment=DATA="+m.data+"\nEnvironmentFile="+env+"\nEnvironmentFile=-/none\nExecStart="+
		strings.ReplaceAll(quoteCommand(c), m.data, "${DATA}")+" $MORE")
}

func openUnit(t *testing.T, o UnitOptions) *Unit {
	t.Helper()
	u, err := NewUnit(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Detach)
	return u
}

// remains watches for longer than systemd waits before it starts a unit again.
func remains(t *testing.T, u *Unit, want Phase) {
	t.Helper()
	if comes(time.Second, func() bool { return state(t, u).Phase != want }) {
		t.Errorf("it does not remain %s", want)
	}
}

func TestInsideUnit(t *testing.T) {
	needInside(t)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			m := newMember(t, peer(t, version), "a")
			o := m.plainUnit(t, "etcd.service")
			writeUnit(t, "needs-etcd.service", "ExecStart=sleep infinity\n[Unit]\nRequires=etcd.service\nAfter=etcd.service")
			systemctl(t, "start", "needs-etcd")
			m.serves(t)
			u := openUnit(t, o)
			s := state(t, u)
			if s.Phase != Running || fmt.Sprint(s.PID) != systemctl(t, "show", "etcd", "-p", "MainPID", "--value") {
				t.Fatalf("%+v; want the process that systemd started", s)
			}
			if d := u.Describe(); d.DataDir != m.data || d.Name != "a" || !strings.HasPrefix(d.Version, version) {
				t.Errorf("described as %+v", d)
			}

			// It dies, and systemd lets it be.
			if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if !comes(10*time.Second, func() bool { return state(t, u).Phase == Stopped }) {
				t.Fatalf("killed, and %+v", state(t, u))
			}
			if e := state(t, u).Ended; e == nil || e.Signal != unix.SIGKILL {
				t.Errorf("ended: %v", e)
			}
			remains(t, u, Stopped)
			// Neither does a person start it, nor a boot.
			systemctl(t, "start", "etcd")
			remains(t, u, Stopped)

			start(t, u, Mode{})
			m.serves(t)
			if there(t, u.ctl.licence) {
				t.Error("the licence outlives the start")
			}
			if err := u.Start(t.Context(), Mode{}); err == nil {
				t.Error("started twice")
			}

			if err := u.Stop(t.Context(), 20*time.Second); err != nil {
				t.Fatal(err)
			}
			if used, err := inUse(m.data); used || err != nil {
				t.Errorf("stopped, and its lock is held: %v", err)
			}
			remains(t, u, Stopped)
			if got := systemctl(t, "is-active", "needs-etcd"); got != "active" {
				t.Errorf("what requires etcd is %s", got)
			}
		})
	}
}

func TestInsideUnitOfAFormerAgent(t *testing.T) {
	needInside(t)
	m := newMember(t, peer(t, "3.6"), "a")
	o := m.plainUnit(t, "etcd.service")
	u := openUnit(t, o)
	remains(t, u, Stopped)
	_, err := NewUnit(t.Context(), o)
	refusal(t, err, Busy)
	start(t, u, Mode{})
	m.serves(t)
	pid := state(t, u).PID
	u.Detach()
	// Killed while the gate was open.
	if err := u.ctl.open(); err != nil {
		t.Fatal(err)
	}
	next := openUnit(t, o)
	if s := state(t, next); s.PID != pid {
		t.Errorf("%+v; want process %d", s, pid)
	}
	if there(t, next.ctl.licence) {
		t.Error("the gate stays open")
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := next.Stop(t.Context(), 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if e := state(t, next).Ended; e == nil || e.Signal != unix.SIGKILL {
		t.Errorf("ended: %v", e)
	}
	next.Detach()
	if err := ReleaseUnit(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	systemctl(t, "start", "etcd")
	m.serves(t)
	if got := systemctl(t, "show", "etcd", "-p", "Restart", "--value"); got != "always" {
		t.Errorf("given back with Restart=%s", got)
	}
}

// Without quorum etcd does not report to be ready, and systemd would end it.
func TestInsideUnitWithoutQuorum(t *testing.T) {
	needInside(t)
	m := newMember(t, peer(t, "3.6"), "a", "--initial-cluster=a=http://127.0.0.1:1,b=http://127.0.0.1:2", "--initial-advertise-peer-urls=http://127.0.0.1:1")
	u := openUnit(t, m.plainUnit(t, "etcd.service"))
	began := time.Now()
	start(t, u, Mode{})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a start waits %s for quorum", took)
	}
	if !comes(10*time.Second, func() bool { return state(t, u).Phase == Running }) {
		t.Fatalf("%+v", state(t, u))
	}
	if got := systemctl(t, "show", "etcd", "-p", "TimeoutStartUSec", "--value"); got != "infinity" {
		t.Errorf("it is ended after %s", got)
	}
	if err := u.Stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	remains(t, u, Stopped)
}

func TestInsideUnitJoins(t *testing.T) {
	needInside(t)
	for _, how := range []string{"flags", "environment", "file"} {
		t.Run(how, func(t *testing.T) {
			a, b := newMember(t, peer(t, "3.6"), "a"), newMember(t, peer(t, "3.6"), "b")
			switch how {
			case "file":
				b.asFile(t, "")
			case "environment":
				b.options.Env = nil
				b.asEnvironment(t)
			}
			text := ""
			if how == "environment" {
				for _, e := range b.options.Env {
					text += "Environment=" + e + "\n"
				}
			}
			joiner := openUnit(t, b.asUnit(t, "etcd-b.service", text+"ExecStart="+quoteCommand(b.options.Command)))
			survivor := a.run(t)
			start(t, survivor, Mode{})
			a.serves(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := a.dial(t).MemberAddAsLearner(ctx, []string{"http://" + b.peer}); err != nil {
				t.Fatal(err)
			}
			start(t, joiner, Mode{Existing: true, InitialCluster: at("a", a.peer) + "," + at("b", b.peer)})
			c := b.dial(t)
			if !comes(30*time.Second, func() bool {
				try, done := context.WithTimeout(ctx, time.Second)
				defer done()
				s, err := c.Status(try, "http://"+b.client)
				return err == nil && s.IsLearner && s.Leader != 0
			}) {
				t.Fatalf("no learner: %+v", state(t, joiner))
			}
			if err := joiner.Stop(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
			// Its own arguments again.
			start(t, joiner, Mode{})
			if there(t, joiner.ctl.joinDropIn) {
				t.Error("the arguments of the join stay")
			}
			if err := joiner.Stop(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestInsideUnitOfAnotherUser(t *testing.T) {
	needInside(t)
	m := newMember(t, peer(t, "3.6"), "a")
	program := filepath.Join("/run", "etcd-of-nobody")
	content, err := os.ReadFile(m.options.Command[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, content, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(program) })
	// The test's own directories let nobody through.
	m.options.Command[0], m.data = program, "/run/data-of-nobody"
	m.options.Command[3] = "--data-dir=" + m.data
	o := m.asUnit(t, "etcd.service", "User=nobody\nExecStart="+quoteCommand(m.options.Command))
	u := openUnit(t, o)
	if u.Describe().UID == 0 {
		t.Fatalf("described as %+v", u.Describe())
	}
	start(t, u, Mode{})
	t.Cleanup(func() { _ = os.RemoveAll(m.data) })
	m.serves(t)
	if err := u.Stop(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	// Root's files in it would be in the way of the next start.
	if err := os.Lchown(filepath.Join(m.data, "member"), 0, 0); err != nil {
		t.Fatal(err)
	}
	refusal(t, u.Start(t.Context(), Mode{}), NotPermitted)
}

func TestInsideUnitsThatAreRefused(t *testing.T) {
	needInside(t)
	etcd := peer(t, "3.6")
	for _, c := range []struct {
		name, service string
		want          Reason
	}{
		{"shell", "ExecStart=/bin/sh -c 'exec etcd --name a'", NoProgram},
		{"other", "ExecStart=/bin/true", NoProgram},
		{"forking", "Type=forking\nExecStart=" + etcd, Unfit},
		{"several", "Type=oneshot\nExecStart=" + etcd + "\nExecStart=" + etcd, Unclear},
		{"dynamic", "DynamicUser=yes\nExecStart=" + etcd, Unfit},
		{"flag", "ExecStart=" + etcd + " --force-new-cluster", Unfit},
		{"environment", "Environment=ETCD_UNSAFE_NO_FSYNC=true\nExecStart=" + etcd, Unfit},
		{"file", "EnvironmentFile=/none\nExecStart=" + etcd, Unclear},
	} {
		t.Run(c.name, func(t *testing.T) {
			unit := "refused-" + c.name + ".service"
			writeUnit(t, unit, c.service)
			_, err := NewUnit(t.Context(), UnitOptions{Unit: unit, StateDir: t.TempDir(), Root: "/", Log: slog.New(slog.DiscardHandler)})
			t.Log(err)
			refusal(t, err, c.want)
			if there(t, filepath.Join("/etc/systemd/system", unit+".d")) {
				t.Error("refused, and yet changed")
			}
		})
	}
	for unit, want := range map[string]Reason{"none.service": NoProgram, "k3s": Foreign, "rke2-server.service": Foreign} {
		_, err := NewUnit(t.Context(), UnitOptions{Unit: unit, StateDir: t.TempDir(), Root: "/", Log: slog.New(slog.DiscardHandler)})
		t.Log(err)
		refusal(t, err, want)
	}
}
