package arbiter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func exampleRecord() Record {
	return Record{Cluster: 0xabc, Members: [2]Member{{"a", 1}, {"b", 2}}, State: Paired}
}

func forget(Record) error { return nil }

// cutter is a way to a server that lets whole requests through and, when told to, keeps
// the answers back: it resets the connection, or says nothing.
type cutter struct {
	addr string
	mode atomic.Int32
	once atomic.Bool // the next answer only

	connections, ended, bytes atomic.Int64
}

const (
	through int32 = iota
	reset
	silent
)

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &cutter{addr: l.Addr().String()}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go c.carry(t.Context(), in, to)
		}
	}()
	return c
}

func (c *cutter) carry(ctx context.Context, in net.Conn, to string) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	c.connections.Add(1)
	go func() {
		n, _ := io.Copy(out, in)
		c.bytes.Add(n)
		c.ended.Add(1)
	}()
	answer := make([]byte, 64<<10)
	for {
		// Only once the server has answered, the request has certainly been served.
		n, err := out.Read(answer)
		if err != nil {
			return
		}
		mode := c.mode.Load()
		if c.once.Load() && mode != through {
			c.mode.Store(through)
		}
		switch mode {
		case reset:
			_ = in.(*net.TCPConn).SetLinger(0)
			return
		case silent:
			<-ctx.Done()
			return
		}
		c.bytes.Add(int64(n))
		if _, err := in.Write(answer[:n]); err != nil {
			return
		}
	}
}

// cutting puts a cutter in front of what the settings name.
func cutting(t *testing.T, settings Settings) (Settings, *cutter) {
	t.Helper()
	text := &settings.URL
	if u, err := url.Parse(settings.URL); err == nil && u.Scheme == "configmap" {
		data, err := os.ReadFile(u.Query().Get("kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "kubeconfig")
		settings.URL = "configmap://" + u.Host + u.Path + "?kubeconfig=" + path
		conf := string(data)
		text = &conf
		defer func() { write(t, path, conf) }()
	}
	*text = strings.ReplaceAll(*text, "127.0.0.1:1,", "")
	to := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(*text)
	cut := newCutter(t, to)
	*text = strings.ReplaceAll(*text, to, cut.addr)
	return settings, cut
}

func missingAnswersAreSettled(t *testing.T, settings Settings) {
	settings, cut := cutting(t, settings)
	c := NewClient(open(t, settings), "a", Record{}, forget)
	if _, err := c.Read(soon(t)); !errors.Is(err, ErrAbsent) {
		t.Fatal(err)
	}
	held, err := c.Change(soon(t), Held{}, exampleRecord())
	if err != nil {
		t.Fatal(err)
	}
	held = settled(t, c, cut, held, reset)
	held = settled(t, c, cut, held, silent)
	unsettled(t, c, cut, held)
}

// settled keeps the answer to a change back, which then has to be found by its nonce.
func settled(t *testing.T, c *Client, cut *cutter, held Held, mode int32) Held {
	t.Helper()
	cut.once.Store(true)
	cut.mode.Store(mode)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	next, err := c.Change(ctx, held, held.Record)
	if err != nil || next.Generation != held.Generation+1 {
		t.Fatalf("mode %d: generation %d, %v: the change was made, and the record says so", mode, next.Generation, err)
	}
	if cut.mode.Load() != through {
		t.Fatal("nothing was cut: this shows nothing")
	}
	return next
}

// unsettled keeps all answers back: it cannot be told, and says so, within the time given.
func unsettled(t *testing.T, c *Client, cut *cutter, held Held) {
	t.Helper()
	cut.once.Store(false)
	cut.mode.Store(silent)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := c.Change(ctx, held, held.Record); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrLost) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want ErrUnknown in one line", err)
	}
	cut.mode.Store(through)
	var now Held
	until(t, "it is read again", func() (ok bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var err error
		now, err = c.Read(ctx)
		return err == nil
	})
	if now.Generation != held.Generation+1 {
		t.Errorf("generation %d, want the one that was sent", now.Generation)
	}
	if _, err := c.Change(soon(t), held, held.Record); !errors.Is(err, ErrLost) {
		t.Errorf("a change of what was replaced: %v", err)
	}
}

// The connection that was kept died unnoticed: the read gets its answer on another.
func readsOnADeadConnection(t *testing.T, settings Settings) {
	settings, cut := cutting(t, settings)
	s := open(t, settings)
	put(t, s, "", "one")
	cut.once.Store(true)
	cut.mode.Store(silent)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if data, _, err := s.Read(ctx); err != nil || string(data) != "one" {
		t.Errorf("%q %v", data, err)
	}
}

