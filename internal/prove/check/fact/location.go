package fact

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Reference names an object of the API. All fields are "" for what is none.
type Reference struct {
	APIVersion, Kind, Namespace, Name string
}

// String is "Kind namespace/name", or without the namespace.
func (r Reference) String() string {
	switch {
	case r.Kind == "":
		return ""
	case r.Namespace == "":
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Location is where something was read.
type Location struct {
	// File is the path below what was given, with slashes. For a file of a node it
	// is that below the source, such as nodes/a1/files/etc/hosts.
	File string
	// Line counts from 1; 0 where the whole file is meant.
	Line int
	// Object is what stands there.
	Object Reference
	// Node is whose file it is; "" for an object of the API.
	Node string

	yaml *yaml.Node
}

// WithYAML returns l with the document that it leads to, so that Field finds lines.
func (l Location) WithYAML(doc *yaml.Node) Location {
	l.yaml = doc
	return l
}

// Field returns the place of a field below the object, by keys and indices ("spec",
// "ports", "0"). As far as the path exists it is followed; where the source keeps
// no lines of fields the object's own is kept.
func (l Location) Field(path ...string) Location {
	n := l.yaml
	if n == nil {
		return l
	}
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	for _, key := range path {
		at, value := child(n, key)
		if value == nil {
			break
		}
		l.Line, n = at, value
	}
	return l
}

// LineIn returns the place of line number line.
func (l Location) LineIn(line int) Location {
	l.Line = line
	return l
}

func child(n *yaml.Node, key string) (line int, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i].Line, n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i].Line, n.Content[i]
		}
	}
	return 0, nil
}

// String is "file:line", and the object where there is one.
func (l Location) String() string {
	text := l.File
	if l.Line > 0 {
		text += ":" + strconv.Itoa(l.Line)
	}
	if l.Object.Kind == "" {
		return text
	}
	if text == "" {
		return l.Object.String()
	}
	return l.Object.String() + " (" + text + ")"
}
