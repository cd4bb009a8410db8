package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// warmSamples is how many good samples in a row make a path warm.
const warmSamples = 10

// startProbers runs one `holdfast probe` per client site in the namespace of the
// site's node, and one in its pod.
func (e *engine) startProbers(ctx context.Context) error {
	e.probers = map[string]*lab.Child{}
	e.fresh = map[string]int{}
	for _, site := range e.c.SiteNames() {
		node, err := e.lab.Node(e.c.ClientNode(site))
		if err != nil {
			return err
		}
		onNode, inPod := e.clientsOf(site)
		var where spawner = node
		if e.c.VIP.Pods() {
			where = e.router // every node is one of the cluster, whose kube-proxy takes a short cut
		}
		if err := e.startProber(ctx, where, "probe-"+site, site+"/control", onNode); err != nil {
			return err
		}
		if err := e.startProber(ctx, e.pods[site], "probe-pod-"+site, site+"/control/pod", inPod); err != nil {
			return err
		}
	}
	return nil
}

// startProber runs a prober that walks paths, if there are any, and one to its
// own loopback called control.
func (e *engine) startProber(ctx context.Context, where spawner, name, control string, paths []scenario.Path) error {
	if len(paths) == 0 {
		return nil
	}
	cfg, err := e.probeConfig(control, paths)
	if err != nil {
		return err
	}
	return e.runProber(ctx, where, name, cfg)
}

// runProber runs a prober with its settings.
func (e *engine) runProber(ctx context.Context, where spawner, name string, cfg probe.Config) error {
	file, err := e.configFile(name+".yaml", cfg)
	if err != nil {
		return err
	}
	child, err := where.Spawn(ctx, lab.Process{
		Name:   name,
		Argv:   []string{e.exe, "probe", "--config", file, "--ndjson", "-"},
		Stdout: &lines{each: e.sample},
	})
	if err != nil {
		return fmt.Errorf("start prober: %w", err)
	}
	e.probers[name] = child
	e.run.Controls = append(e.run.Controls, cfg.Control.Name)
	e.expectLife(name, child)
	return nil
}

// probeConfig is what a prober has to do.
func (e *engine) probeConfig(control string, paths []scenario.Path) (probe.Config, error) {
	cfg := probe.Config{Control: probe.Control{Name: control}}
	for _, p := range paths {
		name := strings.TrimSuffix(p.Name, "/"+p.Kind+"/"+p.Mode)
		if scenario.IsHTTP(p.Kind) || p.Addressed() {
			name = strings.TrimSuffix(p.Name, "/"+p.Mode)
		}
		i := slices.IndexFunc(cfg.Targets, func(t probe.Target) bool { return t.Name == name })
		if i < 0 {
			t, err := e.probeTarget(name, p)
			if err != nil {
				return cfg, err
			}
			cfg.Targets = append(cfg.Targets, t)
			i = len(cfg.Targets) - 1
		}
		t := &cfg.Targets[i]
		if k := probe.Kind(p.Kind); !scenario.IsHTTP(p.Kind) && !p.Addressed() && !slices.Contains(t.Kinds, k) {
			t.Kinds = append(t.Kinds, k)
		}
		if m := probe.Mode(p.Mode); !slices.Contains(t.Modes, m) {
			t.Modes = append(t.Modes, m)
		}
	}
	return cfg, nil
}

func (e *engine) probeTarget(name string, p scenario.Path) (probe.Target, error) {
	switch {
	case scenario.IsAPI(p.Kind):
		return e.apiTarget(name, p)
	case p.Addressed():
		return e.addressTarget(name, p), nil
	case p.Target == scenario.TargetGateway:
		return probe.Target{
			Name: name, URL: "http://" + gatewayListen + "/", Interval: p.Interval, Timeout: p.Timeout,
			Labels: map[string]string{"site": p.Site},
		}, nil
	}
	if p.Kind == scenario.KindConnect {
		return e.connectTarget(name, p)
	}
	switch p.Target {
	case scenario.TargetStore:
		return e.storeTarget(name, p), nil
	case scenario.TargetClusterIP:
		return pageTarget(name, p), nil
	}
	m := e.members[scenario.Process{Cluster: p.Cluster, Site: p.Target}]
	if m == nil {
		return probe.Target{}, fmt.Errorf("path %s: cluster %s has no member in site %s", p.Name, p.Cluster, p.Target)
	}
	pki := m.PKI()
	host, ok := strings.CutPrefix(m.ClientURL(), "https://")
	if !ok {
		return probe.Target{}, fmt.Errorf("path %s: member has the URL %s, not https", p.Name, m.ClientURL())
	}
	return probe.Target{
		Name: name, URL: "etcd://" + host, Interval: p.Interval, Timeout: p.Timeout,
		TLS:    &probe.TLS{CA: pki.CA, Cert: pki.ClientCert, Key: pki.ClientKey},
		Labels: map[string]string{"site": p.Site},
	}, nil
}

