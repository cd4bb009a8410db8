package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bounds of the walk, for documents that refer to themselves or multiply
// through aliases. No settings file nests deeper than a handful of levels, and
// a document of maxSize bytes has fewer nodes than maxSteps.
const (
	maxDepth = 64
	maxSteps = 1 << 20
)

// problem is the first thing wrong with a document.
type problem struct {
	line int
	text string
}

var (
	durationType    = reflect.TypeFor[time.Duration]()
	unmarshalerType = reflect.TypeFor[yaml.Unmarshaler]()
	textType        = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// findProblem walks doc beside the type of into and returns the first
// disagreement in document order, or nil.
func findProblem(doc *yaml.Node, into any) *problem {
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return nil
	}
	var w walker
	return w.walk(doc.Content[0], reflect.TypeOf(into), "")
}

// walker compares a document with a type.
type walker struct{ steps, depth int }

func (w *walker) walk(n *yaml.Node, t reflect.Type, path string) *problem {
	for t.Kind() == reflect.Pointer && !isLeaf(t) {
		t = t.Elem()
	}
	if n.Kind == yaml.AliasNode { // an anchor is never on an alias itself
		n = n.Alias
	}
	w.steps++
	w.depth++
	defer func() { w.depth-- }()
	if w.steps > maxSteps || w.depth > maxDepth || n.Tag == "!!null" {
		return nil
	}
	if !isLeaf(t) {
		switch t.Kind() {
		case reflect.Struct:
			return w.mapping(n, t, path, fieldsOf(t))
		case reflect.Map:
			return w.mapping(n, t, path, nil)
		case reflect.Slice, reflect.Array:
			return w.sequence(n, t, path)
		}
	}
	if err := n.Decode(reflect.New(t).Interface()); err != nil {
		p := wrongValue(n, t, path)
		if isLeaf(t) {
			p.text += ": " + firstLine(err)
		}
		return p
	}
	return nil
}

// isLeaf reports whether t decodes itself, so that its inside is its own affair.
func isLeaf(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(unmarshalerType) || p.Implements(textType)
}

// mapping checks keys and values of a mapping; fields is nil for a Go map,
// which knows every key.
func (w *walker) mapping(n *yaml.Node, t reflect.Type, path string, fields map[string]reflect.Type) *problem {
	if n.Kind != yaml.MappingNode {
		return wrongValue(n, t, path)
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			if p := w.walk(value, t, path); p != nil {
				return p
			}
			continue
		}
		field := join(path, key.Value)
		if first, ok := seen[key.Value]; ok {
			return &problem{key.Line, fmt.Sprintf("field %q: given twice, first on line %d; keep one", field, first)}
		}
		seen[key.Value] = key.Line
		vt, ok := fields[key.Value]
		if fields == nil {
			vt, ok = t.Elem(), true
		}
		if !ok {
			return &problem{key.Line, fmt.Sprintf("field %q: unknown; %s", field, suggest(key.Value, fields))}
		}
		if p := w.walk(value, vt, field); p != nil {
			return p
		}
	}
	return nil
}

func (w *walker) sequence(n *yaml.Node, t reflect.Type, path string) *problem {
	if n.Kind != yaml.SequenceNode {
		return wrongValue(n, t, path)
	}
	for i, item := range n.Content {
		if p := w.walk(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); p != nil {
			return p
		}
	}
	return nil
}

// fieldsOf maps the keys that struct t accepts to the types of their values,
// by the rules of the YAML library.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous || name == "-":
		case strings.Contains(options, "inline"):
			ft := f.Type
			for ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct {
				for k, v := range fieldsOf(ft) {
					fields[k] = v
				}
			}
		case name != "":
			fields[name] = f.Type
		default:
			fields[strings.ToLower(f.Name)] = f.Type
		}
	}
	return fields
}

func wrongValue(n *yaml.Node, t reflect.Type, path string) *problem {
	what := fmt.Sprintf("value %q", clip(n.Value))
	switch n.Kind {
	case yaml.MappingNode:
		what = "a mapping"
	case yaml.SequenceNode:
		what = "a list"
	}
	where := "document"
	if path != "" {
		where = fmt.Sprintf("field %q", path)
	}
	return &problem{n.Line, fmt.Sprintf("%s: %s is not %s", where, what, wanted(n, t))}
}

// wanted names the kind of value that t takes, with the remedy.
func wanted(n *yaml.Node, t reflect.Type) string {
	if t == durationType {
		if n.Tag == "!!int" || n.Tag == "!!float" {
			return fmt.Sprintf("a duration; write %ss", n.Value)
		}
		return "a duration; write a number with its unit, such as 3s or 500ms"
	}
	if isLeaf(t) {
		return "a valid " + strings.ToLower(t.Name())
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "a mapping; write \"key: value\" lines below it"
	case reflect.Slice, reflect.Array:
		return "a list; write \"- item\" lines below it"
	case reflect.Bool:
		return "a truth value; write true or false"
	case reflect.Float32, reflect.Float64:
		return "a number; write digits such as 0.5"
	case reflect.String:
		return "a text; write it in quotes"
	}
	if strings.HasPrefix(t.Kind().String(), "uint") {
		return "a whole number from 0 up that fits the field; write digits only"
	}
	return "a whole number that fits the field; write digits only"
}

// suggest names the accepted key closest to key, or all of them when none is close.
func suggest(key string, fields map[string]reflect.Type) string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	best, bestAt := "", 3 // more than two typing errors is another word
	for _, name := range names {
		if d := distance(strings.ToLower(key), strings.ToLower(name)); d < bestAt && d < len(name) {
			best, bestAt = name, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(names) == 0:
		return "no field is allowed here"
	}
	return "known here: " + strings.Join(names, ", ")
}

// distance is the edit distance of Levenshtein (1965) over bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func firstLine(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text, _, _ = strings.Cut(text, "\n")
	return text
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// clip keeps an error line readable when a whole certificate stands where a
// number was expected.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
