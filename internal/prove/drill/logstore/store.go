package logstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Bounds of what one store takes.
const (
	maxBatch = 1 << 20 // bytes of one request
	maxLines = 1 << 18
)

// line is one line of a log. Origin and Seq, counted from 1, tell lines apart.
type line struct {
	Origin string `json:"origin"`
	Seq    uint64 `json:"seq"`
	Text   string `json:"text"`
}

// Tally is what a store has of one origin: how many lines, and the number of
// the last. They are equal when none is missing.
type Tally struct {
	Lines uint64 `json:"lines"`
	Last  uint64 `json:"last"`
}

// decodeLines reads a batch; every line has an origin and a number.
func decodeLines(data []byte) ([]line, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var lines []line
	if err := dec.Decode(&lines); err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read lines: something follows them")
	}
	for i, l := range lines {
		if l.Origin == "" || l.Seq == 0 {
			return nil, fmt.Errorf("read lines: line %d has no origin or no number", i)
		}
	}
	return lines, nil
}

// errFull is returned by a store that takes nothing more.
var errFull = fmt.Errorf("the store has %d lines and takes no more", maxLines)

// store keeps lines.
type store struct {
	mu    sync.Mutex
	lines map[key]string
	have  map[string]Tally
}

type key struct {
	origin string
	seq    uint64
}

func newStore() *store {
	return &store{lines: map[key]string{}, have: map[string]Tally{}}
}

// add stores those lines that are new.
func (s *store) add(lines []line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lines {
		k := key{l.Origin, l.Seq}
		if _, known := s.lines[k]; known {
			continue
		}
		if len(s.lines) >= maxLines {
			return errFull
		}
		s.lines[k] = l.Text
		t := s.have[l.Origin]
		s.have[l.Origin] = Tally{t.Lines + 1, max(t.Last, l.Seq)}
	}
	return nil
}

// tallies says what the store has, by origin.
func (s *store) tallies() map[string]Tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Tally, len(s.have))
	for origin, t := range s.have {
		out[origin] = t
	}
	return out
}

// merge adds the tallies of shards, which have no line in common.
func merge(all []map[string]Tally) map[string]Tally {
	out := map[string]Tally{}
	for _, shard := range all {
		for origin, t := range shard {
			o := out[origin]
			out[origin] = Tally{o.Lines + t.Lines, max(o.Last, t.Last)}
		}
	}
	return out
}
