package source

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

// fileEntry is one backend in a YAML or JSON file.
type fileEntry struct {
	Address string `yaml:"address"`
	Zone    string `yaml:"zone"`
	Node    string `yaml:"node"`
	Name    string `yaml:"name"`
	Weight  int    `yaml:"weight"`
	Backup  bool   `yaml:"backup"`
}

// parseFile reads a file of backends: a YAML or JSON list of mappings, or one
// "IP:PORT [zone=a] [node=n] [name=n] [weight=2] [backup]" per line with #
// comments. Anything wrong is an error with the line, for a file half
// understood is a list nobody wrote. name stands for the file in errors.
func parseFile(data []byte, name string) ([]Backend, error) {
	if structured(data) {
		return parseYAML(data, name)
	}
	var list []Backend
	for i, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		b, err := parseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		list = append(list, b)
	}
	return list, nil
}

// structured tells YAML and JSON from lines by how the first line that is no
// comment begins. "[" alone may be an IPv6 address.
func structured(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			rest := bytes.TrimSpace(line[1:])
			return len(rest) == 0 || rest[0] == '{' || rest[0] == ']'
		}
		return line[0] == '-' || line[0] == '{' || bytes.HasSuffix(line, []byte(":"))
	}
	return false
}

func parseYAML(data []byte, name string) ([]Backend, error) {
	var entries []fileEntry
	if err := config.Decode(bytes.NewReader(data), name, &entries); err != nil {
		return nil, err
	}
	var list []Backend
	for i, e := range entries {
		b, err := e.backend()
		if err != nil {
			return nil, fmt.Errorf("%s: [%d]: %w", name, i, err)
		}
		list = append(list, b)
	}
	return list, nil
}

func (e fileEntry) backend() (Backend, error) {
	network, address, err := ParseAddress(e.Address)
	if err != nil {
		return Backend{}, err
	}
	if e.Weight < 0 || e.Weight > maxWeight {
		return Backend{}, fmt.Errorf("weight %d: not from 0 (counts as 1) to %d", e.Weight, maxWeight)
	}
	return Backend{
		Network: network, Address: address, Zone: e.Zone, Node: e.Node, Name: e.Name,
		Weight: e.Weight, Backup: e.Backup, Serving: true,
	}, nil
}

// maxWeight is the largest weight of a DNS SRV record (RFC 2782).
const maxWeight = 65535

func parseLine(fields []string) (Backend, error) {
	e := fileEntry{Address: fields[0]}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "zone":
			e.Zone = value
		case "node":
			e.Node = value
		case "name":
			e.Name = value
		case "weight":
			n, err := strconv.Atoi(value)
			if err != nil {
				return Backend{}, fmt.Errorf("weight %.20q: not a whole number; write weight=2", value)
			}
			e.Weight = n
		case "backup":
			if f != "backup" {
				return Backend{}, fmt.Errorf("%.40q: backup takes no value; write backup, or leave it out", f)
			}
			e.Backup = true
		default:
			return Backend{}, fmt.Errorf("%.40q: unknown; known are zone=, node=, name=, weight= and backup", f)
		}
	}
	return e.backend()
}
