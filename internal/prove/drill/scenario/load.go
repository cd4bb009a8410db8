package scenario

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

//go:embed scenarios/*.yaml
var embedded embed.FS

// Sample is a commented scenario that uses every key; it parses.
//
//go:embed sample.yaml
var Sample []byte

// Names lists the embedded scenarios in order of name.
func Names() []string {
	entries, err := fs.ReadDir(embedded, "scenarios")
	if err != nil {
		panic("read embedded scenarios: " + err.Error()) // cannot happen: the directory is compiled in
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	slices.Sort(names) // "partial-split.yaml" comes after "partial-split-…"
	return names
}

// Load returns the embedded scenario called ref, or the one in the file ref
// when ref looks like a path (contains a slash or ends in .yaml or .yml).
func Load(ref string) (*Scenario, error) {
	if strings.ContainsRune(ref, '/') || strings.HasSuffix(ref, ".yaml") || strings.HasSuffix(ref, ".yml") {
		data, err := os.ReadFile(ref)
		if err != nil {
			return nil, fmt.Errorf("read scenario: %w", err)
		}
		return Parse(ref, data)
	}
	data, err := embedded.ReadFile(path.Join("scenarios", ref+".yaml"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, fmt.Errorf("scenario %q: no such scenario; choose one of %s, or give the path of a .yaml file", ref, strings.Join(Names(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("read scenario %q: %w", ref, err)
	}
	return Parse(ref, data)
}

// Parse reads and validates one scenario. file names it in errors.
func Parse(file string, data []byte) (*Scenario, error) {
	var s Scenario
	if err := config.Decode(bytes.NewReader(data), file, &s); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &s, nil
}

// ParseCase reads a resolved case as [Case.YAML] wrote it.
func ParseCase(file string, data []byte) (*Case, error) {
	var c Case
	if err := config.Decode(bytes.NewReader(data), file, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

// YAML renders the case so that [ParseCase] reads it back unchanged.
func (c *Case) YAML() ([]byte, error) {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("encode case: %w", err)
	}
	return buf.Bytes(), nil
}
