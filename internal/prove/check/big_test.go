package check

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// asCommand makes the test binary be `holdfast check`, so that what is measured is
// a process of its own.
const asCommand = "HOLDFAST_CHECK_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "" {
		os.Exit(m.Run())
	}
	cmd := Command()
	cmd.SetArgs(os.Args[1:])
	code := exit.Code(cmd.Execute())
	fmt.Fprintln(os.Stderr, peak())
	os.Exit(code)
}

// peak is the most memory that this process had at a time, in kB. What the kernel
// tells a parent of its children counts the parent itself, before the exec.
func peak() (kb int) {
	status, _ := os.ReadFile("/proc/self/status")
	if i := bytes.Index(status, []byte("VmHWM:")); i >= 0 {
		_, _ = fmt.Sscan(string(status[i+len("VmHWM:"):]), &kb)
	}
	return kb
}

// A bundle of 500 nodes and 10,000 objects is checked in 3 s and 200 MB. Time is
// that of the processor, since the machine may be busy with other tests.
func TestBigBundle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector multiplies memory")
	}
	file := filepath.Join(t.TempDir(), "bundle.tgz")
	if err := os.WriteFile(file, bigBundle(t), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "--json", file)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	// Something is found in it, which is no matter here: code 1.
	if code := cmd.ProcessState.ExitCode(); code != exit.Good && code != exit.Failed || !bytes.Contains(out, []byte(`"kind": "pods",
        "state": "present",
        "count": 7000`)) {
		t.Fatalf("%v %s\n%.2000s", err, &stderr, out)
	}
	kb := 0
	last := strings.TrimSpace(stderr.String())
	if _, err := fmt.Sscan(last[strings.LastIndexByte(last, '\n')+1:], &kb); err != nil {
		t.Fatalf("%q: %v", stderr.String(), err)
	}
	cpu, rss := cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), kb>>10
	t.Logf("%s of processor time, %d MB", cpu, rss)
	if cpu > 3*time.Second || rss > 200 {
		t.Errorf("%s of processor time and %d MB, want 3 s and 200 MB at most", cpu, rss)
	}
}

