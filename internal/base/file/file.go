package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrNotRegular is wrapped when the path leads to something that is no file.
var ErrNotRegular = errors.New("not a regular file; correct the path")

// ErrTooLarge is wrapped when the file has more bytes than asked for.
var ErrTooLarge = errors.New("too large; is this the right file?")

// Read returns the content of a regular file of at most most bytes. Symbolic
// links are followed. Errors are of the os package, or wrap ErrNotRegular or
// ErrTooLarge; they name the path.
func Read(path string, most int64) ([]byte, error) {
	// Without O_NONBLOCK opening a FIFO waits for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s: over %d bytes: %w", path, most, ErrTooLarge)
	}
	return data, nil
}
