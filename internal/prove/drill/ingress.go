package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// Names and ports of the pods behind an announced Service.
const (
	ingressName = "ingress"
	ingressPort = 80
	// lingers is how long a pod goes on serving after it was told to end, as any
	// ingress should: routers are told meanwhile.
	lingers = 5 * time.Second
)

// Paths of what stands behind an announced Service.
const (
	deploymentsPath = "/apis/apps/v1/namespaces/default/deployments"
	budgetsPath     = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
)

// vipServices is the part services of an agent's settings.
type vipServices struct {
	Kubernetes vipKubernetes `yaml:"kubernetes"`
	Node       string        `yaml:"node"`
	Pools      []vipPool     `yaml:"pools"`
}

type vipPool struct {
	Name      string   `yaml:"name"`
	Addresses []string `yaml:"addresses"`
	Announce  []string `yaml:"announce"`
}

// servicesConfig has the agent of a machine announce the Service while the machine
// has a ready pod of it.
func (e *engine) servicesConfig(node string) *vipServices {
	first := e.lab.APIServers()[0]
	return &vipServices{
		Kubernetes: vipKubernetes{Servers: []string{first.URL()}, Kubeconfig: first.PKI().AdminConf},
		Node:       node,
		Pools:      []vipPool{{Name: "drill", Addresses: []string{anycastAddress.String() + "/32"}, Announce: []string{"bgp"}}},
	}
}

// startIngress makes a Deployment with a pod on every machine, a budget that lets
// one of them go at a time, and the Service.
func (e *engine) startIngress(ctx context.Context) error {
	first := e.lab.APIServers()[0]
	for _, o := range []struct{ path, body string }{
		{deploymentsPath, ingressDeployment(e.c.VIP.Nodes)},
		{budgetsPath, fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":%q},`+
			`"spec":{"minAvailable":%d,"selector":{"matchLabels":{"app":%[1]q}}}}`, ingressName, len(e.c.VIP.Nodes)-1)},
		{servicesPath, fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"type":"LoadBalancer",`+
			`"externalTrafficPolicy":"Local","selector":{"app":%[1]q},"ports":[{"port":%d,"targetPort":%d}]}}`, ingressName, ingressPort, echoPort)},
	} {
		if err := create(ctx, first, o.path, o.body); err != nil {
			return err
		}
	}
	if !e.agents {
		return e.assign(ctx, first)
	}
	return nil
}

// ingressDeployment has one pod on each of the nodes.
func ingressDeployment(nodes []string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q},"spec":{
 "replicas":%[2]d,"selector":{"matchLabels":{"app":%[1]q}},
 "template":{"metadata":{"labels":{"app":%[1]q}},"spec":{
  "affinity":{
   "nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["%[3]s"]}]}]}},
   "podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":%[1]q}},"topologyKey":"kubernetes.io/hostname"}]}},
  "terminationGracePeriodSeconds":%[4]d,
  "containers":[{"name":"web","image":%[5]q,"imagePullPolicy":"Never","command":["/pod","serve","-port","%[6]d"],
   "ports":[{"containerPort":%[6]d}],
   "readinessProbe":{"httpGet":{"path":"/readyz","port":%[6]d},"periodSeconds":1},
   "lifecycle":{"preStop":{"sleep":{"seconds":%[7]d}}}}]}}}}`,
		ingressName, len(nodes), strings.Join(nodes, `","`), int((2 * lingers).Seconds()), lab.PodImage, echoPort, int(lingers.Seconds()))
}

// assign gives the Service its address, in a run where nobody else does.
func (e *engine) assign(ctx context.Context, a *lab.APIServer) error {
	body := fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[{"ip":%q,"ipMode":"VIP"}]}}}`, anycastAddress)
	var code int
	var answer []byte
	var err error
	given := until(ctx, objectsWithin, func() bool {
		code, answer, err = a.Request(ctx, http.MethodPatch, servicesPath+"/"+ingressName+"/status", "application/merge-patch+json", []byte(body))
		return err == nil && code == http.StatusOK
	})
	if given {
		return nil
	}
	return fmt.Errorf("give the Service %s its address: %d %s: %w", ingressName, code, strings.TrimSpace(string(answer)), errors.Join(err, ctx.Err()))
}

// drainWithin bounds a drain: the pod lingers, and its budget may want a moment.
const drainWithin = 30 * time.Second

// drain empties a machine as people do, and returns when its pods are gone.
func (e *engine) drain(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	_, err := e.lab.Kubectl(ctx, e.lab.APIServers()[0].Node().Name(), "drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
	return err
}

// uncordon lets pods come back to a machine.
func (e *engine) uncordon(ctx context.Context, node string) error {
	_, err := e.lab.Kubectl(ctx, e.lab.APIServers()[0].Node().Name(), "uncordon", node)
	return err
}
