package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/access/balance"
	"github.com/holdfast-ha/holdfast/internal/access/slices"
	"github.com/holdfast-ha/holdfast/internal/access/zonal"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/image"
	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
)

// productImage is the product as a user would have it on the nodes.
const productImage = "lab.invalid/holdfast:1"

// TestManifests runs what the commands print as it is printed: an image with the
// binary alone, kubelets, the scheduler, and no rights but those of the manifest.
func TestManifests(t *testing.T) {
	r := startRouted(t)
	r.provide()
	var nodes []string
	for _, site := range sites {
		nodes = append(nodes, r.node(site))
		label := map[string]any{"metadata": map[string]any{"labels": map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
		if err := r.ask(site, http.MethodPatch, "/api/v1/nodes/"+r.node(site), label, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.apply(printed(t, "slices", "manifest", "daemonset", "--image", productImage, "--node", strings.Join(nodes, ","), "--witness", "c"))
	r.apply(printed(t, "zonal", "manifest", "deployment", "--image", productImage))
	r.place("a", "holdfast-balance.yaml", r.balancePod("a"))

	// What needs files that the lab has elsewhere is judged by the apiserver alone.
	r.apply(printed(t, "leader", "manifest", "static-pod", "--image", productImage), "--dry-run=server")
	r.apply(printed(t, "slices", "manifest", "static-pod", "--image", productImage), "--dry-run=server")

	if os.Getenv("HOLDFAST_KUBERNETES") != "" { // the default does not have that kind of policy
		r.sidecar()
	}

	r.until("the agents run", 2*time.Minute, func() error {
		return r.counts("daemonsets/holdfast-slices", "{.status.numberReady}", "3")
	})
	r.await("endpoints by zone", "a", 30*time.Second, map[string]string{"a": "ready [a]", "b": "ready [b]", "c": "ready [c]"})
	r.until("the mirrors' agents run", 2*time.Minute, func() error {
		return r.counts("deployments/holdfast-zonal", "{.status.readyReplicas}", "2")
	})
	if err := r.kubectl("create", "service", "clusterip", "shop", "--tcp=80:8080"); err != nil {
		t.Fatal(err)
	}
	if err := r.kubectl("annotate", "service", "shop", "holdfast.dev/zonal=true"); err != nil {
		t.Fatal(err)
	}
	r.until("the mirror", 30*time.Second, func() error {
		return r.ask("a", http.MethodGet, "/api/v1/namespaces/default/services/shop-zonal", nil, nil)
	})
	r.until("the balancer runs", time.Minute, func() error {
		return r.counts("pods/holdfast-balance-"+r.node("a"), "{.status.containerStatuses[0].ready}", "true")
	})
	r.steady()
}

// provide builds the product and loads its image on every node.
func (r *routed) provide() {
	r.t.Helper()
	binary := filepath.Join(r.t.TempDir(), "holdfast")
	build := exec.CommandContext(r.t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-o", binary, "./../../cmd/holdfast")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		r.t.Fatalf("build: %v: %s", err, out)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		r.t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := (image.Image{Name: productImage, Path: "/holdfast", Program: program}).Write(&archive); err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.lab.Dir(), "holdfast.tar")
	if err := os.WriteFile(path, archive.Bytes(), 0o600); err != nil {
		r.t.Fatal(err)
	}
	for _, site := range sites {
		c, err := r.lab.Containerd(r.node(site))
		if err == nil {
			err = c.Import(r.within(time.Minute), path)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// printed is what a command prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := &cobra.Command{Use: "holdfast"}
	root.AddCommand(leader.Command(), balance.Command(), slices.Command(), zonal.Command())
	root.SetArgs(args)
	root.SetOut(&out)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func (r *routed) kubectl(args ...string) error {
	_, err := r.lab.Kubectl(r.within(30*time.Second), r.node("a"), args...)
	return err
}

// apply hands a manifest to kubectl.
func (r *routed) apply(manifest string, flags ...string) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := r.kubectl(append([]string{"apply", "-f", path}, flags...)...); err != nil {
		r.t.Fatalf("%v\n%s", err, manifest)
	}
}

// counts compares a field of an object in kube-system.
func (r *routed) counts(object, field, want string) error {
	got, err := r.lab.Kubectl(r.within(20*time.Second), r.node("a"), "-n", "kube-system", "get", object, "-o", "jsonpath="+field)
	if err == nil && got != want {
		err = fmt.Errorf("%s of %s is %q, not %q: %s", field, object, got, want, r.why())
	}
	return err
}

// why is what the pods of kube-system wait for.
func (r *routed) why() string {
	var list core.PodList
	if err := r.ask("a", http.MethodGet, "/api/v1/namespaces/kube-system/pods", nil, &list); err != nil {
		return err.Error()
	}
	var all []string
	for _, p := range list.Items {
		for _, s := range p.Status.ContainerStatuses {
			state, _ := json.Marshal(s.State)
			all = append(all, fmt.Sprintf("%s ready=%t restarts=%d %s", p.Name, s.Ready, s.RestartCount, state))
		}
	}
	return strings.Join(all, "; ")
}

// balancePod is the static pod of a balancer, with the files where the lab has them.
func (r *routed) balancePod(site string) string {
	r.t.Helper()
	pki := r.apiserver(site).PKI()
	certs := filepath.Join(r.lab.Dir(), "kubelet-pki")
	if err := os.MkdirAll(certs, 0o700); err != nil {
		r.t.Fatal(err)
	}
	var both []byte
	for _, path := range []string{pki.AdminCert, pki.AdminKey} {
		data, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		both = append(both, data...)
	}
	if err := os.WriteFile(filepath.Join(certs, "kubelet-client-current.pem"), both, 0o600); err != nil {
		r.t.Fatal(err)
	}
	args := []string{"balance", "manifest", "static-pod", "--image", productImage}
	for _, s := range sites {
		args = append(args, "--backend", r.member(s).Node().IP().String()+":6443")
	}
	return strings.NewReplacer(
		"hostPath: {path: /etc/kubernetes/pki/ca.crt", "hostPath: {path: "+pki.CA,
		"hostPath: {path: /var/lib/kubelet/pki,", "hostPath: {path: "+certs+",",
	).Replace(printed(r.t, args...))
}

// place puts a static pod before the kubelet of a site.
func (r *routed) place(site, name, manifest string) {
	r.t.Helper()
	k, err := r.lab.Kubelet(r.node(site))
	if err == nil {
		err = os.WriteFile(filepath.Join(k.Manifests(), name), []byte(manifest), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// steady wants every pod of kube-system ready, without a restart.
func (r *routed) steady() {
	r.t.Helper()
	var list core.PodList
	if err := r.ask("a", http.MethodGet, "/api/v1/namespaces/kube-system/pods", nil, &list); err != nil {
		r.t.Fatal(err)
	}
	if len(list.Items) != 6 {
		r.t.Errorf("%d pods in kube-system, want 3 agents, 2 mirrors and a balancer", len(list.Items))
	}
	for _, p := range list.Items {
		for _, s := range p.Status.ContainerStatuses {
			if !s.Ready || s.RestartCount > 0 {
				r.t.Errorf("%s: ready %t, %d restarts", p.Name, s.Ready, s.RestartCount)
			}
		}
	}
}

// etcdPod is a pod of etcd as an operator makes it.
const etcdPod = `apiVersion: v1
kind: Pod
metadata: {name: main-0, namespace: etcd-system, labels: {app.kubernetes.io/name: etcd}}
spec:
  containers: [{name: etcd, image: "lab.invalid/pod:1", volumeMounts: [{name: certs, mountPath: /certs}]}]
  volumes: [{name: certs, emptyDir: {}}]
`

// sidecar has the apiserver add the agent to a pod of etcd.
func (r *routed) sidecar() {
	r.t.Helper()
	if err := r.kubectl("create", "namespace", "etcd-system"); err != nil {
		r.t.Fatal(err)
	}
	// An expression that fails would be ignored otherwise.
	policy := strings.Replace(printed(r.t, "leader", "manifest", "sidecar-policy", "--api-version", "v1", "--image", productImage),
		"failurePolicy: Ignore", "failurePolicy: Fail", 1)
	r.apply(policy)
	path := filepath.Join(r.t.TempDir(), "pod.yaml")
	if err := os.WriteFile(path, []byte(etcdPod), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.until("the agent is a sidecar of etcd", 20*time.Second, func() error {
		got, err := r.lab.Kubectl(r.within(20*time.Second), r.node("a"), "create", "-f", path, "--dry-run=server",
			"-o", "jsonpath={.spec.initContainers[*].name} {.spec.initContainers[*].restartPolicy}")
		if err == nil && got != "holdfast-leader Always" {
			err = fmt.Errorf("its init containers are %q", got)
		}
		return err
	})
}
