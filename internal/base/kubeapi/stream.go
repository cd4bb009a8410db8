package kubeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds one event. etcd takes objects up to 1.5 MiB, which JSON may
// double.
const maxEvent = 4 << 20

// decoder reads the events of a watch: JSON objects one after another.
type decoder[T any] struct {
	op    string
	meter *meter
	json  *json.Decoder
}

func newDecoder[T any](op string, r io.Reader) *decoder[T] {
	m := &meter{reader: r}
	return &decoder[T]{op: op, meter: m, json: json.NewDecoder(m)}
}

// meter fails when more than its allowance is read.
type meter struct {
	reader io.Reader
	left   int
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := m.reader.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}

// next returns the version that an event carries and the event; nil for a
// bookmark. io.EOF means that the stream ended between two events.
func (d *decoder[T]) next() (version string, event *Event[T], err error) {
	d.meter.left = maxEvent
	var raw struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	switch err := d.json.Decode(&raw); {
	case errors.Is(err, io.EOF):
		return "", nil, err
	case err != nil:
		return "", nil, fmt.Errorf("%s: %w", d.op, plain(err))
	}
	if raw.Type == "ERROR" {
		return "", nil, d.refusal(raw.Object)
	}
	var object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := decodeJSON(raw.Object, &object); err != nil {
		return "", nil, fmt.Errorf("%s: %w", d.op, err)
	}
	version = object.Metadata.ResourceVersion
	switch raw.Type {
	case "BOOKMARK":
		return version, nil, nil
	case "ADDED", "MODIFIED", "DELETED":
		event = &Event[T]{Deleted: raw.Type == "DELETED"}
		if err := decodeJSON(raw.Object, &event.Object); err != nil {
			return "", nil, fmt.Errorf("%s: %w", d.op, err)
		}
		return version, event, nil
	}
	return "", nil, fmt.Errorf("%s: event of unknown type %.20q", d.op, raw.Type)
}

// refusal is an error that came as an event, typically 410.
func (d *decoder[T]) refusal(object json.RawMessage) error {
	var s status
	if err := decodeJSON(object, &s); err != nil {
		return fmt.Errorf("%s: %w", d.op, err)
	}
	if s.Code == 0 {
		s.Code = 500
	}
	return s.err(d.op)
}

// plain drops what encoding/json quotes from the stream.
func plain(err error) error {
	switch {
	case errors.Is(err, ErrTooLarge):
		return fmt.Errorf("%w: an event over %d bytes", ErrTooLarge, maxEvent)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return errors.New("stream is not JSON; is this a Kubernetes API?")
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New("event is not the expected JSON; is this a Kubernetes API?")
	}
	return err
}

// ended turns the end of a stream in order into no error.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
