package supervise

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestArgumentsOfAUnit(t *testing.T) {
	env := []string{"A=one", "LIST=x y  z", "A=two", "EMPTY="}
	for _, c := range []struct{ args, want []string }{
		{[]string{"--name=${A}", "$LIST", "$EMPTY", "${EMPTY}"}, []string{"--name=two", "x", "y", "z", ""}},
		{[]string{"a$A", "$$A", "${NONE}b", "$NONE", "100%"}, []string{"a$A", "$A", "b", "100%"}},
	} {
		if got, err := (unitFacts{args: c.args}).argv(env); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v; want %q", c.args, got, err, c.want)
		}
		if got, err := (unitFacts{args: c.args, verbatim: true}).argv(env); err != nil || !slices.Equal(got, c.args) {
			t.Errorf("%q, verbatim: %q, %v", c.args, got, err)
		}
	}
	_, err := unitFacts{args: []string{"$A"}}.argv([]string{`A=--name "a b"`})
	refusal(t, err, Unclear)
}

func TestEnvironmentFile(t *testing.T) {
	got, err := parseEnvFile("f", "# etcd\n\n ; more\nETCD_NAME=a\n  B = \nB=\"x y\" \nC='z'\r\n")
	if err == nil {
		t.Errorf("taken: %q", got)
	}
	got, err = parseEnvFile("f", "# etcd\n\n ; more\nETCD_NAME=a\nB=\"x y\" \nC='z'\r\nD=\n")
	if want := []string{"ETCD_NAME=a", "B=x y", "C=z", "D="}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"export A=b", "A", "A=b\\\nc", `A="b" c`, `A="b`, "A=it's"} {
		_, err := parseEnvFile("f", bad)
		refusal(t, err, Unclear)
	}
}

func TestStatusOfAUnit(t *testing.T) {
	s := parseStatus([]byte("ActiveState=failed\nSubState=failed\nResult=signal\nMainPID=0\nExecMainCode=2\nExecMainStatus=9\nJob=\n"))
	if !s.settled() || s.ended == nil || s.ended.Signal != unix.SIGKILL {
		t.Errorf("%+v, ended %v", s, s.ended)
	}
	if s := parseStatus([]byte("ActiveState=inactive\nMainPID=0\nJob=17\n")); s.settled() || !s.down() || s.ended != nil {
		t.Errorf("%+v", s)
	}
	if s := parseStatus([]byte("ActiveState=activating\nSubState=auto-restart\nMainPID=0\n")); s.settled() {
		t.Errorf("%+v", s)
	}
}

func TestNamesForSystemd(t *testing.T) {
	if got := busPath("etcd-a@1.service"); got != "etcd_2da_401_2eservice" {
		t.Error(got)
	}
	if got := quoteCommand([]string{"/usr/bin/etcd", `--name=a "b" 100% $HOME \`}); got != `"/usr/bin/etcd" "--name=a \"b\" 100%% $$HOME \\"` {
		t.Error(got)
	}
}

// FuzzUnit: nothing that busctl might print brings the reader down.
func FuzzUnit(f *testing.F) {
	lines := []string{
		`{"type":"s","data":"notify"}`, `{"type":"s","data":""}`, `{"type":"s","data":""}`, `{"type":"s","data":"/"}`, `{"type":"s","data":""}`, `{"type":"b","data":false}`,
		`{"type":"as","data":["A=b"]}`, `{"type":"a(sb)","data":[["/none",true]]}`,
		`{"type":"a(sasasttttuii)","data":[["/usr/bin/etcd",["/usr/bin/etcd","--name","${A}"],["no-env-expand"],0,0,0,0,0,0,0]]}`,
	}
	f.Add([]byte(strings.Join(lines, "\n") + "\n"))
	f.Add([]byte(strings.Repeat("{\"data\":[[]]}\n", 9)))
	f.Fuzz(func(t *testing.T, out []byte) {
		p, err := parseProperties(out, len(lines))
		if err != nil {
			return
		}
		var u unitFacts
		if u.parse(p) != nil || u.fit("etcd.service") != nil {
			return
		}
		u.envFiles = nil // paths of this machine
		env, err := u.environment()
		if err != nil {
			t.Fatal(err)
		}
		if argv, err := u.argv(env); err == nil {
			_, _, _ = understand(argv, []string{}, u.cwd())
		}
	})
}

func TestPropertiesThatAreNotThere(t *testing.T) {
	if _, err := parseProperties([]byte(`{"type":"s","data":"x"}`), 2); err == nil {
		t.Error("one property for two")
	}
	var f unitFacts
	if err := f.parse(slices.Repeat([]json.RawMessage{json.RawMessage(`7`)}, 9)); err == nil {
		t.Error("a number for a string")
	}
}
