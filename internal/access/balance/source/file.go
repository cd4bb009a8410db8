package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

const (
	// lookEvery is how often the file is looked at: one stat.
	lookEvery = time.Second
	// maxFile bounds the file, as config does for settings.
	maxFile = 1 << 20
)

// File reads backends from a file, again whenever it changes.
type File struct {
	path      string
	condition *condition
}

// NewFile returns the source; its format is that of parseFile: a YAML or JSON
// list of {address, zone, node, name, weight, backup}, or such lines.
func NewFile(path string, log *slog.Logger) *File {
	return &File{path: path, condition: newCondition("file "+path, log)}
}

// Name is "file PATH".
func (f *File) Name() string { return f.condition.get().Name }

// Status tells of the last reading.
func (f *File) Status() Status { return f.condition.get() }

// trusted: who may write the file is the operator's choice.
func (f *File) trusted() {}

// Run looks at the file until ctx ends. It is read when two looks in a row saw
// the same change, so that a file being written in place is not read half.
func (f *File) Run(ctx context.Context, publish func([]Backend)) error {
	var read, seen os.FileInfo // nil: never, or missing
	first := true
	for ; ctx.Err() == nil; wait(ctx, lookEvery) {
		info, err := f.stat()
		if err != nil {
			f.condition.report(err)
			read, seen, first = nil, nil, false
			continue
		}
		settled := first || same(info, seen)
		seen, first = info, false
		if same(info, read) || !settled {
			continue
		}
		data, err := f.read()
		if err != nil {
			f.condition.report(err)
			continue
		}
		read = info
		list, err := parseFile(data, f.path)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("%s: no backend in it; write one IP:PORT per line (the last list stays)", f.path)
		}
		f.condition.report(err)
		if err == nil {
			publish(list)
		}
	}
	return context.Cause(ctx)
}

func (f *File) stat() (os.FileInfo, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, explainFile(f.path, err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, fmt.Errorf("%s: not a regular file; correct the path", f.path)
	}
	return info, nil
}

func (f *File) read() ([]byte, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, explainFile(f.path, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, explainFile(f.path, err)
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s: larger than %d bytes; is this the right file?", f.path, maxFile)
	}
	return data, nil
}

func explainFile(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: not there; write it, or correct the path", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: may not be read; run as a user that may", path)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// same compares inode, size and modification time, as package creds does.
func same(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
