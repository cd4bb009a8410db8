package arbiter

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

func command(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommands(t *testing.T) {
	settings := serve(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "pair.yaml")
	write(t, file, "name: a\npeer: b\narbiter:\n  url: "+settings.URL+"\n  tokenFile: "+settings.TokenFile+"\n")
	out, err := command(t, "show", "--config", file)
	if exit.Code(err) != exit.Failed || !errors.Is(err, ErrAbsent) || !strings.Contains(out, "none yet") {
		t.Errorf("show without a record: %v\n%s", err, out)
	}
	if _, err := command(t, "show", "--config", file, "--arbiter-token-file", "/nowhere"); exit.Code(err) != exit.Unknown {
		t.Errorf("a flag over the file: %v", err)
	}
	out, err = command(t, "test", "--arbiter", settings.URL, "--arbiter-token-file", settings.TokenFile, "--rounds", "3")
	if err != nil || !strings.Contains(out, "verdict   fit") {
		t.Errorf("test: %v\n%s", err, out)
	}
	c := NewClient(open(t, settings), "a", Record{}, forget)
	held, err := c.Change(soon(t), Held{}, exampleRecord())
	if err != nil {
		t.Fatal(err)
	}
	solo := held.Record
	solo.State, solo.Survivor = Solo, "b"
	held, err = c.Change(soon(t), held, solo)
	if err != nil {
		t.Fatal(err)
	}
	out, err = command(t, "show", "--config", file)
	if err != nil || !strings.Contains(out, "b alone may serve; a is taken back once it is there") || !strings.Contains(out, "generation  2") {
		t.Errorf("show: %v\n%s", err, out)
	}
	out, err = command(t, "show", "--config", file, "--json")
	var shown Shown
	if jsonErr := json.Unmarshal([]byte(out), &shown); err != nil || jsonErr != nil || shown.Record == nil || *shown.Record != held.Record {
		t.Errorf("show --json: %v %v\n%s", err, jsonErr, out)
	}
	if _, err := command(t, "test", "--arbiter", lie(t, &liar{ignoresMatch: true}).URL, "--rounds", "2"); exit.Code(err) != exit.Failed {
		t.Errorf("a liar: %v", err)
	}
	if _, err := command(t, "test", "--arbiter", "http://"+freeAddress(t)+"/x"); exit.Code(err) != exit.Unknown {
		t.Errorf("nobody there: %v", err)
	}
	restore(t, held.Record)
}

func restore(t *testing.T, seen Record) {
	t.Helper()
	settings, dir := serve(t, t.TempDir()), t.TempDir()
	data, err := seen.Encode()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"restore", "--arbiter", settings.URL, "--arbiter-token-file", settings.TokenFile}
	if _, err := command(t, append(args, "--state-dir", "")...); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Error(err)
	}
	args = append(args, "--state-dir", dir)
	if _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), SeenFile) {
		t.Error(err)
	}
	write(t, filepath.Join(dir, SeenFile), string(data))
	if _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), "give --generation 2") {
		t.Error(err)
	}
	args = append(args, "--generation", "2")
	if out, err := command(t, args...); err != nil || !strings.Contains(out, "generation  3") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), "nothing is missing") {
		t.Error(err)
	}
}
