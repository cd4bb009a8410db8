package record

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func testCase(t *testing.T) *scenario.Case {
	t.Helper()
	s, err := scenario.Load("partial-split")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Case("main")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// write makes a small record in dir and returns what Load must give back.
func write(t *testing.T, dir string) *Record {
	t.Helper()
	want := &Record{Case: testCase(t)}
	w, err := Create(dir, want.Case)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		at := t0.Add(time.Duration(i) * 100 * time.Millisecond)
		s := probe.Sample{Path: "a/main/put/new", Seq: uint64(i), Scheduled: at, Sent: at.Add(time.Microsecond), Done: at.Add(3 * time.Millisecond), OK: i%7 != 0}
		w.Sample(s)
		want.Samples = append(want.Samples, s)
	}
	e := Event{At: t0, Source: "observer", Kind: KindNoLeader, Cluster: "main", Message: "b1 has no leader", Keys: map[string]string{"member": "b1"}}
	w.Event(e)
	want.Events = []Event{e}
	if err := w.Journal(t0, "inject a-b"); err != nil {
		t.Fatal(err)
	}
	want.Run = Run{
		Version: Version, Agents: true, Started: t0.Add(-time.Second), Injected: t0, Healed: t0.Add(time.Minute), Ended: t0.Add(2 * time.Minute),
		Phases:      []Phase{{Name: "plan", From: t0, To: t0}},
		Faults:      []Fault{{Name: "a-b", Kind: "cut", From: t0, To: t0, Verified: true}},
		Environment: map[string]string{"kernel": "6.1"},
	}
	if err := w.Close(want.Run); err != nil {
		t.Fatal(err)
	}
	return want
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := write(t, dir)
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the record changed on disk:\n got %+v\nwant %+v", got.Run, want.Run)
	}
	text, err := os.ReadFile(filepath.Join(dir, JournalFile))
	if err != nil || string(text) != "2026-03-01T12:00:00.000Z inject a-b\n" {
		t.Errorf("journal %q, %v", text, err)
	}
}

func TestFinishedRunIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	write(t, dir)
	if _, err := Create(dir, testCase(t)); err == nil || !strings.Contains(err.Error(), "already holds one") {
		t.Errorf("Create over a finished run: %v", err)
	}
}

func TestUnfinishedRunSaysSo(t *testing.T) {
	dir := t.TempDir()
	write(t, dir)
	if err := os.Remove(filepath.Join(dir, RunFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "no finished drill run") {
		t.Errorf("Load of an unfinished run: %v", err)
	}
}

func TestUnknownVersion(t *testing.T) {
	dir := t.TempDir()
	write(t, dir)
	if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(`{"version": 99}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "version 99 is not known") {
		t.Errorf("Load of version 99: %v", err)
	}
}

// A crash cuts the compressed samples anywhere; what was flushed must load.
func TestTruncatedSamplesLoad(t *testing.T) {
	dir := t.TempDir()
	want := write(t, dir)
	path := filepath.Join(dir, SamplesFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, share := range []int{2, 3, 5} {
		if err := os.WriteFile(path, whole[:len(whole)*(share-1)/share], 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := Load(dir)
		if err != nil {
			t.Fatalf("truncated to %d/%d: %v", share-1, share, err)
		}
		if n := len(got.Samples); n == 0 || n >= len(want.Samples) || !reflect.DeepEqual(got.Samples, want.Samples[:n]) {
			t.Errorf("truncated to %d/%d: %d samples, want a proper prefix", share-1, share, n)
		}
	}
}

func TestTruncatedEventLoads(t *testing.T) {
	events, err := readEvents(strings.NewReader("{\"kind\":\"move\"}\n{\"kind\":\"mo"))
	if err != nil || len(events) != 1 {
		t.Errorf("%d events, %v; want the whole one", len(events), err)
	}
	if _, err := readEvents(strings.NewReader("{\"kind\":\"mo\n{\"kind\":\"move\"}\n")); err == nil {
		t.Error("a broken line in the middle was accepted")
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add([]byte(`{"at":"2026-03-01T12:00:00Z","source":"observer","kind":"no-leader","message":"b1 has no leader","keys":{"member":"b1"}}` + "\n"))
	f.Add([]byte("\n\n{}\n"))
	f.Add([]byte("{\"kind\":\"move\"}\n{\"kind\":\"mo"))
	f.Add([]byte("null\n[]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := readEvents(bytes.NewReader(data))
		if err != nil && events != nil {
			t.Error("events beside an error")
		}
	})
}
