package record

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// flushEvery bounds what a crash of the drill can lose.
const flushEvery = time.Second

// Writer writes a run directory. It is safe for concurrent use.
type Writer struct {
	dir string

	mu      sync.Mutex
	samples *stream
	events  *stream
	journal *os.File
	flushed time.Time
	err     error // first failed write, reported by Close
}

// Create makes the directory and writes the resolved scenario into it. A
// directory that holds a finished run is refused.
func Create(dir string, c *scenario.Case) (*Writer, error) {
	if _, err := os.Stat(filepath.Join(dir, RunFile)); err == nil {
		return nil, fmt.Errorf("create run in %s: it already holds one; choose another --out or remove it", dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, LogsDir), 0o755); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	text, err := c.YAML()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, CaseFile), text, 0o644); err != nil {
		return nil, fmt.Errorf("write scenario: %w", err)
	}
	w := &Writer{dir: dir}
	if err := w.open(); err != nil {
		_ = w.closeFiles()
		return nil, fmt.Errorf("create run: %w", err)
	}
	return w, nil
}

func (w *Writer) open() (err error) {
	if w.samples, err = newStream(filepath.Join(w.dir, SamplesFile), true); err != nil {
		return err
	}
	if w.events, err = newStream(filepath.Join(w.dir, EventsFile), false); err != nil {
		return err
	}
	w.journal, err = os.Create(filepath.Join(w.dir, JournalFile))
	return err
}

// Dir is the run directory.
func (w *Writer) Dir() string { return w.dir }

// LogPath is where the child process called name writes its log.
func (w *Writer) LogPath(name string) string { return filepath.Join(w.dir, LogsDir, name+".log") }

// Sample appends one sample.
func (w *Writer) Sample(s probe.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(w.samples.put(s))
	if now := time.Now(); now.Sub(w.flushed) > flushEvery {
		w.flushed = now
		w.keep(w.samples.flush())
	}
}

// Event appends one event.
func (w *Writer) Event(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(w.events.put(e))
	w.keep(w.events.flush())
}

// Journal appends one line to commands.log and returns once it is on disk:
// a change is journalled before it is made, so that whoever finds the
// directory after a crash knows what may be in force.
func (w *Writer) Journal(at time.Time, line string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := fmt.Fprintf(w.journal, "%s %s\n", at.UTC().Format("2006-01-02T15:04:05.000Z"), line)
	if err == nil {
		err = w.journal.Sync()
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// Command appends a line of the lab's own journal, which carries its own time.
func (w *Writer) Command(line string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintln(w.journal, line); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// Close finishes the streams and, last, writes run.json.
func (w *Writer) Close(r Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keep(w.closeFiles())
	r.Version = Version
	w.keep(writeJSON(filepath.Join(w.dir, EnvFile), r.Environment))
	w.keep(writeJSON(filepath.Join(w.dir, RunFile), r))
	if w.err != nil {
		return fmt.Errorf("write run to %s: %w", w.dir, w.err)
	}
	return nil
}

func (w *Writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *Writer) closeFiles() error {
	var errs []error
	for _, s := range []*stream{w.samples, w.events} {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	if w.journal != nil {
		errs = append(errs, w.journal.Close())
	}
	return errors.Join(errs...)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// stream writes one JSON document per line, optionally compressed.
type stream struct {
	file *os.File
	gz   *gzip.Writer // nil when plain
	buf  *bufio.Writer
	enc  *json.Encoder
}

func newStream(path string, compressed bool) (*stream, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	s := &stream{file: f}
	if compressed {
		s.gz = gzip.NewWriter(f)
		s.buf = bufio.NewWriter(s.gz)
	} else {
		s.buf = bufio.NewWriter(f)
	}
	s.enc = json.NewEncoder(s.buf)
	return s, nil
}

func (s *stream) put(v any) error { return s.enc.Encode(v) }

func (s *stream) flush() error {
	err := s.buf.Flush()
	if s.gz != nil {
		err = errors.Join(err, s.gz.Flush())
	}
	return err
}

func (s *stream) close() error {
	err := s.buf.Flush()
	if s.gz != nil {
		err = errors.Join(err, s.gz.Close())
	}
	return errors.Join(err, s.file.Close())
}
