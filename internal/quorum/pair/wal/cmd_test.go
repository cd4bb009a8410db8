package wal

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

var update = flag.Bool("update", false, "rewrite testdata")

// run is `holdfast pair wal ARGS`.
func run(args ...string) (string, error) {
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.Execute()
	return out.String(), err
}

// whatever differs from run to run.
var varying = regexp.MustCompile(`in \d+ ms`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got:\n%s\nwant (rewrite with -update):\n%s", path, got, want)
	}
}

func TestCommandsSayWhatTheyFindAndDo(t *testing.T) {
	m := tornMember(t)
	say := func(name string, args ...string) {
		t.Helper()
		out, err := run(append(args, "--data-dir", m.dir.Data)...)
		if err != nil {
			out += "holdfast: " + err.Error() + "\n"
		}
		out = varying.ReplaceAllString(out, "in N ms")
		golden(t, name, strings.ReplaceAll(out, m.dir.Data, "DATA"))
	}
	say("verify-before", "verify")
	say("plan", "plan")
	say("edit-unfenced", "edit")
	say("edit", "edit", "--fenced")
	say("edit-again", "edit", "--fenced")
	say("verify-after", "verify")
	m = newMember(t).conf(addLearner, third, false).put(2, 9).stop()
	say("plan-learner", "plan")
	m = newLearner(t).put(1, 9).stop()
	say("plan-refused", "plan")
	say("verify-learner", "verify")
}

func TestCommandsAnswerInJSON(t *testing.T) {
	m := newMember(t).put(3, 9).stop()
	out, err := run("plan", "--json", "--data-dir", m.dir.Data)
	if err != nil {
		t.Fatal(err)
	}
	var p Plan
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	if p.Version != 1 || p.Self != self || len(p.Remove) != 1 || p.Remove[0].ID != other || p.Last.Index != m.last {
		t.Errorf("read back %+v", p)
	}
}

func TestCommandsEndWithTheRightCode(t *testing.T) {
	m := newLearner(t).put(1, 9).stop()
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"plan"}, exit.Unknown},
		{[]string{"edit", "--data-dir", m.dir.Data}, exit.Unknown},
		{[]string{"edit", "--fenced", "--data-dir", m.dir.Data}, exit.Failed},
		{[]string{"verify", "--data-dir", m.dir.Data}, exit.Good},
		{[]string{"verify", "--data-dir", t.TempDir()}, exit.Failed},
	} {
		if _, err := run(c.args...); exit.Code(err) != c.want {
			t.Errorf("%v: code %d (%v), want %d", c.args, exit.Code(err), err, c.want)
		}
	}
}