// bigBundle has 500 Nodes, 7000 Pods of about 6 kB with
// managed fields and all, and Services, EndpointSlices and Leases up to
// 10,000 objects.
func bigBundle(tb testing.TB) []byte {
	var out bytes.Buffer
	w := source.NewWriter(&out, time.Unix(1764500000, 0))
	for _, part := range []struct {
		name  string
		count int
		one   func(i int) string
	}{
		{"nodes", 500, bigNode}, {"pods", 6985, bigPod}, {"control", 15, bigControl}, {"services", 1000, bigService},
		{"endpointslices", 1000, bigSlice}, {"leases", 500, bigLease},
	} {
		var b strings.Builder
		for i := range part.count {
			b.WriteString(part.one(i) + "\n")
		}
		if err := w.File("objects/"+part.name+".ndjson", []byte(b.String())); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(source.Manifest{Server: "v1.37.2"}); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// managed is like what the apiserver keeps of who set which field.
var managed = `"managedFields":[` + strings.TrimSuffix(strings.Repeat(`{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:image":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}}}}}},"manager":"kube-controller-manager","operation":"Update","time":"2026-11-30T10:00:00Z"},`, 6), ",") + `]`

func bigNode(i int) string {
	images := strings.TrimSuffix(strings.Repeat(`{"names":["app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","app:v1.2.3"],"sizeBytes":123456789},`, 50), ",")
	role := ""
	if i < 3 {
		role = `"node-role.kubernetes.io/control-plane":"",`
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n%[1]d","uid":"5f6b7c8d-0000-4000-8000-%012[1]d","labels":{%[7]s"topology.kubernetes.io/zone":"z%[2]d","kubernetes.io/hostname":"n%[1]d"},%[3]s},`+
		`"spec":{"podCIDR":"10.%[4]d.%[5]d.0/24"},"status":{"addresses":[{"type":"InternalIP","address":"10.1.%[4]d.%[5]d"}],"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2026-11-30T10:00:00Z"}],"images":[%[6]s]}}`,
		i, i%3, managed, i/250, i%250, images, role)
}

func bigPod(i int) string {
	env := strings.TrimSuffix(strings.Repeat(`{"name":"A_VARIABLE_OF_THE_PROGRAM","value":"some value of it"},`, 12), ",")
	mounts := strings.TrimSuffix(strings.Repeat(`{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"},`, 4), ",")
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"app-%[1]d-5d8f7c9b6d-x%[1]d","namespace":"ns%[2]d","uid":"5f6b7c8d-1111-4000-8000-%012[1]d","labels":{"app":"app%[2]d","pod-template-hash":"5d8f7c9b6d"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-%[2]d-5d8f7c9b6d","uid":"5f6b7c8d-2222-4000-8000-%012[1]d","controller":true}],%[3]s},`+
		`"spec":{"nodeName":"n%[4]d","volumes":[{"name":"kube-api-access-abcde","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}],"defaultMode":420}}],"containers":[{"name":"app","image":"app:v1.2.3","args":["--listen=:8080","--verbose"],"env":[%[5]s],"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},"volumeMounts":[%[6]s],"readinessProbe":{"httpGet":{"path":"/readyz","port":8080},"periodSeconds":10},"imagePullPolicy":"IfNotPresent"},{"name":"side","image":"side:v2","env":[%[5]s],"volumeMounts":[%[6]s]}],"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]},`+
		`"status":{"phase":"Running","podIP":"10.2.0.1","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-30T10:00:00Z"},{"type":"ContainersReady","status":"True","lastTransitionTime":"2026-11-30T10:00:00Z"}],"containerStatuses":[{"name":"app","ready":true,"restartCount":1,"image":"app:v1.2.3","imageID":"app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","containerID":"containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","state":{"running":{"startedAt":"2026-11-30T10:00:00Z"}}}]}}`,
		i, i%100, managed, i%500, env, mounts)
}

// bigControl are the programs of the control plane, each on three nodes.
func bigControl(i int) string {
	name := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns"}[i%5]
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%[1]s-n%[2]d","namespace":"kube-system","labels":{"component":"%[1]s","k8s-app":"kube-dns"}},"spec":{"nodeName":"n%[2]d","containers":[{"name":"%[1]s","image":"%[1]s:v1.37.2","command":["%[1]s","--leader-elect=true","--etcd-servers=https://127.0.0.1:2379"]}]},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, name, i/5)
}

func bigService(i int) string {
	if i == 0 {
		return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"kubernetes","namespace":"default"},"spec":{"clusterIP":"10.96.0.1","clusterIPs":["10.96.0.1"],"ports":[{"port":443}]}}`
	}
	if i%3 == 0 { // what rules look at closely
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"app%d","namespace":"ns%d",%s},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","trafficDistribution":"PreferClose","clusterIP":"10.96.%d.%d","ports":[{"port":80,"targetPort":8080}],"selector":{"app":"app%d"}}}`, i, i%100, managed, i/250, i%250, i%100)
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"app%d","namespace":"ns%d",%s},"spec":{"clusterIP":"10.96.%d.%d","ports":[{"port":80,"targetPort":8080}],"selector":{"app":"app"}}}`, i, i%100, managed, i/250, i%250)
}

func bigSlice(i int) string {
	if i == 0 {
		return `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"kubernetes","namespace":"default","labels":{"kubernetes.io/service-name":"kubernetes"}},"addressType":"IPv4","endpoints":[{"addresses":["10.1.0.0"],"conditions":{"ready":true}},{"addresses":["10.1.0.1"],"conditions":{"ready":true}},{"addresses":["10.1.0.2"],"conditions":{"ready":true}}],"ports":[{"name":"https","port":6443,"protocol":"TCP"}]}`
	}
	endpoints := strings.TrimSuffix(strings.Repeat(`{"addresses":["10.2.0.1"],"conditions":{"ready":true,"serving":true,"terminating":false},"nodeName":"n1","zone":"z1","hints":{"forZones":[{"name":"z1"}]}},`, 7), ",")
	return fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"app%d-abcde","namespace":"ns%d","labels":{"kubernetes.io/service-name":"app%d"},%s},"addressType":"IPv4","endpoints":[%s],"ports":[{"name":"","port":8080,"protocol":"TCP"}]}`, i, i%100, i, managed, endpoints)
}

func bigLease(i int) string {
	return fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n%d","namespace":"kube-node-lease",%s},"spec":{"holderIdentity":"n%d","leaseDurationSeconds":40,"renewTime":"2026-11-30T10:00:00.000000Z"}}`, i, managed, i)
}
