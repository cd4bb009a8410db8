package zones

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// workload is a template of pods, and where its pod spec stands.
type workload struct {
	namespace, name string
	template        *corev1.PodTemplateSpec
	at              fact.Location
}

// workloads lists the Deployments, DaemonSets and StatefulSets.
func workloads(f *fact.Facts) []workload {
	var all []workload
	for _, d := range f.Deployments.Items {
		all = append(all, workload{d.Object.Namespace, d.Object.Name, &d.Object.Spec.Template, d.At})
	}
	for _, d := range f.DaemonSets.Items {
		all = append(all, workload{d.Object.Namespace, d.Object.Name, &d.Object.Spec.Template, d.At})
	}
	for _, d := range f.StatefulSets.Items {
		all = append(all, workload{d.Object.Namespace, d.Object.Name, &d.Object.Spec.Template, d.At})
	}
	return all
}

func (w workload) behind(s *corev1.Service) bool {
	return w.namespace == s.Namespace && len(s.Spec.Selector) > 0 &&
		labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.template.Labels))
}

var blindReadiness = rule.Rule{
	ID: "HF-ZONE-012", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "What clients outside are sent to is ready because it accepts connections",
	Needs: []fact.Kind{fact.Services}, OneOf: []fact.Kind{fact.Deployments, fact.DaemonSets, fact.StatefulSets},
	Why: "A pod without a readiness probe is ready as soon as it runs, and one that is asked for a connection is ready while it hangs: the " +
		"kernel accepts. It stays among the endpoints, and its address among the routes, and its share of requests gets no answer.",
	Remedy: "probe readiness by a request that takes the path of a client",
	Drill:  "accept-and-hang",
	Check:  checkReadiness,
}

func checkReadiness(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	judged := 0
	list := workloads(f)
	for _, s := range f.Services.Items {
		if s.Object.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		for _, w := range list {
			if !w.behind(s.Object) {
				continue
			}
			judged++
			if finding, blind := judgeReadiness(s.Object, w); blind {
				all = append(all, finding)
			}
		}
	}
	if judged == 0 {
		return nil, fact.NotApplicable("no known workload is behind a Service of type LoadBalancer")
	}
	return all, nil
}

func judgeReadiness(s *corev1.Service, w workload) (rule.Finding, bool) {
	i := serving(s, &w.template.Spec)
	if i < 0 {
		return rule.Finding{}, false
	}
	c := w.template.Spec.Containers[i]
	what := "has no readiness probe"
	switch probe := c.ReadinessProbe; {
	case probe == nil:
	case probe.TCPSocket != nil && speaksHTTP(s):
		what = "is asked for a connection only, and serves HTTP"
	default:
		return rule.Finding{}, false
	}
	at := w.at.Field("spec", "template", "spec", "containers", fmt.Sprint(i))
	if c.ReadinessProbe != nil {
		at = w.at.Field("spec", "template", "spec", "containers", fmt.Sprint(i), "readinessProbe")
	}
	return rule.Finding{
		At: at, Key: c.Name + "/" + s.Name,
		What:   fmt.Sprintf("container %s of %s/%s, behind Service %s, %s", c.Name, w.namespace, w.name, s.Name, what),
		Effect: rule.Unending("a pod that hangs", "its share of requests gets no answer"),
		Remedy: "# container " + c.Name + ":\nreadinessProbe:\n  httpGet: {path: /ready, port: PORT}\n  periodSeconds: 5\n  timeoutSeconds: 3\n  failureThreshold: 3",
	}, true
}

// serving is the container that a Service's port leads to; -1 where that is not
// certain.
func serving(s *corev1.Service, pod *corev1.PodSpec) int {
	for i, c := range pod.Containers {
		for _, p := range c.Ports {
			for _, want := range s.Spec.Ports {
				target := want.TargetPort
				if target.StrVal != "" && target.StrVal == p.Name || target.StrVal == "" && p.ContainerPort == max(target.IntVal, 0) && target.IntVal != 0 ||
					target.StrVal == "" && target.IntVal == 0 && p.ContainerPort == want.Port {
					return i
				}
			}
		}
	}
	if len(pod.Containers) == 1 {
		return 0
	}
	return -1
}

func speaksHTTP(s *corev1.Service) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return strings.HasPrefix(p.Name, "http") || strings.HasPrefix(text(p.AppProtocol), "http") || slices.Contains([]int32{80, 443, 8080, 8443}, p.Port)
	})
}

var gatewayAllZones = rule.Rule{
	ID: "HF-ZONE-009", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "Cilium's Gateway sends requests to the pods of all zones",
	Needs: []fact.Kind{fact.Custom, fact.Services, fact.Nodes},
	Why: "The Envoy of Cilium's Gateway has the pods of every zone as upstreams, whatever the Service's trafficDistribution says " +
		"(cilium#48738). With pod traffic blocked between two zones half of the requests through each entry timed out.",
	Remedy: "let the route lead to a mirror of the Service whose only endpoint is its ClusterIP: holdfast zonal",
	Drill:  "zonal-gateway",
	Check:  checkGateway,
}

