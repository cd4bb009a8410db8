package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestShelfOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	h := newHandler(t, dir)
	etag := ask(h, "PUT", "/pairs/prod", "one", create).Header().Get("ETag")
	if _, err := openShelf(dir, h.log); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second process was let in: %v", err)
	}
	// As left by a death before the rename.
	if err := os.WriteFile(filepath.Join(dir, "pairs%prod.object.new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.shelf.close(); err != nil {
		t.Fatal(err)
	}
	h = newHandler(t, dir)
	if w := ask(h, "GET", "/pairs/prod", ""); w.Body.String() != "one" || w.Header().Get("ETag") != etag {
		t.Errorf("%d %q %q", w.Code, w.Body, w.Header().Get("ETag"))
	}
	if _, err := os.Stat(filepath.Join(dir, "pairs%prod.object.new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was not finished is still there: %v", err)
	}
}

func TestDamagedObjectIsNeitherServedNorReplaced(t *testing.T) {
	dir := t.TempDir()
	h := newHandler(t, dir)
	ask(h, "PUT", "/one", "one", create)
	path := filepath.Join(dir, fileOf("one"))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		damage(t, dir, h, path, bad)
	}
	for n := range good {
		damage(t, dir, h, path, good[:n])
	}
}

func damage(t *testing.T, dir string, h *handler, path string, bad []byte) {
	t.Helper()
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = h.shelf.close()
	s, err := openShelf(dir, h.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	again := &handler{shelf: s, tokens: h.tokens, log: h.log}
	get, put := ask(again, "GET", "/one", ""), ask(again, "PUT", "/one", "new", create)
	if get.Code != 500 || put.Code != 500 {
		t.Errorf("%q: GET %d, PUT %d", bad, get.Code, put.Code)
	}
}

// TestFullDisk needs root, as the lab does, for a file system of a few pages.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=32k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	h := newHandler(t, dir)
	etag := ask(h, "PUT", "/one", "one", create).Header().Get("ETag")
	hog := filepath.Join(dir, "hog")
	if err := os.WriteFile(hog, make([]byte, 32<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for range 3 {
		if w := ask(h, "PUT", "/one", "two", "If-Match: "+etag); w.Code != 507 {
			t.Fatalf("on a full disk: %d %s", w.Code, w.Body)
		}
	}
	if w := ask(h, "GET", "/one", ""); w.Body.String() != "one" {
		t.Errorf("the old object is gone: %d %q", w.Code, w.Body)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	if w := ask(h, "PUT", "/one", "two", "If-Match: "+etag); w.Code != 204 {
		t.Errorf("once there is space: %d %s", w.Code, w.Body)
	}
}

func TestObjectsAreBounded(t *testing.T) {
	h := newHandler(t, t.TempDir())
	h.shelf.mu.Lock()
	for i := range mostObjects - 1 {
		h.shelf.objects[fmt.Sprint(i)] = &object{}
	}
	h.shelf.mu.Unlock()
	for _, want := range []int{204, 507} {
		if w := ask(h, "PUT", fmt.Sprintf("/want%d", want), "x", create); w.Code != want {
			t.Errorf("%d, want %d", w.Code, want)
		}
	}
	// Changes of objects that are not there take no place.
	if w := ask(h, "PUT", "/none", "x", `If-Match: "x"`); w.Code != 412 {
		t.Errorf("%d", w.Code)
	}
}

// A directory that cannot be synced: what was read may be gone after a power loss.
func TestUnsyncedDirectoryEndsAllAnswers(t *testing.T) {
	h := newHandler(t, t.TempDir())
	etag := ask(h, "PUT", "/one", "one", create).Header().Get("ETag")
	sound := h.shelf.dir
	broken, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_ = broken.Close()
	h.shelf.dir = broken
	defer func() { h.shelf.dir = sound }()
	if w := ask(h, "PUT", "/one", "two", "If-Match: "+etag); w.Code != 500 {
		t.Errorf("%d", w.Code)
	}
	if w := ask(h, "GET", "/one", ""); w.Code != 500 {
		t.Errorf("still serves %d %q", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/healthz", ""); w.Code != 503 {
		t.Errorf("healthz %d", w.Code)
	}
}

func TestOpenShelfNamesTheMistake(t *testing.T) {
	f := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(f, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{f, filepath.Join(f, "below"), "/proc/nowhere"} {
		s, err := openShelf(dir, slog.New(slog.DiscardHandler))
		if err == nil {
			_ = s.close()
			t.Errorf("%s was taken", dir)
			continue
		}
		if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "dir") {
			t.Error(err)
		}
	}
}
