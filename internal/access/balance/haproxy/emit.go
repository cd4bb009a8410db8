package haproxy

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// mapping builds a YAML mapping in the order of set; zero values are left out.
type mapping struct{ node *yaml.Node }

func newMapping(style yaml.Style) mapping {
	return mapping{&yaml.Node{Kind: yaml.MappingNode, Style: style}}
}

func scalar(tag, value string, style yaml.Style) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value, Style: style}
}

func (m mapping) set(key string, value *yaml.Node) {
	m.node.Content = append(m.node.Content, scalar("!!str", key, 0), value)
}

func (m mapping) text(key, value string) {
	if value != "" {
		m.set(key, scalar("!!str", value, 0))
	}
}

func (m mapping) number(key string, value int) {
	if value != 0 {
		m.set(key, scalar("!!int", strconv.Itoa(value), 0))
	}
}

func (m mapping) truth(key string, value bool) {
	if value {
		m.set(key, scalar("!!bool", "true", 0))
	}
}

func (m mapping) time(key string, value time.Duration) {
	if value != 0 {
		m.text(key, short(value))
	}
}

func quoted(value string) *yaml.Node { return scalar("!!str", value, yaml.DoubleQuotedStyle) }

func list(style yaml.Style, items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Style: style, Content: items}
}

// emit writes the settings.
func emit(frontends []frontend) ([]byte, error) {
	var items []*yaml.Node
	for _, f := range frontends {
		items = append(items, f.node())
	}
	root := newMapping(0)
	root.set("frontends", list(0, items...))
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root.node); err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	return out.Bytes(), enc.Close()
}

func (f frontend) node() *yaml.Node {
	m := newMapping(0)
	m.text("name", f.name)
	var listen []*yaml.Node
	for _, a := range f.listen {
		listen = append(listen, quoted(a))
	}
	m.set("listen", list(yaml.FlowStyle, listen...))
	m.truth("freebind", f.freebind)
	m.truth("acceptProxy", f.acceptProxy)
	m.text("policy", f.policy)
	m.number("maxConns", f.maxConns)
	if f.queue > 0 {
		q := newMapping(yaml.FlowStyle)
		q.time("timeout", f.queue)
		m.set("queue", q.node)
	}
	if f.budget > 0 {
		c := newMapping(yaml.FlowStyle)
		c.time("budget", f.budget)
		m.set("connect", c.node)
	}
	m.time("idleTimeout", f.idle)
	if f.source.IsValid() {
		m.set("sourceAddress", quoted(f.source.String()))
	}
	m.set("backends", f.backends())
	m.set("check", f.check.node())
	m.time("slowStart", f.slowStart)
	m.text("onFail", f.onFail)
	return m.node
}

func (f frontend) backends() *yaml.Node {
	var items []*yaml.Node
	for _, s := range f.statics {
		m := newMapping(yaml.FlowStyle)
		m.set("address", quoted(s.address))
		if s.weight != 1 {
			m.number("weight", s.weight)
		}
		m.truth("backup", s.backup)
		m.number("maxConns", s.maxConns)
		items = append(items, m.node)
	}
	b := newMapping(0)
	b.set("static", list(0, items...))
	b.number("sendProxy", f.sendProxy)
	return b.node
}

func (c check) node() *yaml.Node {
	m := newMapping(yaml.FlowStyle)
	m.text("kind", c.kind)
	m.text("path", c.path)
	m.text("serverName", c.serverName)
	m.text("ca", c.ca)
	m.text("cert", c.crt)
	m.text("key", c.crt)
	m.time("period", c.period)
	m.time("timeout", c.timeout)
	m.number("rise", c.rise)
	m.number("fall", c.fall)
	return m.node
}
