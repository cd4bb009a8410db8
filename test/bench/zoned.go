package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// zoned is a lab with a kube-apiserver and a Node in every zone. The apiservers
// log what one user writes.
type zoned struct {
	dir  string
	lab  *lab.Lab
	user string // a service account of kube-system
	// kubeconfig has the credentials of user and a server that is none.
	kubeconfig string
	agents     []*lab.Child // site by site
}

func newZoned(ctx context.Context, user string) (*zoned, error) {
	spec, err := lab.Default("rtt")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-rest-")
	if err != nil {
		return nil, err
	}
	spec.Dir, spec.Peer, spec.APIServers, spec.APIServer.Endpoints = dir, "3.6", true, "none"
	l, err := lab.Start(ctx, spec, slog.New(slog.DiscardHandler))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	z := &zoned{dir: dir, lab: l, user: user}
	if err := z.begin(ctx); err != nil {
		z.close()
		return nil, err
	}
	return z, nil
}

func (z *zoned) close() {
	_ = z.lab.Close()
	_ = os.RemoveAll(z.dir)
}

func (z *zoned) begin(ctx context.Context) error {
	if err := z.lab.StartEtcd(ctx); err != nil {
		return err
	}
	policy, err := z.write("audit.yaml", auditPolicy(z.user))
	if err != nil {
		return err
	}
	for _, a := range z.lab.APIServers() {
		argv := append(a.Argv(), "--audit-policy-file="+policy, "--audit-log-path="+z.auditLog(a))
		if _, err := a.Node().Spawn(ctx, lab.Process{Name: "audited-" + a.Node().Name(), Argv: argv}); err != nil {
			return err
		}
	}
	for _, a := range z.lab.APIServers() {
		if err := await(ctx, time.Minute, func() error { return a.Ready(ctx) }); err != nil {
			return err
		}
	}
	return z.apply(ctx, "nodes.yaml", z.nodes())
}

// nodes are what kubelets would register.
func (z *zoned) nodes() string {
	var b strings.Builder
	for _, a := range z.lab.APIServers() {
		n := a.Node()
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Node
metadata: {name: %[1]s, labels: {topology.kubernetes.io/zone: %[2]s, kubernetes.io/hostname: %[1]s}}
status: {addresses: [{type: InternalIP, address: %[3]s}]}
`, n.Name(), n.Site(), n.IP())
	}
	return b.String()
}

// enlist installs a printed manifest and makes the credentials of its user.
func (z *zoned) enlist(ctx context.Context, manifest ...string) error {
	objects, err := z.run(ctx, append([]string{program()}, manifest...)...)
	if err != nil {
		return err
	}
	if err := z.apply(ctx, "manifest.yaml", objects); err != nil {
		return err
	}
	token, err := z.kubectl(ctx, "create", "token", z.user, "--namespace=kube-system", "--duration=1h")
	if err != nil {
		return err
	}
	z.kubeconfig, err = z.write("kubeconfig", fmt.Sprintf(`current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "https://127.0.0.1:6443", certificate-authority: %s}}]
users: [{name: x, user: {token: %s}}]
`, z.lab.APIServers()[0].PKI().CA, strings.TrimSpace(token)))
	return err
}

// servers lists the apiservers for an agent beside one of them, which is first.
func (z *zoned) servers(own *lab.APIServer) []string {
	all := []string{own.URL()}
	for _, a := range z.lab.APIServers() {
		if a != own {
			all = append(all, a.URL())
		}
	}
	return all
}

// start runs an agent beside an apiserver.
func (z *zoned) start(ctx context.Context, beside *lab.APIServer, args ...string) error {
	n := beside.Node()
	child, err := n.Spawn(ctx, lab.Process{Name: "agent-" + n.Name(), Argv: append([]string{program()}, args...)})
	if err != nil {
		return err
	}
	z.agents = append(z.agents, child)
	return nil
}

// settled waits until every agent says at its port of telemetry that it is ready.
func (z *zoned) settled(ctx context.Context, port int) error {
	for _, a := range z.lab.APIServers() {
		if err := await(ctx, time.Minute, func() error { return ready(ctx, a.Node(), port) }); err != nil {
			return err
		}
	}
	return nil
}

func ready(ctx context.Context, n *lab.Node, port int) error {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.DialContext}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", port), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if why, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the agent of %s is not ready: %s", n.Name(), strings.Join(strings.Fields(string(why)), " "))
	}
	return nil
}

func (z *zoned) apply(ctx context.Context, name, objects string) error {
	path, err := z.write(name, objects)
	if err != nil {
		return err
	}
	_, err = z.kubectl(ctx, "apply", "--filename="+path)
	return err
}

// kubectl asks the first apiserver as the administrator.
func (z *zoned) kubectl(ctx context.Context, args ...string) (string, error) {
	a := z.lab.APIServers()[0]
	dir, name := filepath.Split(a.Argv()[0])
	tool := filepath.Join(dir, strings.Replace(name, "kube-apiserver", "kubectl", 1))
	return z.run(ctx, append([]string{tool, "--kubeconfig=" + a.PKI().AdminConf}, args...)...)
}

// run is the standard output of a program on the node of the first apiserver.
func (z *zoned) run(ctx context.Context, argv ...string) (string, error) {
	var out, said strings.Builder
	child, err := z.lab.APIServers()[0].Node().Spawn(ctx, lab.Process{Name: "tool", Argv: argv, Stdout: &out, Stderr: &said})
	if err != nil {
		return "", err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if err := child.Err(); err != nil {
		return "", fmt.Errorf("run %s: %w: %.300s", strings.Join(argv, " "), err, said.String())
	}
	return out.String(), nil
}

func (z *zoned) write(name, text string) (string, error) {
	path := filepath.Join(z.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// program is what is measured.
func program() string {
	path, err := filepath.Abs("bin/holdfast")
	if err != nil {
		return "bin/holdfast"
	}
	return path
}

// await asks until the answer is nil.
func await(ctx context.Context, within time.Duration, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if !pause(ctx, 300*time.Millisecond) {
			return errors.Join(err, ctx.Err())
		}
	}
}
