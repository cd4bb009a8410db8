package source

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseFile(t *testing.T) {
	full := Backend{Network: "tcp", Address: "10.0.0.1:6443", Zone: "a", Node: "n", Name: "x", Weight: 2, Backup: true, Serving: true}
	for _, c := range []struct {
		name, in, want string
		list           []Backend
	}{
		{"nothing", "# none\n\n", "", nil},
		{"lines", "# mine\n10.0.0.1:6443 zone=a node=n name=x weight=2 backup # here\n\n[fd00::1]:6443\r\nunix:/run/x.sock\n", "", []Backend{full, {Network: "tcp", Address: "[fd00::1]:6443", Serving: true}, {Network: "unix", Address: "/run/x.sock", Serving: true}}},
		{"YAML", "# mine\n- {address: '10.0.0.1:6443', zone: a, node: n, name: x, weight: 2, backup: true}\n", "", []Backend{full}},
		{"JSON", `[{"address":"10.0.0.1:6443","zone":"a","node":"n","name":"x","weight":2,"backup":true}]`, "", []Backend{full}},
		{"JSON over lines", "[\n {\"address\": \"10.0.0.1:6443\"}\n]", "", bs("10.0.0.1")},
		{"empty JSON", "[]", "", nil},
		{"name", "10.0.0.1:1\n# x\napi:6443\n", `f:3: address "api:6443": a name, not an IP address; write the address, or look the name up as a dns source`, nil},
		{"unknown word", "10.0.0.1:1 colour=red\n", `f:1: "colour=red": unknown; known are zone=, node=, name=, weight= and backup`, nil},
		{"weight", "10.0.0.1:1 weight=two\n", `f:1: weight "two": not a whole number; write weight=2`, nil},
		{"negative weight", "10.0.0.1:1 weight=-2\n", `f:1: weight -2: not from 0 (counts as 1) to 65535`, nil},
		{"backup value", "10.0.0.1:1 backup=no\n", `f:1: "backup=no": backup takes no value; write backup, or leave it out`, nil},
		{"unknown key", "- address: 10.0.0.1:1\n  colour: red\n", `f:2: field "[0].colour": unknown; known here: address, backup, name, node, weight, zone`, nil},
		{"mapping", "backends:\n- address: 10.0.0.1:1\n", `f:1: document: a mapping is not a list; write "- item" lines below it`, nil},
		{"truncated JSON", `[{"address":"10.0`, "f: found unexpected end of stream", nil},
		{"entry without address", "- zone: a\n", `f: [0]: address "": not IP:PORT; write 10.0.0.1:6443, [fd00::1]:6443 or unix:/run/x.sock`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := parseFile([]byte(c.in), "f")
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want || !slices.Equal(list, c.list) {
				t.Errorf("got  %v, %s\nwant %v, %s", list, got, c.list, c.want)
			}
		})
	}
}

func FuzzParseFile(f *testing.F) {
	for _, s := range []string{
		"10.0.0.1:6443 zone=a weight=2 backup\n", "[fd00::1]:6443\n", "- address: 10.0.0.1:6443\n", `[{"address":"10.0.0.1:6443"}]`, "[\n", "{}", "a:\n", "- &a [*a]\n", "unix:/x\n", "\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		list, err := parseFile([]byte(in), "f")
		if err != nil {
			if text := err.Error(); len(list) > 0 || !strings.HasPrefix(text, "f:") || strings.ContainsAny(text, "\n\r") {
				t.Fatalf("%v with %q", list, text)
			}
			return
		}
		for _, b := range list {
			if _, address, err := ParseAddress(b.ID()); err != nil || address != b.Address {
				t.Fatalf("%+v: %v", b, err)
			}
		}
	})
}

func TestFileFollowsTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "backends")
		put := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f := NewFile(path, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		var got []string
		go func() {
			defer close(done)
			_ = f.Run(ctx, func(list []Backend) { got = append(got, strings.Join(ids(list), " ")) })
		}()
		defer func() { cancel(); <-done }()
		expect := func(what, problem string, want ...string) {
			t.Helper()
			synctest.Wait()
			if s := f.Status(); !slices.Equal(got, want) || s.OK != (problem == "") || !strings.Contains(s.Error, problem) {
				t.Errorf("%s: %q, %+v", what, got, s)
			}
			got = nil
		}
		expect("missing", "not there; write it")
		put("10.0.0.1:1\n")
		time.Sleep(2 * lookEvery)
		expect("appeared", "", "10.0.0.1:1")
		put("10.0.0.1:1\n10.0.0.22:1\n")
		time.Sleep(lookEvery)
		put("10.0.0.1:1\n10.0.0.22:1\n10.0.0.3:1\n") // still being written
		time.Sleep(2 * lookEvery)
		expect("grew", "", "10.0.0.1:1 10.0.0.22:1 10.0.0.3:1")
		put("10.0.0.1:1\nnonsense\n")
		time.Sleep(2 * lookEvery)
		expect("malformed", path+":2: ")
		put("")
		time.Sleep(2 * lookEvery)
		expect("emptied", "no backend in it")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookEvery)
		expect("a folder", "not a regular file")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		put(strings.Repeat("#", maxFile+1))
		time.Sleep(2 * lookEvery)
		expect("huge", "larger than")
		put("10.0.0.5:1\n")
		time.Sleep(2 * lookEvery)
		expect("mended", "", "10.0.0.5:1")
	})
}
