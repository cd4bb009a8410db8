package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// mostObjects bounds memory and the directory: 4 MiB of objects. One pair has two.
const mostObjects = 1024

var (
	errLost   = errors.New("it has another version")
	errFull   = errors.New("no space left")
	errBroken = errors.New("the directory could not be synced; restart when the disk is mended")
)

// content is one state of an object. The zero one is an object that is not there.
type content struct {
	version string // empty: not there
	data    []byte
	damaged error // the file is there, and not as it was written
}

// object is one that a change was asked for, or that is there.
type object struct {
	writing sync.Mutex // held by the one change under way, also while it syncs
	now     content    // under shelf.mu
}

// shelf keeps objects in a directory, each in a file of its own.
type shelf struct {
	path string
	dir  *os.File // also holds the lock
	log  *slog.Logger

	mu      sync.Mutex
	objects map[string]*object
	broken  error
}

// openShelf locks the directory, which is made if it is not there, and reads it.
func openShelf(path string, log *slog.Logger) (*shelf, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("dir %q: %w; name a directory that this user may write", path, errors.Unwrap(err))
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dir: %w", err)
	}
	s := &shelf{path: path, dir: dir, log: log, objects: map[string]*object{}}
	if err := s.load(); err != nil {
		_ = dir.Close() // the lock goes with it
		return nil, err
	}
	return s, nil
}

func (s *shelf) load() error {
	if err := syscall.Flock(int(s.dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("dir %s is in use by another arbiter; end it, or name another directory", s.path)
		}
		return fmt.Errorf("lock dir %s: %w", s.path, err)
	}
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return fmt.Errorf("read dir: %w", err)
	}
	for _, e := range entries {
		if err := s.loadFile(e.Name()); err != nil {
			return err
		}
	}
	// Whoever was here before may have died between rename and sync.
	if err := s.dir.Sync(); err != nil {
		return fmt.Errorf("sync dir %s: %w", s.path, err)
	}
	return nil
}

func (s *shelf) loadFile(name string) error {
	path := filepath.Join(s.path, name)
	if strings.HasSuffix(name, newSuffix) {
		// A change that was cut short, never acknowledged.
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove an unfinished change: %w", err)
		}
		return nil
	}
	key, ok := keyOf(name)
	if !ok {
		return nil // not ours
	}
	c, err := readFile(path)
	if err != nil {
		return err
	}
	if c.damaged != nil {
		s.log.Error("an object is damaged and not served; restore its file from a backup and restart", "path", path, "error", c.damaged)
	}
	s.objects[key] = &object{now: c}
	return nil
}

// close gives the directory free.
func (s *shelf) close() error { return s.dir.Close() }

func (s *shelf) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// read returns the object, never one that could still vanish.
func (s *shelf) read(key string) (content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return content{}, s.broken
	}
	o := s.objects[key]
	if o == nil {
		return content{}, nil
	}
	return o.now, o.now.damaged
}

// swap replaces the object of version was ("": none). errLost: it has another
// version. errFull: nothing was changed. Other errors: it may have been.
func (s *shelf) swap(key, was string, data []byte) (version string, err error) {
	o, err := s.claim(key, was == "")
	if err != nil {
		return "", err
	}
	o.writing.Lock()
	defer o.writing.Unlock()
	now, err := s.read(key)
	if err != nil {
		return "", err
	}
	if now.version != was {
		return "", errLost
	}
	next := content{version: newVersion(), data: data}
	changed, err := writeFile(filepath.Join(s.path, fileOf(key)), next, s.dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		o.now = next
		return next.version, nil
	case changed:
		s.broken = fmt.Errorf("%w: %w", errBroken, err)
		s.log.Error("stopped answering", "error", s.broken)
		return "", s.broken
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "", fmt.Errorf("%w: %w", errFull, err)
	}
	return "", err
}

// claim finds the object, or a place for it if it may be made.
func (s *shelf) claim(key string, make bool) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	if o == nil {
		if !make {
			return nil, errLost
		}
		if len(s.objects) >= mostObjects {
			return nil, fmt.Errorf("%w: %d objects are the most", errFull, mostObjects)
		}
		o = &object{}
		s.objects[key] = o
	}
	return o, nil
}

// newVersion is random, so that no backup brings back one that somebody still holds.
func newVersion() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails, says crypto/rand
	return hex.EncodeToString(b[:])
}
