package record

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// maxLine bounds one event; they are below 1 kB.
const maxLine = 1 << 20

// Load reads a run directory. Samples come out ordered by path and sequence.
func Load(dir string) (*Record, error) {
	var rec Record
	if err := rec.loadRun(filepath.Join(dir, RunFile)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, CaseFile))
	if err != nil {
		return nil, fmt.Errorf("read scenario of run: %w", err)
	}
	if rec.Case, err = scenario.ParseCase(filepath.Join(dir, CaseFile), text); err != nil {
		return nil, err
	}
	if err := rec.loadSamples(filepath.Join(dir, SamplesFile)); err != nil {
		return nil, err
	}
	if err := rec.loadEvents(filepath.Join(dir, EventsFile)); err != nil {
		return nil, err
	}
	if err := rec.loadKeys(filepath.Join(dir, KeysFile)); err != nil {
		return nil, err
	}
	rec.Sort()
	return &rec, nil
}

func (rec *Record) loadRun(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read run: %s is missing; the directory holds no finished drill run", path)
	}
	if err != nil {
		return fmt.Errorf("read run: %w", err)
	}
	if err := json.Unmarshal(data, &rec.Run); err != nil {
		return fmt.Errorf("read run %s: %w", path, err)
	}
	if rec.Run.Version != Version {
		return fmt.Errorf("read run %s: version %d is not known; judge it with the holdfast that wrote it", path, rec.Run.Version)
	}
	return nil
}

func (rec *Record) loadSamples(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	defer func() { _ = f.Close() }()
	gz, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("read samples %s: %w", path, err)
	}
	for s, err := range probe.ReadSamples(gz) {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		rec.Samples = append(rec.Samples, s)
	}
	return nil
}

func (rec *Record) loadEvents(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	defer func() { _ = f.Close() }()
	if rec.Events, err = readEvents(f); err != nil {
		return fmt.Errorf("read events %s: %w", path, err)
	}
	return nil
}

// Sort brings samples and events into the order the judge wants: samples by
// path and sequence, events by time.
func (rec *Record) Sort() {
	slices.SortStableFunc(rec.Samples, func(a, b probe.Sample) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return a.Sent.Compare(b.Sent)
	})
	slices.SortStableFunc(rec.Events, func(a, b Event) int { return a.At.Compare(b.At) })
}

// readEvents decodes one event per line. A last line that does not decode is
// what a crash leaves: what came before it counts.
func readEvents(r io.Reader) ([]Event, error) {
	var out []Event
	var bad error
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	for n := 1; sc.Scan(); n++ {
		if bad != nil {
			return nil, bad
		}
		if len(sc.Bytes()) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			bad = fmt.Errorf("line %d: %w", n, err)
			continue
		}
		out = append(out, e)
	}
	return out, sc.Err()
}
