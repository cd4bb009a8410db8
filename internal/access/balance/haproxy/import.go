package haproxy

import (
	"fmt"
	"io"
)

// Import reads a haproxy.cfg and returns balance settings in YAML that do the
// same, and notes about what was left out or changed, each "name:line: what:
// why". name stands for the file. An error is one line, about a text that
// HAProxy would not parse or about one without anything to carry over; then
// notes may tell why.
func Import(r io.Reader, name string) (yaml []byte, notes []string, err error) {
	lines, err := scan(r, name)
	if err != nil {
		return nil, nil, err
	}
	all, err := sections(lines, name)
	if err != nil {
		return nil, nil, err
	}
	in := newReader(name)
	for _, s := range all {
		in.read(s)
	}
	frontends := in.carry()
	notes = in.notes.sorted()
	if len(frontends) == 0 {
		return nil, notes, fmt.Errorf("%s: no frontend in mode tcp with a listener and a server that can be carried over; the notes say why", name)
	}
	yaml, err = emit(frontends)
	return yaml, notes, err
}