// At rest a record is read every 10 s: on one connection, which outlives the pause, and
// in a few hundred bytes.
func TestTrafficAtRest(t *testing.T) {
	settings := serve(t, t.TempDir())
	u, err := url.Parse(settings.URL)
	if err != nil {
		t.Fatal(err)
	}
	cut := newCutter(t, u.Host)
	settings.URL = "http://" + cut.addr + u.Path
	s := open(t, settings)
	c := NewClient(s, "a", Record{}, forget)
	if _, err := c.Change(soon(t), Held{}, exampleRecord()); err != nil {
		t.Fatal(err)
	}
	const reads = 20
	for range reads {
		if _, err := c.Read(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "both ways are counted", func() bool { return cut.ended.Load() == cut.connections.Load() })
	per := cut.bytes.Load() / (reads + 1)
	t.Logf("%d connections, %d bytes a read, without TLS", cut.connections.Load(), per)
	if cut.connections.Load() != 1 || per > 1200 {
		t.Errorf("%d connections, %d bytes a read", cut.connections.Load(), per)
	}
}

// scripted is a store of which a test says what the next Swap answers.
type scripted struct {
	Store
	before func()
	err    error
}

func (s *scripted) Swap(ctx context.Context, was Version, data []byte) (Version, error) {
	if s.before != nil {
		s.before()
	}
	v, err := s.Store.Swap(ctx, was, data)
	if s.err != nil {
		return "", s.err
	}
	return v, err
}

// A proxy that sent a change twice has only the second answer: that somebody else came
// first. It was ourselves.
func TestLostToOurselves(t *testing.T) {
	s := &scripted{Store: open(t, serve(t, t.TempDir())), err: ErrLost}
	c := NewClient(s, "a", Record{}, forget)
	held, err := c.Change(soon(t), Held{}, exampleRecord())
	if err != nil || held.Generation != 1 {
		t.Fatal(err)
	}
	other := NewClient(s.Store, "b", Record{}, forget)
	s.before = func() {
		now, err := other.Read(soon(t))
		if err == nil {
			_, err = other.Change(soon(t), now, now.Record)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Change(soon(t), held, held.Record); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

func TestClientNeverGoesBack(t *testing.T) {
	store := open(t, serve(t, t.TempDir()))
	var kept Record
	full := errors.New("no space left")
	var broken error
	c := NewClient(store, "a", Record{}, func(r Record) error {
		if broken == nil {
			kept = r
		}
		return broken
	})
	first, err := c.Change(soon(t), Held{}, exampleRecord())
	if err != nil || kept.Generation != 1 || c.Seen() != first.Record {
		t.Fatalf("%v, kept %+v", err, kept)
	}
	second, err := c.Change(soon(t), first, first.Record)
	if err != nil {
		t.Fatal(err)
	}
	old, err := first.Encode()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := store.Swap(soon(t), second.version, old)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(soon(t)); !errors.Is(err, ErrRestored) {
		t.Errorf("an older record: %v", err)
	}
	// The same generation by another hand.
	fork := second.Record
	fork.Nonce = NewNonce()
	forked, err := fork.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if restored, err = store.Swap(soon(t), restored, forked); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(soon(t)); !errors.Is(err, ErrRestored) {
		t.Errorf("another record of the same generation: %v", err)
	}
	if _, err := store.Swap(soon(t), restored, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(soon(t)); !errors.Is(err, ErrUnreadable) {
		t.Errorf("no record: %v", err)
	}
	if _, err := NewClient(open(t, serve(t, t.TempDir())), "a", second.Record, forget).Read(soon(t)); !errors.Is(err, ErrRestored) {
		t.Errorf("none where there was one: %v", err)
	}
	now, err := Restore(soon(t), store, second.Record, "a person")
	if err != nil || now.Generation != second.Generation+1 {
		t.Fatal(err)
	}
	if r, err := c.Read(soon(t)); err != nil || r.Record != now {
		t.Errorf("after it was restored: %+v %v", r, err)
	}
	if _, err := Restore(soon(t), store, second.Record, "a person"); err == nil {
		t.Error("restored what was not missing")
	}
	foreign := second.Record
	foreign.Cluster++
	if _, err := Restore(soon(t), store, foreign, "a person"); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	// What cannot be kept may not be acted on.
	broken = full
	held, err := NewClient(store, "b", Record{}, forget).Read(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Change(soon(t), held, held.Record); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if _, err := c.Read(soon(t)); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

// Many clients on one record: generations are taken one by one, and none twice.
func TestManyClientsOneRecord(t *testing.T) {
	settings := serve(t, t.TempDir())
	start := NewClient(open(t, settings), "start", Record{}, forget)
	if _, err := start.Change(soon(t), Held{}, exampleRecord()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	taken := map[uint64]string{}
	var all sync.WaitGroup
	for i := range 8 {
		c := NewClient(open(t, settings), fmt.Sprint(i), Record{}, forget)
		all.Go(func() {
			for won := 0; won < 5; {
				held, err := c.Read(soon(t))
				if err != nil {
					t.Error(err)
					return
				}
				next, err := c.Change(soon(t), held, held.Record)
				if errors.Is(err, ErrLost) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				won++
				mu.Lock()
				if by := taken[next.Generation]; by != "" {
					t.Errorf("generation %d by %s and by %s", next.Generation, by, next.By)
				}
				taken[next.Generation] = next.By
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if r, err := start.Read(soon(t)); err != nil || r.Generation != 41 {
		t.Errorf("generation %d %v, want 41", r.Generation, err)
	}
}

func FuzzDecode(f *testing.F) {
	r := exampleRecord()
	r.Version, r.Generation, r.Nonce, r.By = RecordVersion, 3, NewNonce(), "a"
	good, err := r.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(append(good, good...))
	f.Add([]byte(strings.Replace(string(good), `"held"`, `"Held"`, 1)))
	f.Add([]byte(`{"version":1,"generation":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		if r.Validate() != nil || r.Words() == "" {
			t.Fatalf("%q was read as %+v", b, r)
		}
		again, err := r.Encode()
		if err != nil {
			return // a year beyond 9999, or longer in our own spelling
		}
		if back, err := Decode(again); err != nil || !back.Time.Equal(r.Time) || back.Nonce != r.Nonce || back.Generation != r.Generation || back.Members != r.Members {
			t.Fatalf("%q became %q: %v", b, again, err)
		}
	})
}
