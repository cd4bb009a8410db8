package guard

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// maxFileBytes is far above the largest text and picture of the repository, and
// far below a program that `go build` left in the tree.
const maxFileBytes = 1 << 20

// large finds files that nobody would write: what is committed stays in every clone.
func large(root fs.FS) (all []string, err error) {
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipped, name) || strings.HasSuffix(name, "/testdata/fuzz") {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err == nil && info.Size() > maxFileBytes {
			all = append(all, fmt.Sprintf("%s: %d bytes; over %d it is not source, keep it out", name, info.Size(), maxFileBytes))
		}
		return err
	})
	return all, err
}

func TestNothingLargeIsInTheTree(t *testing.T) {
	got, err := large(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range got {
		t.Error(complaint)
	}
	got, err = large(fstest.MapFS{
		"holdfast": {Data: make([]byte, maxFileBytes+1)}, "bin/holdfast": {Data: make([]byte, maxFileBytes+1)}, "a/a.go": {Data: []byte("package a\n")},
	})
	if err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "holdfast: ") {
		t.Errorf("%v, %v; want the program in the root alone", got, err)
	}
}
