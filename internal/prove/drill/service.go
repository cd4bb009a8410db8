package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// The case's Service: its name, its address of the range that apiservers give out,
// and the port there.
const (
	webService = "web"
	webAddress = "10.96.0.80"
	webPort    = 80
)

// answersWithin is how long a pod that is well may take to answer, when it is
// measured whether a frozen one does.
const answersWithin = time.Second

// backingPod is a pod of the Service, nil while it is deleted.
type backingPod struct {
	scenario.ServicePod
	pod *lab.Pod
	// frozen is the pid of the program that stands still, 0 for none.
	frozen int
}

// startService makes the Service of the case and its pods.
func (e *engine) startService(ctx context.Context) error {
	if !e.c.HasService() {
		return nil
	}
	b := e.c.ServiceIn(e.agents)
	if err := create(ctx, e.lab.APIServers()[0], servicesPath, serviceObject(b.Traffic)); err != nil {
		return err
	}
	e.backing = map[string]*backingPod{}
	for _, p := range b.List() {
		e.backing[p.Name] = &backingPod{ServicePod: p}
		if err := e.runBacking(ctx, e.backing[p.Name]); err != nil {
			return err
		}
	}
	return nil
}

// serviceObject is the Service with a policy of traffic.
func serviceObject(traffic string) string {
	policy := map[string]string{
		scenario.TrafficSameZone: `"trafficDistribution":"PreferSameZone",`,
		scenario.TrafficLocal:    `"internalTrafficPolicy":"Local",`,
	}[traffic]
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{%s"clusterIP":%q,`+
		`"selector":{"app":%[1]q},"ports":[{"name":"http","port":%[4]d,"targetPort":%[5]d}]}}`,
		webService, policy, webAddress, webPort, echoPort)
}

func (e *engine) runBacking(ctx context.Context, p *backingPod) error {
	node, err := e.nodeOf(p.Site)
	if err != nil {
		return err
	}
	p.pod, err = e.lab.RunPod(ctx, lab.PodSpec{
		Namespace: "default", Name: p.Name, Node: node.Name(), Port: echoPort,
		Labels: map[string]string{"app": webService}, Readiness: readinessProbe(e.c.ServiceIn(e.agents).Readiness),
	})
	if err != nil {
		return fmt.Errorf("start pod of the Service %s: %w", webService, err)
	}
	return nil
}

// readinessProbe is that of the pods. The request is the one that clients send.
func readinessProbe(r scenario.Readiness) *corev1.Probe {
	p := &corev1.Probe{
		PeriodSeconds: int32(r.Period.Seconds()), TimeoutSeconds: int32(r.Timeout.Seconds()), FailureThreshold: int32(r.Failures),
	}
	port := intstr.FromInt32(echoPort)
	if r.Kind == scenario.ProbeTCP {
		p.TCPSocket = &corev1.TCPSocketAction{Port: port}
	} else {
		p.HTTPGet = &corev1.HTTPGetAction{Path: "/", Port: port}
	}
	return p
}

// awaitServed waits until clients are sent to a pod of their own site, where the
// Service keeps to zones.
func (e *engine) awaitServed(ctx context.Context) error {
	b := e.c.ServiceIn(e.agents)
	if !e.c.HasService() || b.Traffic != scenario.TrafficSameZone {
		return nil
	}
	sites := slices.DeleteFunc(slices.Collect(maps.Keys(e.pods)), func(site string) bool { return !slices.Contains(b.Pods, site) })
	return e.settleZones(ctx, sites, func(ctx context.Context, site string) (string, error) {
		return pageFrom(ctx, e.pods[site].DialContext, webAddress, webPort)
	})
}

// pageFrom is the site of the pod that answers at an address.
func pageFrom(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), host string, port int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, strconv.Itoa(port))+"/", nil)
	if err != nil {
		return "", fmt.Errorf("ask for a page: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask for a page: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Node string `json:"node"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&answer); err != nil {
		return "", fmt.Errorf("read page: %w", err)
	}
	return siteOf(answer.Node), nil
}

