package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	plain, fifo, link := filepath.Join(dir, "plain"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := os.WriteFile(plain, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(plain, link)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		most int64
		want error
	}{
		{plain, 5, nil}, {link, 5, nil}, {plain, 4, ErrTooLarge}, {fifo, 5, ErrNotRegular}, {dir, 5, ErrNotRegular},
		{filepath.Join(dir, "none"), 5, fs.ErrNotExist}, {"/dev/zero", 5, ErrNotRegular},
	} {
		data, err := Read(c.path, c.most)
		if !errors.Is(err, c.want) || err == nil && string(data) != "12345" {
			t.Errorf("%s: %q, %v; want %v", c.path, data, err, c.want)
		}
	}
}
