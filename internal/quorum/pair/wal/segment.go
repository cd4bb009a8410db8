package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"golang.org/x/sys/unix"
)

// segment is one file of the log, held under the lock that etcd takes.
type segment struct {
	name       string
	seq, index uint64 // index of the first entry in it
	file       *fileutil.LockedFile
	size       int64
}

// segments are the files of a log, oldest first.
type segments []*segment

// segmentName is what etcd calls a segment; a name that is not exactly one is
// left alone, as etcd does.
func segmentName(name string) (seq, index uint64, ok bool) {
	if _, err := fmt.Sscanf(name, "%016x-%016x.wal", &seq, &index); err != nil {
		return 0, 0, false
	}
	return seq, index, fmt.Sprintf("%016x-%016x.wal", seq, index) == name
}

// lockSegments opens all segments of dir and locks them. The lock keeps a
// running etcd from being edited and an etcd that is started meanwhile from
// reading half an edit.
func lockSegments(dir string) (segments, error) {
	names, err := segmentNames(dir)
	if err != nil {
		return nil, err
	}
	var all segments
	for _, name := range names {
		s := &segment{name: name}
		s.seq, s.index, _ = segmentName(name)
		s.file, err = fileutil.TryLockFile(filepath.Join(dir, name), os.O_RDWR, fileutil.PrivateFileMode)
		if err != nil {
			all.close()
			return nil, lockError(name, err)
		}
		all = append(all, s)
		info, err := s.file.Stat()
		if err != nil {
			all.close()
			return nil, err
		}
		s.size = info.Size()
	}
	// A running etcd may have begun a segment between the listing and the locks.
	again, err := segmentNames(dir)
	if err != nil {
		all.close()
		return nil, err
	}
	if !slices.Equal(names, again) {
		all.close()
		return nil, refuse(Running, remedyRunning, "segments of the log are being made or removed")
	}
	return all, nil
}

const remedyRunning = "stop etcd first, and keep its supervisor from starting it again"

func lockError(name string, err error) error {
	switch {
	case errors.Is(err, fileutil.ErrLocked):
		return refuse(Running, remedyRunning, "another process has locked %s", name)
	case errors.Is(err, fs.ErrPermission):
		return refuse(NotOwner, "run as the owner of the files, or as root", "open %s: permission denied", name)
	}
	return fmt.Errorf("lock %s: %w", name, err)
}

func segmentNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(NotThere, "name the directory that etcd has as --data-dir, and --wal-dir if it is elsewhere", "no directory %s", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	var names []string
	for _, e := range entries {
		if _, _, ok := segmentName(e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, refuse(NotThere, "name the directory that etcd has as --data-dir, and --wal-dir if it is elsewhere", "no segments in %s", dir)
	}
	return names, nil
}

func (s segments) close() {
	for _, one := range s {
		one.file.Close()
	}
}

// skip returns the next offset from at that has data, or the size.
func (s *segment) skip(at int64) int64 {
	next, err := unix.Seek(int(s.file.Fd()), at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return s.size
	case err != nil || next < at:
		return at
	}
	return next
}
