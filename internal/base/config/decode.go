package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSize bounds a settings file. The largest sample config of the project is
// about 10 KiB; anything near the bound is the wrong file.
const maxSize = 1 << 20

// Load reads the YAML file at path into the struct that into points to.
// Fields that the file does not name keep the value they had. After an error
// the contents of into are unspecified.
func Load(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	defer f.Close()
	return Decode(f, path, into)
}

// Decode reads one YAML document from r into the struct that into points to;
// name stands for the document in errors. An empty document changes nothing.
func Decode(r io.Reader, name string, into any) error {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxSize {
		return fmt.Errorf("%s: larger than %d bytes; is this the right file?", name, maxSize)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return explain(data, name, into, err)
	}
	return refuseSecond(dec, name)
}

// refuseSecond reports a document after the first: it would have no effect,
// and whoever wrote it thinks it has.
func refuseSecond(dec *yaml.Decoder, name string) error {
	var next yaml.Node
	switch err := dec.Decode(&next); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return syntax(name, err)
	}
	return fmt.Errorf("%s:%d: a second document starts here; keep one document per file", name, next.Line)
}

// explain turns an error of the YAML library into one line that names the
// field. The library reports only a line, so the document is walked again
// beside the type.
func explain(data []byte, name string, into any, err error) error {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) == nil {
		if p := findProblem(&doc, into); p != nil {
			return fmt.Errorf("%s:%d: %s", name, p.line, p.text)
		}
	}
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		err = errors.New(te.Errors[0])
	}
	return syntax(name, err)
}

// syntax brings "yaml: line 3: did not find expected key" to the form
// "name:3: did not find expected key".
func syntax(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, msg, ok := strings.Cut(rest, ": "); ok {
			return fmt.Errorf("%s:%s: %s", name, line, msg)
		}
	}
	return fmt.Errorf("%s: %s", name, text)
}
