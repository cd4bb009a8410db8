package seed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// Seeding is one cluster with a mistake, or in order, before it is made.
type Seeding struct {
	Rule, Twin string
	Objects    []Object
	// Machines are files by path, and outputs of commands by "!" and their names, of
	// each machine.
	Machines map[string]map[string][]byte
	// Probes are what addresses of apiservers are to answer.
	Probes []fact.Probe
	// Members are what etcd's members are to be like.
	Members []fact.EtcdMember
	// Clients are kubeconfigs and pipelines of clients by the path of their file.
	Clients map[string][]byte
	// Silent are addresses where nobody is to answer, though objects name them.
	Silent []string
	// Unmade is why a lab cannot make the facts; "" where it can.
	Unmade string
}

// Means is how facts were made.
type Means string

// The means.
const (
	LiveObject Means = "live object"
	LiveTLS    Means = "live TLS"
	LiveEtcd   Means = "live etcd"
	LiveFRR    Means = "live FRR"
	NodeFiles  Means = "node files"
	ClientFile Means = "client file"
)

// Means says how the facts of a seeding are made.
func (s Seeding) Means() []Means {
	var all []Means
	add := func(m Means, has bool) {
		if has && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	add(LiveObject, len(s.Objects) > 0)
	add(LiveTLS, len(s.Probes) > 0 || len(s.Silent) > 0)
	add(LiveEtcd, len(s.Members) > 0)
	for _, files := range s.Machines {
		add(LiveFRR, routes(files))
		add(NodeFiles, len(files) > 0)
	}
	add(ClientFile, len(s.Clients) > 0)
	return all
}

// live says that an apiserver, etcd or TLS server is asked.
func (s Seeding) live() bool {
	return len(s.Objects)+len(s.Probes)+len(s.Members)+len(s.Clients) > 0
}

// Read takes the example of a rule's twin, whose files are a bundle's. At is when it
// was recorded, where it does not say so itself; its times are moved to now.
func Read(files fs.FS, rule, twin string, at, now time.Time) (Seeding, error) {
	s := Seeding{Rule: rule, Twin: twin, Machines: map[string]map[string][]byte{}, Clients: map[string][]byte{}}
	if data, err := fs.ReadFile(files, "bundle.yaml"); err == nil {
		var m struct {
			Collected time.Time `yaml:"collected"`
		}
		if err := yaml.Unmarshal(data, &m); err != nil {
			return s, fmt.Errorf("read example of %s: bundle.yaml: %w", rule, err)
		}
		at = m.Collected
	}
	by := now.Sub(at).Truncate(time.Second)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return s.file(name, data, by)
	})
	if err != nil {
		return s, fmt.Errorf("read example of %s: %w", rule, err)
	}
	s.complete()
	return s, nil
}

// file takes one file of a bundle.
func (s *Seeding) file(name string, data []byte, by time.Duration) error {
	dir, _, _ := strings.Cut(name, "/")
	switch {
	case name == "bundle.yaml":
		return nil
	case name == "probes.yaml":
		return decode(name, data, by, &struct {
			Probes *[]fact.Probe `json:"probes"`
		}{&s.Probes})
	case name == "etcd.yaml":
		return decode(name, data, by, &struct {
			Members *[]fact.EtcdMember `json:"members"`
		}{&s.Members})
	case name == "lookups.yaml":
		s.Unmade = "look-ups are made at the name servers of a machine, and the lab has none"
		return nil
	case dir == "nodes" && strings.Count(name, "/") > 2:
		s.machine(name, data)
		return nil
	case dir == "kubeconfigs" || strings.HasPrefix(name, ".") || dir == "pipelines":
		s.Clients[name] = data
		return nil
	case path.Ext(name) == ".yaml":
		return s.objects(name, data, by)
	}
	return fmt.Errorf("%s: nobody knows how to seed such a file", name)
}

func (s *Seeding) machine(name string, data []byte) {
	parts := strings.SplitN(name, "/", 4)
	node, file := parts[1], "/"+parts[3]
	if parts[2] == "commands" {
		file = "!" + parts[3]
	}
	if s.Machines[node] == nil {
		s.Machines[node] = map[string][]byte{}
	}
	s.Machines[node][file] = data
}

// decode reads a document of YAML by the JSON names of a type, with its times moved.
func decode(name string, data []byte, by time.Duration, into any) error {
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	plain, err := json.Marshal(moved(v, by))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := json.Unmarshal(plain, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *Seeding) objects(name string, data []byte, by time.Duration) error {
	all, err := documents(string(data), by)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.Objects = append(s.Objects, all...)
	return nil
}

// documents reads the objects of a manifest, with their times moved.
func documents(text string, by time.Duration) ([]Object, error) {
	var all []Object
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var v any
		err := d.Decode(&v)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case v == nil:
			continue
		}
		plain, err := json.Marshal(moved(v, by)) // so that maps within are plain ones
		if err != nil {
			return nil, err
		}
		var o Object
		if err := json.Unmarshal(plain, &o); err != nil || o.Text("kind") == "" {
			return nil, errors.New("not an object of the API")
		}
		all = append(all, o)
	}
}
