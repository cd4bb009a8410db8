package source

import (
	"bytes"
	"io/fs"
	"slices"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// Feed takes the files of a bundle one by one, from memory: a live cluster goes
// the way of a bundle, through the same decoder.
type Feed struct{ r *reader }

// NewFeed begins facts of which origin says where they are from.
func NewFeed(origin string, limits Limits) *Feed { return &Feed{newReader(origin, limits)} }

// File takes one file.
func (f *Feed) File(name string, data []byte) error {
	return f.r.visit(entry{name: name, size: int64(len(data)), mode: fs.FileMode(0o600), r: bytes.NewReader(data)})
}

// Add takes all files of a bundle or directory: those of the cluster's machines beside
// the live cluster.
func (f *Feed) Add(path string) error { return f.r.target(path) }

// Close returns the facts.
func (f *Feed) Close(m Manifest) (*fact.Facts, error) {
	if err := f.r.manifest("bundle.json", m); err != nil {
		return nil, err
	}
	return f.r.finish(), nil
}

// NodeTo hands the files of one machine, whose file system begins at root, to put,
// by their names in a bundle and without credentials. It returns the name of the
// node and what could not be read.
func NodeTo(root string, limits Limits, put func(name string, data []byte) error) (node string, states map[string]Stated, err error) {
	m, err := openMachine(root)
	if err != nil {
		return "", nil, err
	}
	defer m.root.Close() //nolint:errcheck // only read
	states = map[string]Stated{"files/" + m.node: {State: fact.Present.String()}}
	r := newReader(root, limits)
	err = m.walk(func(e entry) error {
		data, err := r.whole(e, limits.NodeFile, errNodeFile)
		if err != nil {
			return err
		}
		return put(e.name, redact(data))
	}, func(name string, err error) {
		n, file := nodeFile(name)
		states["files/"+n+file] = Stated{State: fact.Unknown.String(), Why: err.Error()}
	})
	return m.node, states, err
}

// Redact takes the values of credentials out of text of settings.
func Redact(data []byte) []byte { return redact(slices.Clone(data)) }