// connectTarget opens a connection to an apiserver and says nothing.
func (e *engine) connectTarget(name string, p scenario.Path) (probe.Target, error) {
	server := e.apiservers[p.Target]
	if server == nil {
		return probe.Target{}, fmt.Errorf("path %s: there is no apiserver in site %s", p.Name, p.Target)
	}
	return probe.Target{
		Name: name, URL: "tcp://" + server.Address(), Interval: p.Interval, Timeout: p.Timeout,
		Labels: map[string]string{"site": p.Site},
	}, nil
}

// addressTarget asks the station behind the held address.
func (e *engine) addressTarget(name string, p scenario.Path) probe.Target {
	at := net.JoinHostPort(e.heldAddress().String(), strconv.Itoa(stationPort))
	url := "udp://" + at
	switch {
	case p.Kind == scenario.KindEcho:
		url = "tcp://" + at + "?kind=echo"
	case e.c.VIP.Pods():
		url = fmt.Sprintf("http://%s:%d/", e.heldAddress(), ingressPort)
	}
	return probe.Target{Name: name, URL: url, Interval: p.Interval, Timeout: p.Timeout, Labels: map[string]string{"site": p.Site}}
}

// apiTarget asks an apiserver, or the balancer of the client's node, as the
// kubelet of that node does. In a whole Kubernetes the kubelet speaks for itself,
// and clients are administrators with Leases of their own.
func (e *engine) apiTarget(name string, p scenario.Path) (probe.Target, error) {
	own := e.apiservers[p.Site]
	address, err := e.apiAddress(p)
	if err != nil {
		return probe.Target{}, err
	}
	node, pki := own.Node().Name(), own.PKI()
	lease, cert, key := leasesPath+"/"+node, pki.KubeletCert, pki.KubeletKey
	if e.c.Kubernetes {
		lease, cert, key = defaultLeases+"/"+leaseOf(p), pki.AdminCert, pki.AdminKey
	}
	url, method, contentType, body := apiRequest(p.Kind, node, lease)
	request := &probe.Request{Method: method, ContentType: contentType, Body: body}
	if e.c.Kubernetes && p.Kind == "api-put" {
		request.Turns = turnsOf(p)
	}
	return probe.Target{
		Name: name, URL: "https://" + address + url, Interval: p.Interval, Timeout: p.Timeout,
		Request: request,
		TLS:     &probe.TLS{CA: pki.CA, Cert: cert, Key: key, ServerName: serverName(p)},
		Labels:  map[string]string{"site": p.Site},
	}, nil
}

// serverName is whose certificate a client wants, "" for that of the address it
// asks: no certificate of the lab names the held address.
func serverName(p scenario.Path) string {
	if p.Addressed() {
		return apiserverName
	}
	return ""
}

// apiAddress is where a path to apiservers leads.
func (e *engine) apiAddress(p scenario.Path) (string, error) {
	server := e.apiservers[p.Target]
	switch {
	case e.apiservers[p.Site] == nil:
		return "", fmt.Errorf("path %s: there is no apiserver in site %s", p.Name, p.Site)
	case p.InPod():
		return serviceAddress, nil
	case p.Balanced():
		return balanceListen, nil
	case p.Addressed():
		port := lab.APIServerPort
		if e.c.VIP.Health == scenario.HealthFront {
			port = frontPort
		}
		return net.JoinHostPort(e.heldAddress().String(), strconv.Itoa(port)), nil
	case server == nil:
		return "", fmt.Errorf("path %s: there is no apiserver in site %s", p.Name, p.Target)
	}
	return server.Address(), nil
}

