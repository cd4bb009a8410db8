package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// maxLine bounds a line of samples; the writer's own stay under 2 KiB.
const maxLine = 1 << 20

// Writer writes samples as NDJSON, each with one Write, so that a process that
// follows a pipe or file sees every sample at once.
type Writer struct{ enc *json.Encoder }

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &Writer{enc}
}

// Write writes one line.
func (w *Writer) Write(s Sample) error {
	if err := w.enc.Encode(s); err != nil {
		return fmt.Errorf("write sample: %w", err)
	}
	return nil
}

// ReadSamples yields the samples of an NDJSON stream. A last line without its
// newline that does not parse is what a killed writer leaves, and is skipped;
// any other bad line ends the sequence with an error naming its number. Empty
// lines and unknown fields are ignored.
func ReadSamples(r io.Reader) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for number := 1; ; number++ {
			line, whole, err := readLine(in)
			if err != nil {
				yield(Sample{}, fmt.Errorf("read samples: line %d: %w", number, err))
				return
			}
			if line = bytes.TrimSpace(line); len(line) > 0 {
				s, err := parseSample(line)
				if err != nil && !whole {
					return
				}
				if err != nil {
					err = fmt.Errorf("read samples: line %d: %w", number, err)
				}
				if !yield(s, err) || err != nil {
					return
				}
			}
			if !whole {
				return
			}
		}
	}
}

// readLine returns the next line and whether it was ended by a newline.
func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, false, fmt.Errorf("longer than %d bytes; is this a file of samples?", maxLine)
		case err == nil:
			return line, true, nil
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return line, false, nil
		case err != bufio.ErrBufferFull:
			return nil, false, err
		}
	}
}

func parseSample(line []byte) (Sample, error) {
	var s Sample
	if err := json.Unmarshal(line, &s); err != nil {
		return Sample{}, err
	}
	if s.Path == "" {
		return Sample{}, fmt.Errorf("no path; is this a file of samples?")
	}
	return s, nil
}
