package source

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// entry is one file of a tree, to be read at once or not at all.
type entry struct {
	name string // slash-separated, below the root, clean
	size int64  // as announced; the reader is held to it
	mode fs.FileMode
	r    io.Reader
}

// tree hands every file to visit, in the order of their names or of the archive.
// What cannot be read goes to bad, and the rest follows; an error ends it all.
type tree interface {
	walk(visit func(entry) error, bad func(name string, err error)) error
}

// directory is a tree on disk. Symbolic links are followed where they stay inside
// (kubelet's volumes are full of them) and refused where they do not.
type directory struct{ root string }

func (d directory) walk(visit func(entry) error, bad func(string, error)) error {
	root, err := os.OpenRoot(d.root)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // only read
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			bad(name, plain(err))
			return nil
		case e.IsDir() && hidden(e.Name()):
			return fs.SkipDir // .git and its like
		case e.IsDir():
			return nil
		}
		return openFile(root, name, visit, bad)
	})
}

func openFile(root *os.Root, name string, visit func(entry) error, bad func(string, error)) error {
	// Without O_NONBLOCK opening a FIFO waits for its writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		bad(name, plain(err))
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	switch {
	case err != nil:
		bad(name, plain(err))
		return nil
	case info.IsDir():
		return nil // a link to a directory inside, which is walked by its own name
	case !info.Mode().IsRegular():
		bad(name, errKind)
		return nil
	}
	return visit(entry{name: filepath.ToSlash(name), size: info.Size(), mode: info.Mode(), r: f})
}

// plain takes the path out of an error of the os package: it is named beside it.
func plain(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// single is a tree of one file.
type single struct{ path string }

func (s single) walk(visit func(entry) error, bad func(string, error)) error {
	dir, err := os.OpenRoot(filepath.Dir(s.path))
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer dir.Close() //nolint:errcheck // only read
	return openFile(dir, filepath.Base(s.path), visit, bad)
}

// archive is a tar, compressed or not.
type archive struct {
	path  string
	total int64
}

func (a archive) walk(visit func(entry) error, bad func(string, error)) error {
	f, err := os.Open(a.path)
	if err != nil {
		return fmt.Errorf("open bundle: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	return readTar(f, a.total, visit, bad)
}

// readTar reads an archive to its end. Where it is cut short all that came before
// has been visited, and the error says so.
func readTar(src io.Reader, total int64, visit func(entry) error, bad func(string, error)) error {
	buffered := bufio.NewReaderSize(src, 1<<16)
	var plainTar io.Reader = buffered
	magic, _ := buffered.Peek(2)
	if len(magic) == 0 {
		return errors.New("read bundle: empty; copy it again")
	}
	if slices.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("read bundle: %w", err)
		}
		plainTar = z
	}
	// The archive's own headers count too: a bomb may consist of names.
	bounded := &meter{r: plainTar, left: total}
	for t := tar.NewReader(bounded); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return drain(bounded)
		case err != nil:
			return fmt.Errorf("read bundle: %w", cut(err))
		}
		if err := visitTar(h, t, visit, bad); err != nil {
			return fmt.Errorf("read bundle: %w", cut(err))
		}
	}
}

// drain reads what follows the archive's end, so that a checksum that does not
// hold is noticed.
func drain(r io.Reader) error {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("read bundle: %w", cut(err))
	}
	return nil
}

// cut names what is mostly behind an archive that ends too soon.
func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("ends too soon; copy it again")
	}
	return err
}

func visitTar(h *tar.Header, r io.Reader, visit func(entry) error, bad func(string, error)) error {
	name := strings.TrimPrefix(path.Clean(strings.ReplaceAll(h.Name, `\`, "/")), "./")
	switch {
	case name == ".." || strings.HasPrefix(name, "../") || path.IsAbs(name):
		bad(h.Name, errOutside)
		return nil
	case h.Typeflag == tar.TypeDir:
		return nil
	case h.Typeflag == tar.TypeXGlobalHeader:
		return nil
	case h.Typeflag != tar.TypeReg:
		bad(name, errKind)
		return nil
	}
	return visit(entry{name: name, size: h.Size, mode: h.FileInfo().Mode(), r: r})
}

// meter fails once more than left bytes were read.
type meter struct {
	r    io.Reader
	left int64
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, errTotal
	}
	if int64(len(p)) > m.left {
		p = p[:m.left]
	}
	n, err := m.r.Read(p)
	m.left -= int64(n)
	return n, err
}