// casePath is the path of the case that a prober's path stands for: a prober
// calls every request over HTTP "http" and every question to an address
// "datagram" or "echo", the case says what is asked.
func casePath(name string) string {
	for _, kind := range []probe.Kind{probe.KindHTTP, probe.KindDatagram, probe.KindEcho} {
		if short := strings.Replace(name, "/"+string(kind)+"/", "/", 1); short != name && strings.Count(short, "/") > 2 {
			return short
		}
	}
	return name
}

// configFile writes a child's settings beside the lab, whose directory goes
// with the lab.
func (e *engine) configFile(name string, v any) (string, error) {
	data, err := yaml.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return e.textFile(name, string(data))
}

// textFile is configFile for settings that are no YAML.
func (e *engine) textFile(name, text string) (string, error) {
	path, err := filepath.Abs(filepath.Join(e.w.Dir(), "lab", name))
	if err != nil {
		return "", fmt.Errorf("write settings: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write settings: %w", err)
	}
	return path, nil
}

// placeOf is the node of a process.
func (e *engine) placeOf(p scenario.Process) (*lab.Node, error) {
	if p.Node != "" {
		return e.lab.Node(p.Node)
	}
	return e.nodeOf(p.Site)
}

// nodeOf is the first node of a site, which has its servers.
func (e *engine) nodeOf(site string) (*lab.Node, error) {
	for _, n := range e.lab.Nodes() {
		if n.Site() == site {
			return n, nil
		}
	}
	return nil, fmt.Errorf("site %s has no node", site)
}

// sample takes one line of a prober.
func (e *engine) sample(line []byte) {
	var s probe.Sample
	if err := json.Unmarshal(line, &s); err != nil || s.Path == "" {
		return // the last line of a prober that was killed
	}
	s.Path = casePath(s.Path)
	e.w.Sample(s)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run.Injected.IsZero() {
		e.recent = append(e.recent, s)
	}
	if s.OK {
		e.fresh[s.Path]++
	} else {
		e.fresh[s.Path] = 0
	}
}

// markBaseline forgets the samples so far and returns the time from which
// those of the baseline count.
func (e *engine) markBaseline() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recent = nil
	return e.clock.now()
}

// since returns the samples seen since markBaseline, by path.
func (e *engine) since() map[string][]probe.Sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	return probe.ByPath(slices.Clone(e.recent))
}

// warmUp waits until every path has answered a few times in a row, so that the
// dialling of the first connections is not taken for unrest.
func (e *engine) warmUp(ctx context.Context) error {
	every := func(scenario.Path) bool { return true }
	patience := settleDown
	if e.c.Kubernetes {
		patience = settleKubernetes
	}
	if until(ctx, patience, func() bool { return e.coldPath(every) == "" }) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("path %s did not answer %d times in a row within %s of the start; see logs/", e.coldPath(every), warmSamples, patience)
}

// coldPath names a chosen path that has not answered warmSamples times in a
// row, "" when there is none.
func (e *engine) coldPath(chosen func(scenario.Path) bool) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.c.Paths {
		if chosen(p) && e.fresh[p.Name] < warmSamples {
			return p.Name
		}
	}
	return ""
}

// stopProbers ends them cleanly: each waits for its samples in flight.
func (e *engine) stopProbers(ctx context.Context) {
	var wg sync.WaitGroup
	for _, child := range e.probers {
		wg.Go(func() { _ = child.Stop(ctx, 15*time.Second) })
	}
	wg.Wait()
}

// expectLife turns the unasked end of a prober or agent into an event, and the
// run into an inconclusive one.
func (e *engine) expectLife(name string, child *lab.Child) {
	go func() {
		<-child.Done()
		e.mu.Lock()
		asked := e.ending
		e.mu.Unlock()
		if asked || errors.Is(child.Err(), os.ErrProcessDone) {
			return
		}
		e.w.Event(record.Event{
			At: e.clock.now(), Source: "engine", Kind: record.KindExit,
			Message: fmt.Sprintf("%s ended by itself: %v", name, child.Err()), Keys: map[string]string{"process": name},
		})
		e.trouble("%s ended by itself: %v; see logs/%s.log", name, child.Err(), name)
	}()
}
