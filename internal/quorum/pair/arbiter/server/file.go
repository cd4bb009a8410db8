package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/file"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/store"
)

// A file is one line, "holdfast-object 1 VERSION SHA256", and the object as
// it was put. The sum finds what a disk or an editor did to it.
const (
	magic     = "holdfast-object 1 "
	fileEnd   = ".object"
	newSuffix = fileEnd + ".new"
	sumLen    = 2 * sha256.Size
	headLen   = len(magic) + 32 + 1 + sumLen + 1
)

// mostKey keeps file names below the 255 bytes that file systems take.
const mostKey = 200

// validKey: segments of letters, digits, "-", "_", "." and "~", none of which
// begins with a dot. So a key is never a way out of the directory.
func validKey(key string) bool {
	if len(key) > mostKey {
		return false
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment[0] == '.' || strings.Trim(segment, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~") != "" {
			return false
		}
	}
	return true
}

// fileOf is the name of a key's file; "%" stands in no key.
func fileOf(key string) string { return strings.ReplaceAll(key, "/", "%") + fileEnd }

func keyOf(name string) (string, bool) {
	base, ok := strings.CutSuffix(name, fileEnd)
	key := strings.ReplaceAll(base, "%", "/")
	return key, ok && validKey(key)
}

func encode(c content) []byte {
	return append([]byte(magic+c.version+" "+c.sum()+"\n"), c.data...)
}

// sum also covers the version: another one would be that of another state.
func (c content) sum() string {
	h := sha256.New()
	h.Write([]byte(c.version + "\n"))
	h.Write(c.data)
	return hex.EncodeToString(h.Sum(nil))
}

// decode is the reverse of encode; an error says what is wrong.
func decode(b []byte) (content, error) {
	if len(b) < headLen || !bytes.HasPrefix(b, []byte(magic)) || b[headLen-1] != '\n' {
		return content{}, errors.New("no object of this program's layout")
	}
	version, sum, ok := strings.Cut(string(b[len(magic):headLen-1]), " ")
	if !ok || len(version) != 32 || strings.Trim(version, "0123456789abcdef") != "" {
		return content{}, errors.New("no version in its first line")
	}
	c := content{version: version, data: b[headLen:]}
	if c.sum() != sum {
		return content{}, errors.New("content and checksum differ")
	}
	return c, nil
}

// readFile also syncs it: it may be there by a write that never ended.
func readFile(path string) (content, error) {
	b, err := file.Read(path, int64(headLen+store.MaxObject))
	if err != nil {
		return content{damaged: err}, nil
	}
	c, err := decode(b)
	if err != nil {
		return content{damaged: err}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return content{}, err
	}
	defer func() { _ = f.Close() }()
	if err := f.Sync(); err != nil {
		return content{}, fmt.Errorf("sync %s: %w", path, err)
	}
	return c, nil
}

// writeFile puts c in the place of path, for good. Of an error, changed says that
// path may have been replaced, though perhaps not for good.
func writeFile(path string, c content, dir *os.File) (changed bool, err error) {
	fresh := strings.TrimSuffix(path, fileEnd) + newSuffix
	if err := writeSynced(fresh, encode(c)); err != nil {
		_ = os.Remove(fresh) // the next change or start does
		return false, err
	}
	if err := os.Rename(fresh, path); err != nil {
		return true, err
	}
	return true, dir.Sync()
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