const gatewayGroup = "gateway.networking.k8s.io"

func checkGateway(f *fact.Facts) ([]rule.Finding, error) {
	cilium := false
	for _, g := range f.CustomOf(gatewayGroup, "Gateway") {
		cilium = cilium || g.Object.Text("spec", "gatewayClassName") == "cilium"
	}
	if !cilium || len(f.Zones()) < 2 {
		return nil, fact.NotApplicable("no Gateway of Cilium in a cluster of several zones")
	}
	zonal := map[string]bool{}
	for _, s := range f.Services.Items {
		zonal[s.Object.Namespace+"/"+s.Object.Name] = same(s.Object)
	}
	var all []rule.Finding
	for _, route := range f.CustomOf(gatewayGroup, "HTTPRoute") {
		rules, _ := route.Object.Get("spec", "rules").([]any)
		for i, r := range rules {
			one, _ := r.(map[string]any)
			backends, _ := one["backendRefs"].([]any)
			for j, b := range backends {
				ref, _ := b.(map[string]any)
				name, _ := ref["name"].(string)
				namespace, _ := ref["namespace"].(string)
				if namespace == "" {
					namespace = route.At.Object.Namespace
				}
				if !zonal[namespace+"/"+name] {
					continue
				}
				all = append(all, rule.Finding{
					At: route.At.Field("spec", "rules", fmt.Sprint(i), "backendRefs", fmt.Sprint(j)), Key: namespace + "/" + name,
					What:   fmt.Sprintf("the route leads to %s/%s, which should keep to zones, and Envoy does not", namespace, name),
					Effect: rule.Unending("a cut between two zones", share(len(f.Zones()))+" of the requests through the Gateway fail"),
					Remedy: fmt.Sprintf("kubectl -n %s annotate service %s holdfast.dev/zonal=true   # where holdfast zonal runs; then in the route:\nbackendRefs:\n- name: %s-zonal", namespace, name, name),
				})
			}
		}
	}
	return all, nil
}

var shardsApart = rule.Rule{
	ID: "HF-ZONE-010", Group: rule.EndpointsZones, Severity: rule.Warning,
	Title: "A sharded log store is queried across zones: one shard away fails every query",
	Needs: []fact.Kind{fact.Pods, fact.Nodes},
	Why: "VictoriaLogs asks all shards and fails the whole query where one does not answer, after it has waited for it. A cut between two " +
		"zones so takes the logs from everybody, in the hour in which they are needed.",
	Remedy: "one cluster of shards per zone; collectors write to all, readers ask their own zone",
	Drill:  "sharded-store",
	Check:  checkShards,
}

func checkShards(f *fact.Facts) ([]rule.Finding, error) {
	zones := map[string]string{}
	for _, p := range f.Pods.Items {
		zones[p.Object.Name] = f.Zone(p.Object.Spec.NodeName)
	}
	var all []rule.Finding
	readers := 0
	for _, p := range f.Pods.Items {
		for i, c := range p.Object.Spec.Containers {
			shards, at := storageNodes(c)
			if len(shards) < 2 {
				continue
			}
			readers++
			in := map[string]bool{}
			for _, s := range shards {
				pod, _, _ := strings.Cut(fact.Host(s), ".")
				if z := zones[pod]; z != "" {
					in[z] = true
				}
			}
			if len(in) < 2 {
				continue
			}
			all = append(all, rule.Finding{
				At: p.At.Field("spec", "containers", fmt.Sprint(i), "args", fmt.Sprint(at)), Key: c.Name,
				What:   fmt.Sprintf("%s asks %d shards in %d zones", p.Object.Name, len(shards), len(in)),
				Effect: rule.Unending("a cut between two zones", "every query waits for its timeout and fails"),
				Remedy: "# for each zone a reader of its own, with the shards of that zone alone:\n- -storageNode=" + shards[0],
			})
		}
	}
	if readers == 0 {
		return nil, fact.NotApplicable("no VictoriaLogs asks several shards")
	}
	return all, nil
}

// storageNodes are the shards that a reader of VictoriaLogs is told, and which of
// its arguments says so first.
func storageNodes(c corev1.Container) (shards []string, at int) {
	image, _ := fact.SplitImage(c.Image)
	if path.Base(image) != "victoria-logs" && c.Name != "vlselect" {
		return nil, 0
	}
	at = -1
	for i, a := range c.Args {
		if list, ok := strings.CutPrefix(strings.TrimLeft(a, "-"), "storageNode="); ok {
			shards = append(shards, strings.Split(list, ",")...)
			if at < 0 {
				at = i
			}
		}
	}
	return shards, max(at, 0)
}
