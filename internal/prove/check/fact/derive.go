package fact

import (
	"cmp"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// ZoneLabel is the label of a Node that names its zone.
const ZoneLabel = corev1.LabelTopologyZone

// Zone is the zone of a Node; "" where it has none or is not known.
func (f *Facts) Zone(node string) string {
	if f.zones != nil {
		return f.zones[node]
	}
	for _, n := range f.Nodes.Items {
		if n.Object.Name == node {
			return n.Object.Labels[ZoneLabel]
		}
	}
	return ""
}

// Index prepares what is looked up often. It is called once, when all is read.
func (f *Facts) Index() {
	zones := make(map[string]string, len(f.Nodes.Items))
	for _, n := range f.Nodes.Items {
		zones[n.Object.Name] = n.Object.Labels[ZoneLabel]
	}
	f.zones = zones
	f.files = make(map[string]int, len(f.Files.Items))
	for i, file := range f.Files.Items {
		f.files[file.Object.Node+file.Object.Path] = i // a path begins with / or !, which no node's name has
	}
	f.slices = make(map[string][]int, len(f.EndpointSlices.Items))
	for i, s := range f.EndpointSlices.Items {
		key := s.Object.Namespace + "/" + s.Object.Labels[discoveryv1.LabelServiceName]
		f.slices[key] = append(f.slices[key], i)
	}
}

// SlicesOf lists the EndpointSlices that a datapath takes for a Service.
func (f *Facts) SlicesOf(namespace, name string) []Item[discoveryv1.EndpointSlice] {
	var all []Item[discoveryv1.EndpointSlice]
	for _, i := range f.slices[namespace+"/"+name] {
		all = append(all, f.EndpointSlices.Items[i])
	}
	return all
}

// Zones lists the zones that have Nodes, sorted, without "".
func (f *Facts) Zones() []string {
	var all []string
	for _, n := range f.Nodes.Items {
		if z := n.Object.Labels[ZoneLabel]; z != "" && !slices.Contains(all, z) {
			all = append(all, z)
		}
	}
	slices.Sort(all)
	return all
}

var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// ControlPlane lists the Nodes that say they belong to the control plane.
func (f *Facts) ControlPlane() []Item[corev1.Node] {
	var all []Item[corev1.Node]
	for _, n := range f.Nodes.Items {
		for _, label := range controlPlaneLabels {
			if _, ok := n.Object.Labels[label]; ok {
				all = append(all, n)
				break
			}
		}
	}
	return all
}

// NodeOf is the Node that has an address or a name; nil where none has.
func (f *Facts) NodeOf(host string) *corev1.Node {
	for _, n := range f.Nodes.Items {
		if n.Object.Name == host {
			return n.Object
		}
		for _, a := range n.Object.Status.Addresses {
			if a.Address == host {
				return n.Object
			}
		}
	}
	return nil
}

// Host is the host of a URL or of host:port; s itself where it is neither.
func Host(s string) string {
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		return u.Hostname()
	}
	if h, _, err := net.SplitHostPort(s); err == nil {
		return h
	}
	return strings.Trim(s, "[]")
}

// Loopback says whether a host is the machine itself.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Component is one running or configured instance of a program, with its flags.
type Component struct {
	// Name is that of the program, such as kube-apiserver.
	Name string
	// Node is where it runs; "" where a manifest does not say.
	Node      string
	Container *corev1.Container
	Pod       *corev1.Pod
	At        Location
	// Index is the container's place in the pod.
	Index int
}

// Flag is the value of --name; ok says whether it is given. A flag without a value
// is "true".
func (c Component) Flag(name string) (value string, ok bool) {
	args := append(slices.Clone(c.Container.Command), c.Container.Args...)
	for i, a := range args {
		a = strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-")
		key, v, has := strings.Cut(a, "=")
		if key != name || !strings.HasPrefix(args[i], "-") {
			continue
		}
		switch {
		case has:
			value = v
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			value = args[i+1]
		default:
			value = "true"
		}
		ok = true // the last one counts, as with pflag
	}
	return value, ok
}

// Env is the value of an environment variable of the container.
func (c Component) Env(name string) (value string, ok bool) {
	for _, e := range c.Container.Env {
		if e.Name == name && e.ValueFrom == nil {
			value, ok = e.Value, true
		}
	}
	return value, ok
}

// FlagAt is where the flag stands, as near as the source knows.
func (c Component) FlagAt(name string) Location {
	index := itoa(c.Index)
	for _, list := range []struct {
		field string
		args  []string
	}{{"command", c.Container.Command}, {"args", c.Container.Args}} {
		for i, a := range list.args {
			if a == "--"+name || strings.HasPrefix(a, "--"+name+"=") {
				return c.At.Field("spec", "containers", index, list.field, itoa(i))
			}
		}
	}
	return c.At.Field("spec", "containers", index)
}

