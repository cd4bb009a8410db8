package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// yamlObjects reads documents of YAML, each an object or a list.
func (r *reader) yamlObjects(e entry) error {
	data, err := r.whole(e, r.limits.Document, errDocument)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return yamlError(err)
		}
		if err := r.yamlDocument(&doc, fact.Location{File: e.name}); err != nil {
			return err
		}
	}
}

// yamlDocument adds what one document has. Templates of Helm and other text that
// is no object are skipped.
func (r *reader) yamlDocument(doc *yaml.Node, at fact.Location) error {
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	root := doc.Content[0]
	kind := scalar(root, "kind")
	if kind == "" || scalar(root, "apiVersion") == "" {
		return nil
	}
	if items := field(root, "items"); strings.HasSuffix(kind, "List") && items != nil && items.Kind == yaml.SequenceNode {
		list := fact.Reference{APIVersion: scalar(root, "apiVersion"), Kind: strings.TrimSuffix(kind, "List")}
		if list.Kind == "" {
			list = fact.Reference{}
		}
		for _, item := range items.Content {
			if err := r.yamlObject(item, at, list); err != nil {
				return err
			}
		}
		return nil
	}
	return r.yamlObject(root, at, fact.Reference{})
}

func (r *reader) yamlObject(n *yaml.Node, at fact.Location, list fact.Reference) error {
	data, err := r.toJSON(n)
	if err != nil {
		return &lineError{n.Line, err}
	}
	at.Line = n.Line
	if len(n.Content) > 0 {
		at.Line = n.Content[0].Line
	}
	return r.object(data, at.WithYAML(n), list)
}

// toJSON converts a node, with a bound on what its aliases expand to.
func (r *reader) toJSON(n *yaml.Node) ([]byte, error) {
	c := converter{left: r.limits.Nodes, depth: r.limits.Depth}
	v, err := c.value(n, 0)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// converter makes plain values of YAML nodes.
type converter struct{ left, depth int }

func (c *converter) value(n *yaml.Node, depth int) (any, error) {
	if c.left--; c.left < 0 {
		return nil, errNodes
	}
	if depth > c.depth {
		return nil, errDepth // a cycle of aliases, too
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	case yaml.MappingNode:
		return c.mapping(n, depth)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := c.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return plainScalar(n)
}

func (c *converter) mapping(n *yaml.Node, depth int) (any, error) {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		v, err := c.value(value, depth+1)
		if err != nil {
			return nil, err
		}
		if key.Tag == "!!merge" {
			if merged, ok := v.(map[string]any); ok {
				for k, v := range merged {
					if _, given := m[k]; !given {
						m[k] = v
					}
				}
			}
			continue
		}
		m[key.Value] = v
	}
	return m, nil
}

// plainScalar reads a scalar as Kubernetes does: what YAML calls a date is text.
func plainScalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, err
		}
		if _, err := json.Marshal(v); err != nil {
			return nil, fmt.Errorf("%q: no such number in JSON", n.Value)
		}
		return v, nil
	}
	return n.Value, nil
}

func field(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func scalar(n *yaml.Node, key string) string {
	if v := field(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// yamlError gives an error of the library its line, and says less of its insides.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
		_, text, _ = strings.Cut(text, ": ")
		return &lineError{line, errors.New("not YAML: " + text)}
	}
	return errors.New("not YAML: " + text)
}
