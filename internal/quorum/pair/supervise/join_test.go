package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asFile moves a member's flags to a configuration file.
func (m *member) asFile(t *testing.T, more string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "etcd.yaml")
	text := fmt.Sprintf("# of %[1]s\nname: %[1]s\ndata-dir: %[2]s\nlisten-client-urls: http://%[3]s\nadvertise-client-urls: http://%[3]s\n"+
		"listen-peer-urls: http://%[4]s\ninitial-advertise-peer-urls: http://%[4]s\ninitial-cluster: %[1]s=http://%[4]s\nlog-level: warn\n%[5]s",
		m.name, m.data, m.client, m.peer, more)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m.options.Command = []string{m.options.Command[0], "--config-file", path}
}

// asEnvironment moves a member's flags to the environment.
func (m *member) asEnvironment(t *testing.T) {
	t.Helper()
	args, err := parseArguments(m.options.Command[1:])
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range args {
		m.options.Env = append(m.options.Env, variable(a.name)+"="+a.value)
	}
	m.options.Command = m.options.Command[:1]
}

// A member is moved aside and joins the survivor as a learner, which is what a
// pair does with the one that lost.
func TestJoin(t *testing.T) {
	for _, version := range versions {
		for _, how := range []string{"flags", "environment", "file"} {
			if how != "flags" && version != "3.6" && !many() {
				continue
			}
			t.Run(version+"/"+how, func(t *testing.T) {
				a := newMember(t, peer(t, version), "a")
				b := newMember(t, peer(t, version), "b")
				switch how {
				case "file":
					b.asFile(t, "initial-cluster-state: new\n")
				case "environment":
					b.asEnvironment(t)
				}
				survivor, joiner := a.run(t), b.run(t)
				// What it was before: a cluster of its own.
				start(t, joiner, Mode{})
				b.serves(t)
				if err := joiner.Stop(t.Context(), 20*time.Second); err != nil {
					t.Fatal(err)
				}
				if _, err := SetAside(joiner.Describe(), "g2"); err != nil {
					t.Fatal(err)
				}
				start(t, survivor, Mode{})
				a.serves(t)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if _, err := a.dial(t).MemberAddAsLearner(ctx, []string{"http://" + b.peer}); err != nil {
					t.Fatal(err)
				}
				start(t, joiner, Mode{Existing: true, InitialCluster: at("a", a.peer) + "," + at("b", b.peer)})
				if !comes(30*time.Second, func() bool {
					try, done := context.WithTimeout(ctx, time.Second)
					defer done()
					s, err := b.dial(t).Status(try, "http://"+b.client)
					return err == nil && s.IsLearner && s.Leader != 0
				}) {
					t.Fatalf("no learner; %+v\n%s", state(t, joiner), b.said())
				}
				if how == "file" {
					info, err := os.Stat(filepath.Join(b.data, asideParent, joinName))
					if err != nil || info.Mode().Perm() != 0o600 {
						t.Errorf("copy of the configuration file: %v, %v", info, err)
					}
				}
			})
		}
	}
}

func TestJoinOfAClusterWithoutIt(t *testing.T) {
	m := newMember(t, peer(t, "3.6"), "a")
	c := m.run(t)
	for _, cluster := range []string{"", "b=http://127.0.0.1:1", "a"} {
		if err := c.Start(t.Context(), Mode{Existing: true, InitialCluster: cluster}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("joined %q: %v", cluster, err)
		}
	}
}

// An etcd of another user reaches its copy of the configuration file, and finds
// nothing of root's in its directory.
func TestJoinOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("running as another user takes root")
	}
	// The test's own directories let nobody through.
	open, err := os.MkdirTemp("", "supervise-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	content, err := os.ReadFile(peer(t, "3.6"))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(open, "etcd")
	if err := errors.Join(os.Chmod(open, 0o755), os.WriteFile(program, content, 0o755)); err != nil {
		t.Fatal(err)
	}
	m := newMember(t, program, "a")
	m.data = filepath.Join(open, "data")
	m.asFile(t, "")
	text, err := os.ReadFile(m.options.Command[2])
	if err != nil {
		t.Fatal(err)
	}
	m.options.Command[2] = filepath.Join(open, "etcd.yaml")
	if err := os.WriteFile(m.options.Command[2], text, 0o644); err != nil {
		t.Fatal(err)
	}
	m.options.User = "nobody"
	c := m.run(t)
	start(t, c, Mode{})
	m.serves(t)
	if err := c.Stop(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	// With a member in place etcd looks at neither setting, but reads the file.
	start(t, c, Mode{Existing: true, InitialCluster: at("a", m.peer)})
	m.serves(t)
	if words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", state(t, c).PID)); !strings.Contains(string(words), joinName) {
		t.Errorf("started as %q, %v", words, err)
	}
	if err := c.Stop(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := SetAside(c.Describe(), "g2"); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(m.data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != c.Describe().UID {
			t.Errorf("%s is not etcd's", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