// EnvAt is where an environment variable stands.
func (c Component) EnvAt(name string) Location {
	for i, e := range c.Container.Env {
		if e.Name == name {
			return c.At.Field("spec", "containers", itoa(c.Index), "env", itoa(i))
		}
	}
	return c.At.Field("spec", "containers", itoa(c.Index))
}

// Components finds the instances of a program among static pods, pods and the
// templates of DaemonSets and Deployments. Where a static pod's manifest and the
// pod are both known the manifest is taken: it has the lines that a person edits.
// A template is only taken where none of its pods is known.
func (f *Facts) Components(name string) []Component {
	var all []Component
	seen := map[string]bool{}
	for _, p := range f.StaticPods.Items {
		node := cmp.Or(p.At.Node, p.Object.Spec.NodeName)
		for _, c := range containers(name, node, p.Object, p.At) {
			all, seen[node] = append(all, c), true
		}
	}
	for _, p := range f.Pods.Items {
		if node := p.Object.Spec.NodeName; node == "" || !seen[node] {
			all = append(all, containers(name, node, p.Object, p.At)...)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, d := range f.DaemonSets.Items {
		all = append(all, templates(name, &d.Object.Spec.Template, d.At)...)
	}
	for _, d := range f.Deployments.Items {
		all = append(all, templates(name, &d.Object.Spec.Template, d.At)...)
	}
	return all
}

func templates(name string, t *corev1.PodTemplateSpec, at Location) []Component {
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	return containers(name, "", pod, at.below("spec", "template"))
}

func containers(name, node string, pod *corev1.Pod, at Location) []Component {
	var all []Component
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if runs(c, name) {
			all = append(all, Component{Name: name, Node: node, Container: c, Pod: pod, At: at, Index: i})
		}
	}
	return all
}

// runs says whether a container is of the program: by the first word of its
// command, by its name, or by its image.
func runs(c *corev1.Container, name string) bool {
	if c.Name == name || len(c.Command) > 0 && path.Base(c.Command[0]) == name {
		return true
	}
	image, _ := SplitImage(c.Image)
	return path.Base(image) == name
}

// SplitImage takes an image's reference apart into repository and tag; the tag is
// "" where there is only a digest or nothing.
func SplitImage(ref string) (repository, tag string) {
	ref, _, _ = strings.Cut(ref, "@")
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		return ref[:i], ref[i+1:]
	}
	return ref, ""
}

// FilesAt lists the files whose path on their node matches a pattern of path.Match.
func (f *Facts) FilesAt(pattern string) []Item[File] {
	var all []Item[File]
	for _, item := range f.Files.Items {
		if ok, _ := path.Match(pattern, item.Object.Path); ok {
			all = append(all, item)
		}
	}
	return all
}

// FileOf is one file of one node. It is Absent only where the node's files were
// looked for.
func (f *Facts) FileOf(node, name string) (*Item[File], Known) {
	if i := f.fileAt(node, name); i >= 0 {
		return &f.Files.Items[i], Known{State: Present}
	}
	if k, ok := f.Parts["files/"+node+name]; ok {
		return nil, k
	}
	if k := f.KnownOf("files/" + node); k.State == Present {
		return nil, Known{State: Absent}
	}
	return nil, Known{Unknown, "the files of node " + node + " were not collected"}
}

// fileAt is the place of a file among Files; -1 where it is not there.
func (f *Facts) fileAt(node, name string) int {
	if f.files != nil {
		if i, ok := f.files[node+name]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(f.Files.Items, func(x Item[File]) bool { return x.Object.Node == node && x.Object.Path == name })
}

// ConfigMap is one ConfigMap. It is Absent only where it was looked for.
func (f *Facts) ConfigMap(namespace, name string) (*Item[corev1.ConfigMap], Known) {
	for i, c := range f.ConfigMaps.Items {
		if c.Object.Namespace == namespace && c.Object.Name == name {
			return &f.ConfigMaps.Items[i], Known{State: Present}
		}
	}
	key := "configmaps/" + namespace + "/" + name
	if k, ok := f.Parts[key]; ok {
		return nil, k
	}
	return nil, Known{Unknown, f.Origin + " has no ConfigMap " + namespace + "/" + name}
}

// CustomOf lists the objects of one kind of a group.
func (f *Facts) CustomOf(group, kind string) []Item[Resource] {
	var all []Item[Resource]
	for _, c := range f.Custom.Items {
		g, _, _ := strings.Cut(c.At.Object.APIVersion, "/")
		if g == group && c.At.Object.Kind == kind {
			all = append(all, c)
		}
	}
	return all
}
