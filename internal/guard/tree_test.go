package guard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/holdfast-ha/holdfast"

// file is one text file of the tree; go fields are set for Go files of the
// main module.
type file struct {
	name string // slash-separated, from the root
	text string

	syntax *ast.File
	set    *token.FileSet
}

func (f *file) dir() string       { return path.Dir(f.name) }
func (f *file) isGo() bool        { return f.syntax != nil }
func (f *file) isTest() bool      { return strings.HasSuffix(f.name, "_test.go") }
func (f *file) isGenerated() bool { return f.isGo() && ast.IsGenerated(f.syntax) }

// tree is all text files of a repository, by name.
type tree struct {
	files   []*file
	modules []string // directories with a go.mod
}

// skipped are directories that hold no source: made by make, or by git.
var skipped = []string{".git", "bin", "demo", "node_modules"}

func load(t *testing.T, root fs.FS) *tree {
	t.Helper()
	tr := &tree{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipped, name) {
				return fs.SkipDir
			}
			return nil
		}
		if d.Name() == "go.mod" {
			tr.modules = append(tr.modules, path.Dir(name))
		}
		if !isText(name) {
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		tr.files = append(tr.files, &file{name: name, text: string(data)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tr.parse(t)
	return tr
}

func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".yaml", ".yml", ".json", ".txt", ".mod", ".sh", ".tmpl", ".html", ".css", ".js", ".svg", ".service":
		return true
	case "":
		return path.Base(name) == "Makefile" || strings.HasPrefix(name, "scripts/") || strings.HasPrefix(name, ".ci/")
	}
	return false
}

// parse fills in the syntax of the Go files of the main module.
func (tr *tree) parse(t *testing.T) {
	t.Helper()
	for _, f := range tr.files {
		if path.Ext(f.name) != ".go" || tr.isNested(f.name) || strings.Contains(f.name, "/testdata/") {
			continue
		}
		f.set = token.NewFileSet()
		syntax, err := parser.ParseFile(f.set, f.name, f.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		f.syntax = syntax
	}
}

func (tr *tree) isNested(name string) bool {
	return slices.ContainsFunc(tr.modules, func(dir string) bool { return dir != "." && strings.HasPrefix(name, dir+"/") })
}

// packages groups the Go files of the main module by directory.
func (tr *tree) packages() map[string][]*file {
	all := map[string][]*file{}
	for _, f := range tr.files {
		if f.isGo() {
			all[f.dir()] = append(all[f.dir()], f)
		}
	}
	return all
}

// repository is the tree that this package stands in, read once.
func repository(t *testing.T) *tree {
	t.Helper()
	if here == nil {
		here = load(t, os.DirFS("../.."))
	}
	return here
}

var here *tree

// plant makes a tree from names and contents.
func plant(t *testing.T, files map[string]string) *tree {
	t.Helper()
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return load(t, m)
}

// holds reports every complaint about the repository as an error.
func holds(t *testing.T, rule func(*tree) []string) {
	t.Helper()
	for _, complaint := range rule(repository(t)) {
		t.Error(complaint)
	}
}

// catches checks that the rule finds exactly the given faults in a planted
// tree, each identified by a part of its text.
func catches(t *testing.T, rule func(*tree) []string, files map[string]string, want ...string) {
	t.Helper()
	got := rule(plant(t, files))
	if len(got) != len(want) {
		t.Errorf("%d complaints, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.Contains(g, w) }) {
			t.Errorf("no complaint about %q in:\n%s", w, strings.Join(got, "\n"))
		}
	}
}
