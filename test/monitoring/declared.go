package monitoring

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// metric is one that the code makes.
type metric struct {
	name string
	// labels are those given in the code; nil where they cannot be read.
	labels []string
}

// asked are labels that the scraper adds, beside those that Prometheus gives itself.
var asked = []string{"cluster", "instance", "job"}

func (m metric) has(label string) bool {
	return m.labels == nil || label == "__name__" || label == "le" || slices.Contains(asked, label) || slices.Contains(m.labels, label)
}

// declared reads the metrics out of the Go files below root, which is the directory
// internal of the repository. It knows the three ways in which this code makes one: a
// call of a package's desc, of a function in newMetrics, and an Opts literal.
func declared(root string) (map[string]metric, error) {
	all := map[string]metric{}
	byDir := map[string][]*ast.File{}
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		byDir[filepath.Dir(path)] = append(byDir[filepath.Dir(path)], f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for dir, files := range byDir {
		prefix := prefixOf(files)
		drill := strings.HasSuffix(filepath.ToSlash(dir), "prove/report")
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				for _, m := range metrics(n, prefix, drill) {
					all[m.name] = m
				}
				return true
			})
		}
	}
	return all, nil
}

var ours = regexp.MustCompile(`^holdfast_[a-z_]+_$`)

// prefixOf finds what all metrics of a package begin with: the literal in its desc, or
// the Subsystem of its Opts.
func prefixOf(files []*ast.File) (prefix string) {
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if s := literal(n); ours.MatchString(s) {
					prefix = s
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Subsystem" && literal(n.Value) != "" {
					prefix = "holdfast_" + literal(n.Value) + "_"
				}
			}
			return true
		})
	}
	return prefix
}

var makers = []string{"desc", "gauge", "counter", "single"}

// metrics are those that one node declares.
func metrics(n ast.Node, prefix string, drill bool) []metric {
	call, ok := n.(*ast.CallExpr)
	if s := literal(n); drill && strings.HasPrefix(s, "holdfast_drill_") {
		return []metric{{name: s}}
	}
	if !ok || prefix == "" || len(call.Args) == 0 {
		return nil
	}
	switch f := call.Fun.(type) {
	case *ast.Ident:
		if name := literal(call.Args[0]); name != "" && slices.Contains(makers, f.Name) && len(call.Args) > 1 {
			labels := []string{}
			for _, arg := range call.Args[2:] {
				labels = append(labels, literal(arg))
			}
			return []metric{{prefix + name, labels}}
		}
	case *ast.SelectorExpr:
		if opts, ok := call.Args[0].(*ast.CompositeLit); ok && strings.HasPrefix(f.Sel.Name, "New") {
			return fromOpts(opts, call.Args[1:], prefix)
		}
	}
	return nil
}

// fromOpts reads prometheus.NewX(prometheus.XOpts{Name: "…"}, []string{labels}).
func fromOpts(opts *ast.CompositeLit, rest []ast.Expr, prefix string) []metric {
	name, histogram, labels := "", false, []string{}
	if t, ok := opts.Type.(*ast.SelectorExpr); ok {
		histogram = t.Sel.Name == "HistogramOpts"
	}
	for _, e := range opts.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Name" {
				name = literal(kv.Value)
			}
		}
	}
	if name == "" {
		return nil
	}
	if len(rest) == 1 {
		if list, ok := rest[0].(*ast.CompositeLit); ok {
			for _, e := range list.Elts {
				labels = append(labels, literal(e))
			}
		}
	}
	if !histogram {
		return []metric{{prefix + name, labels}}
	}
	var all []metric
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		all = append(all, metric{prefix + name + suffix, labels})
	}
	return all
}

// literal is the value of a string literal; "" for anything else.
func literal(n ast.Node) string {
	if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		s, err := strconv.Unquote(lit.Value)
		if err == nil {
			return s
		}
	}
	return ""
}
