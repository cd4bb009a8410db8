package source

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// Version is the version of the layout of bundles.
const Version = 1

// Manifest is bundle.yaml, what a bundle says of itself.
type Manifest struct {
	Version   int       `json:"version"`
	Collected time.Time `json:"collected,omitzero"`
	Server    string    `json:"server,omitempty"`
	// States tells of each kind, and of parts such as configmaps/kube-system/x or
	// files/NODE, whether it was read. A kind that was and has no objects is absent.
	States map[string]Stated `json:"states,omitempty"`
}

// Stated is a state in a Manifest: present, absent or unknown, and of unknown why.
type Stated struct {
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
}

func (r *reader) bundle(e entry) error {
	var m Manifest
	if _, err := r.document(e, &m, true); err != nil {
		return err
	}
	return r.manifest(e.name, m)
}

func (r *reader) manifest(name string, m Manifest) error {
	if m.Version != Version {
		return fmt.Errorf("version %d: only %d is known here; collect it again", m.Version, Version)
	}
	if m.Server != "" || r.facts.Collected.IsZero() { // of a cluster and its machines the cluster's counts
		r.facts.Collected = m.Collected
	}
	r.facts.Server = cmp.Or(m.Server, r.facts.Server)
	for key, s := range m.States {
		state, err := fact.ParseState(s.State)
		if err != nil {
			return fmt.Errorf("states: %s: %w", key, err)
		}
		r.state(key, fact.Known{State: state, Why: s.Why})
		if state == fact.Unknown {
			r.problem(name, fmt.Errorf("%s: could not be read: %s", key, s.Why))
		}
	}
	return nil
}

// state notes what a target says of a kind or part. Of several targets one may have
// what another looked for in vain, and what one could not read is not known.
func (r *reader) state(key string, k fact.Known) {
	old, ok := r.stated[key]
	if ok && r.from != "" && (old.State == fact.Unknown || old.State == fact.Present && k.State == fact.Absent) {
		return
	}
	r.stated[key] = k
}

func (r *reader) probes(e entry) error {
	var list struct {
		Probes []fact.Probe `json:"probes"`
	}
	at, err := r.document(e, &list, true)
	if err != nil {
		return err
	}
	for i := range list.Probes {
		p := &list.Probes[i]
		if !slices.Contains(fact.ProbeOutcomes, p.Outcome) {
			return fmt.Errorf("probes: %d: outcome %q: want one of %v", i, p.Outcome, fact.ProbeOutcomes)
		}
		r.facts.Probes.Add(p, at.Field("probes", fmt.Sprint(i)))
	}
	return nil
}

func (r *reader) lookups(e entry) error {
	var list struct {
		Lookups []fact.Lookup `json:"lookups"`
	}
	at, err := r.document(e, &list, true)
	if err != nil {
		return err
	}
	for i := range list.Lookups {
		l := &list.Lookups[i]
		if !slices.Contains(fact.LookupOutcomes, l.Outcome) {
			return fmt.Errorf("lookups: %d: outcome %q: want one of %v", i, l.Outcome, fact.LookupOutcomes)
		}
		r.facts.Lookups.Add(l, at.Field("lookups", fmt.Sprint(i)))
	}
	return nil
}

func (r *reader) etcd(e entry) error {
	var list struct {
		Members []fact.EtcdMember `json:"members"`
	}
	at, err := r.document(e, &list, true)
	if err != nil {
		return err
	}
	for i := range list.Members {
		if id := list.Members[i].ID; r.from != "" && id != "" && slices.ContainsFunc(r.facts.Etcd.Items, func(m fact.Item[fact.EtcdMember]) bool { return m.Object.ID == id }) {
			continue // the members told each machine the same
		}
		r.facts.Etcd.Add(&list.Members[i], at.Field("members", fmt.Sprint(i)))
	}
	return nil
}

// document reads a file of one YAML or JSON document. The place it returns knows
// the lines of its fields.
func (r *reader) document(e entry, into any, strict bool) (at fact.Location, err error) {
	data, err := r.whole(e, r.limits.Document, errDocument)
	if err != nil {
		return at, err
	}
	var doc yaml.Node // JSON is YAML
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return at, yamlError(err)
	}
	if doc.Kind == 0 {
		return at, errors.New("empty")
	}
	plain, err := r.toJSON(doc.Content[0])
	if err != nil {
		return at, err
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		return at, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return fact.Location{File: e.name, Line: 1}.WithYAML(&doc), nil
}

// nodeFile splits nodes/NODE/files/PATH into the node and the absolute path, and
// nodes/NODE/commands/NAME into the node and "!NAME".
func nodeFile(name string) (node, file string) {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 4 {
		return "", ""
	}
	switch parts[2] {
	case "files":
		return parts[1], "/" + parts[3]
	case "commands":
		return parts[1], "!" + parts[3]
	}
	return "", ""
}

func (r *reader) nodeFile(e entry) error {
	node, file := nodeFile(e.name)
	if node == "" || r.elsewhere(node) {
		return nil
	}
	data, err := r.whole(e, r.limits.NodeFile, errNodeFile)
	if err != nil {
		return err
	}
	at := fact.Location{File: e.name, Line: 1, Node: node}
	if r.stated["files/"+node].State == fact.Unknown {
		r.stated["files/"+node] = fact.Known{State: fact.Present}
	}
	if err := r.staticPod(node, file, data); err != nil {
		return err
	}
	r.facts.Files.Add(&fact.File{Node: node, Path: file, Data: redact(data), Mode: uint32(e.mode.Perm())}, at)
	return nil
}

// elsewhere says that a machine is in a target that was read before, and notes so
// once for each.
func (r *reader) elsewhere(node string) bool {
	first, ok := r.nodesFrom[node]
	if !ok {
		r.nodesFrom[node] = r.from
		return false
	}
	if first == r.from {
		return false
	}
	if !r.twice[r.from+"\x00"+node] {
		r.twice[r.from+"\x00"+node] = true
		r.problem(r.from, fmt.Errorf("machine %s is in %s as well, which is taken; give one of them, or /etc/hostname of each its own name", node, first))
	}
	return true
}

// staticPodDirs are where kubelets look for static pods, by distribution.
var staticPodDirs = []string{"/etc/kubernetes/manifests", "/var/lib/rancher/rke2/agent/pod-manifests", "/var/lib/rancher/k3s/agent/pod-manifests"}

// staticPod reads a static pod's manifest beside the file itself.
func (r *reader) staticPod(node, file string, data []byte) error {
	if !slices.Contains(staticPodDirs, path.Dir(file)) || !isObjects(path.Base(file)) {
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); errors.Is(err, io.EOF) || err == nil && doc.Kind == 0 {
		return nil
	} else if err != nil {
		return yamlError(err)
	}
	root := doc.Content[0]
	if scalar(root, "kind") != "Pod" {
		return nil
	}
	plain, err := r.toJSON(root)
	if err != nil {
		return err
	}
	pod := new(corev1.Pod)
	if err := json.Unmarshal(plain, pod); err != nil {
		return fmt.Errorf("not a Pod: %w", err)
	}
	at := fact.Location{File: nodePath(node, file), Line: 1, Node: node, Object: fact.Reference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}}
	at = at.WithYAML(root)
	r.facts.StaticPods.Add(pod, at)
	return r.suppressing(plain, at)
}

// nodePath is where a node's file is in a bundle.
func nodePath(node, file string) string {
	if name, ok := strings.CutPrefix(file, "!"); ok {
		return "nodes/" + node + "/commands/" + name
	}
	return "nodes/" + node + "/files" + file
}
