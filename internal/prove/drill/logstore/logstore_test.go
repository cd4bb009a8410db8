package logstore

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// pair is two zones over real sockets; b listens and answers nothing while it
// is cut off.
func pair(t *testing.T, mode string, patience time.Duration, cutOff bool) *httptest.Server {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	peers := []peer{{name: "a"}, {"b", "http://" + silent.Addr().String()}}
	if !cutOff {
		b := newNode(options{name: "b", mode: mode, patience: patience, peers: []peer{{name: "b"}}})
		if err := b.store.add([]line{{"b", 1, "x"}, {"b", 2, "y"}, {"a", 1, "z"}}); err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(b)
		t.Cleanup(server.Close)
		peers[1].url = server.URL
	}
	a := newNode(options{name: "a", mode: mode, patience: patience, peers: peers})
	if err := a.store.add([]line{{"a", 2, "x"}, {"a", 2, "x"}}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return server
}

func query(t *testing.T, server *httptest.Server) (int, map[string]Tally, string) {
	t.Helper()
	resp, err := http.Get(server.URL + Query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]Tally
	_ = json.Unmarshal(data, &out) // an error is text
	return resp.StatusCode, out, string(data)
}

func TestQueryAsksAllShards(t *testing.T) {
	code, got, text := query(t, pair(t, Sharded, time.Minute, false))
	want := map[string]Tally{"a": {2, 2}, "b": {2, 2}}
	if code != http.StatusOK || !reflect.DeepEqual(got, want) {
		t.Errorf("%d %s, want 200 with %v", code, text, want)
	}
}

// One shard that does not answer fails the query whole, and not before the
// patience is over.
func TestQueryFailsWhole(t *testing.T) {
	const patience = 300 * time.Millisecond
	began := time.Now()
	code, _, text := query(t, pair(t, Sharded, patience, true))
	if took := time.Since(began); code != http.StatusGatewayTimeout || took < patience {
		t.Errorf("%d after %s: %s; want 504 after %s", code, took, text, patience)
	}
	if !strings.Contains(text, "shard b has not answered") {
		t.Errorf("%q does not say which shard", text)
	}
}

func TestZonedQueryAsksItsOwnStoreAlone(t *testing.T) {
	code, got, text := query(t, pair(t, Zoned, time.Minute, true))
	if want := map[string]Tally{"a": {1, 2}}; code != http.StatusOK || !reflect.DeepEqual(got, want) {
		t.Errorf("%d %s, want 200 with %v", code, text, want)
	}
}

func TestTargets(t *testing.T) {
	peers := []peer{{name: "a"}, {name: "b"}}
	for seq := range uint64(6) {
		if got := targets(true, peers, seq); len(got) != 1 || got[0] != peers[seq%2] {
			t.Errorf("line %d of a sharded store goes to %v", seq, got)
		}
		if got := targets(false, peers, seq); !reflect.DeepEqual(got, peers) {
			t.Errorf("line %d of zoned stores goes to %v, want all", seq, got)
		}
	}
}

// What could not be delivered is delivered when the store is there, without a
// hole.
func TestCollectorCatchesUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	a := newNode(options{name: "a", mode: Zoned, peers: []peer{{name: "a"}, {"b", "http://" + address}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go newCollector(a).run(ctx)
	await(t, func() error {
		if n := a.store.tallies()["a"].Lines; n < 5 {
			return fmt.Errorf("own store has %d lines", n)
		}
		return nil
	})
	b := newNode(options{name: "b", mode: Zoned})
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: b}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(l) }()
	await(t, func() error {
		if got := b.store.tallies()["a"]; got.Lines < 5 || got.Lines != got.Last {
			return fmt.Errorf("b has %+v of a", got)
		}
		return nil
	})
}

func await(t *testing.T, ready func() error) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}

func TestStoreRefusesWhatIsNoBatch(t *testing.T) {
	server := pair(t, Zoned, time.Minute, true)
	for body, want := range map[string]int{
		`[{"origin":"a","seq":7,"text":"x"}]`: http.StatusNoContent,
		`[{"origin":"a","seq":0}]`:            http.StatusBadRequest,
		`[{"seq":1}]`:                         http.StatusBadRequest,
		`[] []`:                               http.StatusBadRequest,
		`{`:                                   http.StatusBadRequest,
		strings.Repeat(" ", maxBatch+1):       http.StatusRequestEntityTooLarge,
	} {
		resp, err := http.Post(server.URL+pathLines, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%.40q: %d, want %d", body, resp.StatusCode, want)
		}
	}
}

func TestMistakesOfFlags(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"--name a --peer a", "write ZONE=http://HOST:PORT"},
		{"--name a --peer a=https://h:1", "write ZONE=http://HOST:PORT"},
		{"--name c --peer a=http://h:1", "add --peer c="},
		{"--name a --peer a=http://h:1 --mode both", "choose sharded or zoned"},
		{"--name a --peer a=http://h:1 --patience 0s", "choose one such as 30s"},
	} {
		cmd := Command()
		cmd.SetArgs(strings.Fields(tc.args))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.args, err, tc.want)
		}
	}
}

func FuzzDecodeLines(f *testing.F) {
	f.Add([]byte(`[{"origin":"a","seq":1,"text":"x"}]`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`[{"origin":"a","seq":-1}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, err := decodeLines(data)
		if err != nil {
			return
		}
		s := newStore()
		if err := s.add(lines); err != nil {
			t.Skip(err)
		}
		if err := s.add(lines); err != nil {
			t.Fatal(err)
		}
		for origin, got := range s.tallies() {
			if origin == "" || got.Lines == 0 || got.Last == 0 {
				t.Fatalf("%q has %+v", origin, got)
			}
		}
	})
}
