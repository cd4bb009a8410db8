package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// objects reads a file of objects: YAML documents, JSON values one after the
// other, or lists of either.
func (r *reader) objects(e entry) error {
	switch path.Ext(e.name) {
	case ".yaml", ".yml":
		return r.yamlObjects(e)
	case ".ndjson":
		return r.lines(e)
	}
	return r.jsonObjects(e)
}

// object adds one object that stands at a line. What is wrong with it spoils its
// kind only.
func (r *reader) object(data []byte, at fact.Location, list fact.Reference) error {
	id, err := sniff(data)
	if err != nil {
		return err
	}
	if id.Kind == "" {
		id = list
	}
	if id.Kind == "" {
		return nil // not an object of the API: settings of another program
	}
	at.Object = id
	if r.again(data) {
		return nil
	}
	kept, err := r.add(data, at)
	if err != nil {
		r.problem(at.String(), err)
	}
	if !kept {
		return nil
	}
	return r.suppressing(data, at)
}

// again says whether the very same object was read before: must-gathers have pods
// twice.
func (r *reader) again(data []byte) bool {
	sum := maphash.Bytes(r.seed, data)
	if _, ok := r.objectsRead[sum]; ok {
		return true
	}
	r.objectsRead[sum] = struct{}{}
	return false
}

// sniff reads apiVersion and kind of an object, and no more than it has to.
func sniff(data []byte) (id fact.Reference, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return id, errors.New("not a JSON object")
	}
	for d.More() && (id.Kind == "" || id.APIVersion == "") {
		key, err := d.Token()
		if err != nil {
			return id, err
		}
		switch key {
		case "apiVersion":
			err = d.Decode(&id.APIVersion)
		case "kind":
			err = d.Decode(&id.Kind)
		default:
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
		if err != nil {
			return id, err
		}
	}
	return id, nil
}

// lines reads one object a line.
func (r *reader) lines(e entry) error {
	s := bufio.NewScanner(e.r)
	s.Buffer(make([]byte, 0, min(1<<16, r.limits.Object)), int(r.limits.Object))
	line := 0
	for s.Scan() && s.Err() == nil { // after an error comes what was read of a line
		line++
		data := bytes.TrimSpace(s.Bytes())
		if len(data) == 0 {
			continue
		}
		if err := r.object(data, fact.Location{File: e.name, Line: line}, fact.Reference{}); err != nil {
			return &lineError{line, fmt.Errorf("read object: %w", err)}
		}
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return &lineError{line + 1, errObject}
	} else if err != nil {
		return &lineError{line + 1, plain(err)}
	}
	return nil
}

// jsonObjects reads JSON values one after the other, each an object or a list.
func (r *reader) jsonObjects(e entry) error {
	j := newJSONReader(e.r, r.limits)
	for {
		token, err := j.token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return j.fail(err)
		}
		if token == json.Delim('[') {
			return nil // of another program: no list of the API begins so
		}
		if token != json.Delim('{') {
			return j.fail(errors.New("not an object of Kubernetes, nor a list of them"))
		}
		if err := r.jsonObject(j, e.name); err != nil {
			return j.fail(err)
		}
	}
}

// jsonObject reads an object whose first brace is taken. The items of a list are
// added one by one; nothing holds them all.
func (r *reader) jsonObject(j *jsonReader, name string) error {
	at := fact.Location{File: name, Line: j.line()}
	fields := map[string]json.RawMessage{}
	listed, kept := false, int64(0)
	for j.d.More() {
		key, err := j.token()
		if err != nil {
			return err
		}
		if key == "items" {
			listed = true
			if err := r.jsonItems(j, name, listOf(fields)); err != nil {
				return err
			}
			continue
		}
		var value json.RawMessage
		if err := j.decode(&value); err != nil {
			return err
		}
		if kept += int64(len(value)); kept > r.limits.Object {
			return errObject
		}
		fields[fmt.Sprint(key)] = value
	}
	if _, err := j.token(); err != nil { // the closing brace
		return err
	}
	if listed {
		return nil
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return r.object(data, at, fact.Reference{})
}

// listOf tells from a list's own fields what its items are, where it says so
// before them: dumps leave kind and apiVersion out of the items.
func listOf(fields map[string]json.RawMessage) (id fact.Reference) {
	// What is no string stays "", and the item is skipped or named.
	_ = json.Unmarshal(fields["kind"], &id.Kind)
	_ = json.Unmarshal(fields["apiVersion"], &id.APIVersion)
	kind, isList := strings.CutSuffix(id.Kind, "List")
	if !isList || kind == "" {
		return fact.Reference{}
	}
	id.Kind = kind
	return id
}

func (r *reader) jsonItems(j *jsonReader, name string, list fact.Reference) error {
	token, err := j.token()
	if err != nil || token == nil { // "items": null
		return err
	}
	if token != json.Delim('[') {
		return errors.New("items: not a list")
	}
	for j.d.More() {
		var item json.RawMessage
		if err := j.decode(&item); err != nil {
			return err
		}
		at := fact.Location{File: name, Line: j.lineOf(len(item))}
		if err := r.object(item, at, list); err != nil {
			return err
		}
	}
	_, err = j.token()
	return err
}

// jsonReader is a decoder that knows its line and bounds each value.
type jsonReader struct {
	d      *json.Decoder
	in     *lineCounter
	object int64
}

func newJSONReader(src io.Reader, limits Limits) *jsonReader {
	in := &lineCounter{r: src, most: limits.Object, line: 1}
	return &jsonReader{d: json.NewDecoder(in), in: in, object: limits.Object}
}

// decode reads one value. The decoder has read ahead, so that the bound is that of
// what it may read on.
func (j *jsonReader) decode(into *json.RawMessage) error {
	j.in.allow = j.d.InputOffset() + j.object
	err := j.d.Decode(into)
	j.in.allow = 0
	return err
}

// token reads one token under the same bound: it may be a text of any length.
func (j *jsonReader) token() (json.Token, error) {
	j.in.allow = j.d.InputOffset() + j.object
	t, err := j.d.Token()
	j.in.allow = 0
	return t, err
}

func (j *jsonReader) line() int { return j.in.lineAt(j.d.InputOffset() - 1) }

// lineOf is the line where the value of n bytes that was just read begins.
func (j *jsonReader) lineOf(n int) int { return j.in.lineAt(j.d.InputOffset() - int64(n)) }

func (j *jsonReader) fail(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = errors.New("ends in the middle of an object; copy it again")
	}
	return &lineError{j.line(), err}
}

// lineCounter remembers where the lines began that were read and not asked for
// yet. Questions go forward only.
type lineCounter struct {
	r      io.Reader
	offset int64
	breaks []int64 // offsets of line ends after the last question
	line   int
	// allow is how far may be read while a value is decoded; 0 is anywhere.
	allow, most int64
}

func (c *lineCounter) Read(p []byte) (int, error) {
	if c.allow > 0 && c.offset > c.allow {
		return 0, errObject
	}
	n, err := c.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			c.breaks = append(c.breaks, c.offset+int64(i))
		}
	}
	c.offset += int64(n)
	return n, err
}

func (c *lineCounter) lineAt(offset int64) int {
	i := 0
	for i < len(c.breaks) && c.breaks[i] < offset {
		i++
	}
	c.line += i
	c.breaks = append(c.breaks[:0], c.breaks[i:]...)
	return c.line
}
