package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// childDir makes this test binary a server on that directory.
const childDir = "HOLDFAST_TEST_ARBITER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(dir string) error {
	shelf, err := openShelf(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("at", l.Addr())
	log := slog.New(slog.DiscardHandler)
	return serve(context.Background(), l, &handler{shelf: shelf, log: log}, log)
}

// start runs a child and returns its URL.
func start(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "at ")
	if !ok {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return cmd, "http://" + addr
}

// TestKilledAtAnyMoment has four writers, each of an object of its own, while the
// server is killed again and again. What was acknowledged last stands, or what was
// sent after it and never answered.
func TestKilledAtAnyMoment(t *testing.T) {
	const kills = 25
	dir := t.TempDir()
	writers := make([]*writer, 4)
	for i := range writers {
		writers[i] = &writer{path: fmt.Sprintf("/pairs/%d", i)}
	}
	for range kills {
		cmd, base := start(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, w := range writers {
			if err := w.compare(ctx, base); err != nil {
				t.Fatal(err)
			}
			all.Go(func() { w.write(ctx, base) })
		}
		// Any time will do: a round of changes takes a few milliseconds.
		<-time.After(time.Duration(rand.Int64N(int64(40 * time.Millisecond))))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		all.Wait()
		cancel()
	}
	acknowledged := 0
	for _, w := range writers {
		acknowledged += w.acknowledged
	}
	t.Logf("%d changes acknowledged", acknowledged)
	if acknowledged < kills {
		t.Errorf("only %d changes were acknowledged: this shows nothing", acknowledged)
	}
}

type writer struct {
	path         string
	number       int
	stands       string // acknowledged, or read
	etag         string
	sent         string // and not answered; "" if none
	acknowledged int
}

// write changes the object until the server is gone.
func (w *writer) write(ctx context.Context, base string) {
	for {
		w.number++
		next := fmt.Sprintf("change %d", w.number)
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, base+w.path, strings.NewReader(next))
		if err != nil {
			panic(err)
		}
		if w.etag == "" {
			r.Header.Set("If-None-Match", "*")
		} else {
			r.Header.Set("If-Match", w.etag)
		}
		w.sent = next
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusNoContent {
			w.stands = fmt.Sprintf("an answer of %d", res.StatusCode) // compare fails
			return
		}
		w.stands, w.etag, w.sent = next, res.Header.Get("ETag"), ""
		w.acknowledged++
	}
}

// compare reads after a restart.
func (w *writer) compare(ctx context.Context, base string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+w.path, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	got, etag := string(b), res.Header.Get("ETag")
	if res.StatusCode == http.StatusNotFound {
		got = ""
	}
	switch {
	case got == w.stands && etag == w.etag:
	case got == w.sent && got != "":
		w.stands, w.etag = got, etag
	default:
		return fmt.Errorf("%s is %q (%s); acknowledged was %q (%s), sent %q", w.path, got, etag, w.stands, w.etag, w.sent)
	}
	w.sent = ""
	return nil
}
