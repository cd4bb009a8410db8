package report

import (
	"bytes"
	"io"
	"os"
)

// Files of the directory of a matrix, beside one directory per scenario.
const (
	MatrixFile     = "matrix.json"
	MatrixHTMLFile = "matrix.html"
	MatrixTextFile = "matrix.md"
)

// WriteMatrix renders m into all files of the directory, each of which is replaced as a
// whole, matrix.json first.
func (d Directory) WriteMatrix(m *Matrix) error {
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return explain(err, d.Path)
	}
	for _, out := range []struct {
		file   string
		render func(io.Writer) error
	}{
		{MatrixFile, m.Encode}, {MatrixHTMLFile, m.HTML}, {JUnitFile, m.JUnit}, {MatrixTextFile, m.Markdown}, {MetricsFile, m.Metrics},
	} {
		var buf bytes.Buffer
		if err := out.render(&buf); err != nil {
			return err
		}
		if err := replace(d.File(out.file), buf.Bytes()); err != nil {
			return explain(err, d.Path)
		}
	}
	return nil
}
