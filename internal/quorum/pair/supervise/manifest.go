package supervise

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// joinAnnotation marks a manifest that was written for a join.
const joinAnnotation = "holdfast.dev/pair-join"

// manifest is a static pod with an etcd in it.
type manifest struct {
	content []byte
	pod     corev1.Pod
	index   int // of etcd's container
	joins   bool
}

// parseManifest reads a manifest as the kubelet does, and finds etcd in it.
func parseManifest(content []byte) (*manifest, error) {
	m := &manifest{content: content, index: -1}
	if err := unmarshal(content, &m.pod); err != nil {
		return nil, refuse(Unclear, "correct it", "manifest: %v", err)
	}
	if m.pod.Kind != "Pod" {
		return nil, refuse(Unclear, "correct --static-pod", "the manifest is of a %q, not of a Pod", m.pod.Kind)
	}
	for i, c := range m.pod.Spec.Containers {
		words := slices.Concat(c.Command, c.Args)
		if len(words) == 0 || !isEtcd(words[0]) {
			continue
		}
		if m.index >= 0 {
			return nil, refuse(Unclear, "leave one of them", "the manifest has more than one etcd")
		}
		m.index = i
	}
	if m.index < 0 {
		return nil, refuse(Unclear, "have its command begin with etcd itself, without a shell around it", "no container of the manifest runs etcd")
	}
	m.joins = m.pod.Annotations[joinAnnotation] != ""
	return m, nil
}

// isEtcd says whether a program is called etcd, or etcd-3.6 and the like.
func isEtcd(program string) bool {
	name := path.Base(program)
	return name == "etcd" || strings.HasPrefix(name, "etcd-3")
}

func (m *manifest) container() *corev1.Container { return &m.pod.Spec.Containers[m.index] }

// input is what the container's etcd is started with.
func (m *manifest) input() (input, error) {
	c := m.container()
	var env []string
	for _, e := range c.Env {
		if e.ValueFrom != nil && strings.HasPrefix(e.Name, "ETCD_") {
			return input{}, refuse(Unclear, "write the value itself", "%s of the manifest has its value from elsewhere", e.Name)
		}
		env = append(env, e.Name+"="+e.Value)
	}
	if len(c.EnvFrom) > 0 {
		return input{}, refuse(Unclear, "write env", "etcd's container has envFrom")
	}
	words := slices.Concat(c.Command, c.Args)[1:]
	for _, w := range slices.Concat(words, env) {
		if strings.Contains(w, "$(") {
			return input{}, refuse(Unclear, "write the value itself", "%q of the manifest has a variable", w)
		}
	}
	args, err := parseArguments(words)
	return input{args: args, env: env}, err
}

// describe says how etcd runs, with paths of this machine.
func (m *manifest) describe() (Etcd, error) {
	in, err := m.input()
	if err != nil {
		return Etcd{}, err
	}
	if in.configFile() != "" {
		return Etcd{}, refuse(Unfit, "write them as flags", "etcd's settings are in a configuration file, of which a join cannot put a copy into the container")
	}
	s, err := in.settings()
	if err != nil {
		return Etcd{}, err
	}
	cwd := m.container().WorkingDir
	if cwd == "" {
		cwd = "/"
	}
	e, err := describe(s, cwd)
	if err != nil {
		return e, err
	}
	e.UID, e.GID = m.user()
	if e.Version, err = imageVersion(m.container().Image); err != nil {
		return e, err
	}
	return e, m.outside(&e)
}

// user is who the container runs as.
func (m *manifest) user() (uid, gid int) {
	if s := m.pod.Spec.SecurityContext; s != nil {
		uid, gid = number(s.RunAsUser, uid), number(s.RunAsGroup, gid)
	}
	if s := m.container().SecurityContext; s != nil {
		uid, gid = number(s.RunAsUser, uid), number(s.RunAsGroup, gid)
	}
	return uid, gid
}

func number(p *int64, fallback int) int {
	if p == nil {
		return fallback
	}
	return int(*p)
}

