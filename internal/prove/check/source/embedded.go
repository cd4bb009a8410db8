package source

import (
	"io/fs"
	"path"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// OpenFS is Open on a directory of a file system that the program brings along. Name
// stands for it in messages.
func OpenFS(files fs.FS, name string, limits Limits) (*fact.Facts, error) {
	return read(embedded{files}, name, limits)
}

// embedded is a tree of regular files only.
type embedded struct{ files fs.FS }

func (e embedded) walk(visit func(entry) error, bad func(string, error)) error {
	return fs.WalkDir(e.files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			bad(name, plain(err))
			return nil
		case d.IsDir() && hidden(path.Base(name)):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		return visitFile(e.files, name, visit, bad)
	})
}

func visitFile(files fs.FS, name string, visit func(entry) error, bad func(string, error)) error {
	f, err := files.Open(name)
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
	case !info.Mode().IsRegular():
		bad(name, errKind)
		return nil
	}
	return visit(entry{name: name, size: info.Size(), mode: info.Mode(), r: f})
}