// pageTarget asks the Service for a page.
func pageTarget(name string, p scenario.Path) probe.Target {
	return probe.Target{
		Name: name, URL: fmt.Sprintf("http://%s:%d/", webAddress, webPort),
		Interval: p.Interval, Timeout: p.Timeout, Labels: map[string]string{"site": p.Site},
	}
}

// strikePods freezes and deletes pods of the Service, and measures that each is as
// the fault says.
func (e *engine) strikePods(ctx context.Context, s scenario.Step) error {
	for _, name := range s.Freeze {
		if err := e.freeze(ctx, e.backing[name]); err != nil {
			return fmt.Errorf("freeze pod %s: %w", name, err)
		}
	}
	for _, name := range s.Delete {
		p := e.backing[name]
		if p.pod == nil {
			return fmt.Errorf("delete pod %s: it is deleted already; let faults on one pod follow each other", name)
		}
		if err := p.pod.Remove(ctx); err != nil {
			return err
		}
		p.pod = nil
	}
	return nil
}

// freeze stops the program of a pod, and measures that the pod accepts and does not
// answer.
func (e *engine) freeze(ctx context.Context, p *backingPod) error {
	if p.pod == nil || p.frozen != 0 {
		return errors.New("it does not serve, so there is nothing to break; let faults on one pod follow each other")
	}
	pid, err := p.pod.Program()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop its program: %w", err)
	}
	p.frozen = pid
	if err := awaitState(ctx, pid, paused); err != nil {
		return err
	}
	return hangs(ctx, p.pod.Node().DialContext, p.pod.IP().String())
}

// hangs measures that a pod accepts a connection and answers no request.
func hangs(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), ip string) error {
	accept, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	conn, err := dial(accept, "tcp", net.JoinHostPort(ip, strconv.Itoa(echoPort)))
	if err != nil {
		return fmt.Errorf("it does not accept, which is another fault: %w", err)
	}
	_ = conn.Close()
	switch _, err := pageFrom(ctx, dial, ip, echoPort); {
	case err == nil:
		return errors.New("it answers though its program stands still")
	case !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it does not hang but fails: %w", err)
	}
	return ctx.Err()
}

// revivePods lets frozen pods go on and makes deleted ones again.
func (e *engine) revivePods(ctx context.Context, s scenario.Step) error {
	for _, name := range s.Freeze {
		if err := e.thaw(e.backing[name]); err != nil {
			return fmt.Errorf("let pod %s go on: %w", name, err)
		}
	}
	for _, name := range s.Delete {
		if p := e.backing[name]; p.pod == nil {
			if err := e.runBacking(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// thaw lets a program go on. One that does not stand still any more makes the run
// inconclusive: something ended the fault before its time.
func (e *engine) thaw(p *backingPod) error {
	if p.frozen == 0 {
		return nil
	}
	pid := p.frozen
	p.frozen = 0
	state, err := stateOf(pid)
	if err != nil {
		return err
	}
	if state != paused {
		e.trouble("pod %s was not frozen to the end: its program is %q", p.Name, state)
		return nil
	}
	return syscall.Kill(pid, syscall.SIGCONT)
}

// planService says what stands behind the Service in either run.
func planService(line func(string, ...any), c *scenario.Case) {
	if !c.HasService() {
		return
	}
	line("  a Service web at %s, asked from a pod in every site", webAddress)
	for _, remedy := range []bool{true, false} {
		line("  %s: %s", c.SideWords(remedy), backingWords(c.ServiceIn(remedy)))
	}
}

// backingWords say what stands behind a Service.
func backingWords(b scenario.Backing) string {
	var pods []string
	for _, p := range b.List() {
		pods = append(pods, p.Name)
	}
	traffic := map[string]string{
		scenario.TrafficCluster:  "any of which is asked",
		scenario.TrafficSameZone: "those of the client's zone preferred",
		scenario.TrafficLocal:    "those on the client's node alone",
	}[b.Traffic]
	asked := "an HTTP request"
	if b.Readiness.Kind == scenario.ProbeTCP {
		asked = "a TCP connect"
	}
	return fmt.Sprintf("pods %s, %s; ready by %s every %s, unready after %d of %s", strings.Join(pods, ", "), traffic, asked, b.Readiness.Period, b.Readiness.Failures, b.Readiness.Timeout)
}