var imageTag = regexp.MustCompile(`:v?(3\.[0-9]+\.[0-9]+)`)

// imageVersion reads the version from a tag such as ":3.6.4-0" or ":v3.5.21";
// it is empty where the tag is of another form.
func imageVersion(image string) (string, error) {
	found := imageTag.FindStringSubmatch(image)
	if found == nil {
		return "", nil
	}
	return parseVersion("the image "+image, []byte("etcd Version: "+found[1]))
}

// outside replaces the container's paths by those of this machine.
func (m *manifest) outside(e *Etcd) error {
	for _, p := range []struct {
		what string
		path *string
	}{{"--data-dir", &e.DataDir}, {"--wal-dir", &e.WALDir}} {
		if *p.path == "" {
			continue
		}
		host, ok := m.hostPath(*p.path)
		if !ok {
			return refuse(Unfit, "mount a hostPath there", "%s=%s of the manifest is no directory of this machine", p.what, *p.path)
		}
		*p.path = host
	}
	for _, path := range []*string{&e.ClientTLS.CA, &e.ClientTLS.Cert, &e.ClientTLS.Key, &e.PeerTLS.CA, &e.PeerTLS.Cert, &e.PeerTLS.Key} {
		if host, ok := m.hostPath(*path); ok {
			*path = host
		}
	}
	return nil
}

// hostPath is where a path of the container is on this machine.
func (m *manifest) hostPath(inside string) (string, bool) {
	var best *corev1.VolumeMount
	for i, v := range m.container().VolumeMounts {
		at := filepath.Clean(v.MountPath)
		within := inside == at || strings.HasPrefix(inside, strings.TrimSuffix(at, "/")+"/")
		if within && (best == nil || len(at) > len(filepath.Clean(best.MountPath))) {
			best = &m.container().VolumeMounts[i]
		}
	}
	if best == nil || inside == "" || best.SubPathExpr != "" {
		return "", false
	}
	for _, v := range m.pod.Spec.Volumes {
		if v.Name == best.Name && v.HostPath != nil {
			rest := strings.TrimPrefix(inside, filepath.Clean(best.MountPath))
			return filepath.Join(v.HostPath.Path, best.SubPath, rest), true
		}
	}
	return "", false
}

// join is the manifest with the arguments of a join. What is not of etcd's
// command stays as it was written, as JSON.
func (m *manifest) join(cluster string) ([]byte, error) {
	in, err := m.input()
	if err != nil {
		return nil, err
	}
	in = in.join(cluster, "")
	j, err := yaml.YAMLToJSON(m.content)
	if err != nil {
		return nil, fmt.Errorf("copy manifest: %w", err)
	}
	all := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(j))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("copy manifest: %w", err)
	}
	if err := m.edit(all, in); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("copy manifest: %w", err)
	}
	return append(b, '\n'), nil
}

func (m *manifest) edit(all map[string]any, in input) error {
	odd := func(what string) error { return fmt.Errorf("copy manifest: no %s where it should be", what) }
	spec, ok := all["spec"].(map[string]any)
	if !ok {
		return odd("spec")
	}
	containers, ok := spec["containers"].([]any)
	if !ok || m.index >= len(containers) {
		return odd("containers")
	}
	c, ok := containers[m.index].(map[string]any)
	if !ok {
		return odd("container")
	}
	meta, ok := all["metadata"].(map[string]any)
	if !ok {
		return odd("metadata")
	}
	notes, ok := meta["annotations"].(map[string]any)
	if !ok {
		notes = map[string]any{}
	}
	notes[joinAnnotation] = "true"
	meta["annotations"] = notes
	program := slices.Concat(m.container().Command, m.container().Args)[0]
	c["command"] = append([]string{program}, in.words()...)
	delete(c, "args")
	env, _ := c["env"].([]any)
	c["env"] = slices.DeleteFunc(env, func(e any) bool {
		v, _ := e.(map[string]any)
		return v["name"] == variable("initial-cluster") || v["name"] == variable("initial-cluster-state")
	})
	if len(env) == 0 {
		delete(c, "env")
	}
	return nil
}
