package source

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Writer writes a bundle: a compressed tar with the files that the package comment
// lists. The manifest comes last, since it says what could not be had.
type Writer struct {
	z  *gzip.Writer
	t  *tar.Writer
	at time.Time
}

// NewWriter begins a bundle that was collected at a time.
func NewWriter(w io.Writer, at time.Time) *Writer {
	z := gzip.NewWriter(w)
	return &Writer{z, tar.NewWriter(z), at.UTC().Truncate(time.Second)}
}

// File adds a file.
func (w *Writer) File(name string, data []byte) error {
	h := &tar.Header{Name: name, Size: int64(len(data)), Mode: 0o600, ModTime: w.at, Typeflag: tar.TypeReg}
	if err := w.t.WriteHeader(h); err != nil {
		return fmt.Errorf("write bundle: %s: %w", name, err)
	}
	if _, err := w.t.Write(data); err != nil {
		return fmt.Errorf("write bundle: %s: %w", name, err)
	}
	return nil
}

// JSON adds a file with one JSON document.
func (w *Writer) JSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write bundle: %s: %w", name, err)
	}
	return w.File(name, append(data, '\n'))
}

// Close ends the bundle with its manifest.
func (w *Writer) Close(m Manifest) error {
	m.Version, m.Collected = Version, w.at
	if err := w.JSON("bundle.json", m); err != nil {
		return err
	}
	if err := w.t.Close(); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	if err := w.z.Close(); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}
