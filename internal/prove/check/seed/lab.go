package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// Options say with what a lab is audited.
type Options struct {
	// Program is the start of the command line of holdfast, Env what it needs beside
	// the environment.
	Program, Env []string
	// Role is the manifest of the rights that audits have, with a ServiceAccount
	// kube-system/holdfast-check.
	Role string
	// Dir is for files; "" makes a temporary one that Close removes.
	Dir string
}

// Lab is a cluster without a mistake: an apiserver, its etcd, and a machine beside it
// where audits are made and where the addresses of examples are.
type Lab struct {
	options Options
	lab     *lab.Lab
	server  *lab.APIServer
	stand   *lab.Node
	log     *slog.Logger
	dir     string
	// kubeconfig is that of the auditor.
	kubeconfig string
	signer     *signer
	defined    map[string]bool // kinds, by plural and group
	namespaces map[string]bool
	runs       int
}

// Start makes the lab. It needs root and the peers that `make peers` builds.
func Start(ctx context.Context, o Options, log *slog.Logger) (*Lab, error) {
	l := &Lab{options: o, log: log, defined: map[string]bool{}, namespaces: map[string]bool{}}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start lab of mistakes: %w", err), l.Close())
	}
	return l, nil
}

func (l *Lab) start(ctx context.Context) error {
	var err error
	if l.dir, err = os.MkdirTemp(l.options.Dir, "holdfast-seed-"); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	l.lab, err = lab.Start(ctx, lab.Spec{
		Name: "seed", Dir: filepath.Join(l.dir, "lab"), Sites: []lab.Site{{Name: "a", Nodes: 2}},
		Etcd:       []lab.Cluster{{Name: "main"}},
		APIServers: true, APIServer: lab.APIServerOptions{Endpoints: "none"},
	}, l.log)
	if err != nil {
		return err
	}
	if l.server, err = l.lab.APIServer("a"); err != nil {
		return err
	}
	l.stand = l.lab.Nodes()[1]
	pki := l.server.PKI()
	if l.signer, err = newSigner(pki.CA, pki.CAKey); err != nil {
		return err
	}
	// One apiserver is asked by the address that any might have.
	own := l.signer.answering(goodNames, []string{serviceAddress, "127.0.0.1", commonAddress, l.server.Node().IP().String()}, time.Time{})
	if err := own.write(pki.ServerCert, pki.ServerKey); err != nil {
		return err
	}
	if err := l.stand.Do(l.swallow); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{l.lab.StartEtcd, l.lab.StartAPIServers, l.grant} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// silence is the interface of the stand on which packets vanish.
const silence = "silence"

// swallow leads all addresses of examples where nobody answers: a bridge without ports
// and without ARP, since not every kernel has dummy interfaces. It runs on the stand.
func (l *Lab) swallow() error {
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: silence}}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("add interface: %w", err)
	}
	if err := netlink.LinkSetARPOff(link); err != nil {
		return fmt.Errorf("set ARP off: %w", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set interface up: %w", err)
	}
	_, all, err := net.ParseCIDR(clusterRange)
	if err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Index, Dst: all}); err != nil {
		return fmt.Errorf("add route: %w", err)
	}
	return nil
}

// Close ends the lab. Nothing is left of it.
func (l *Lab) Close() error {
	var errs []error
	if l.lab != nil {
		errs = append(errs, l.lab.Close())
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}

// grant gives the auditor its rights and writes its kubeconfig.
func (l *Lab) grant(ctx context.Context) error {
	objects, err := documents(l.options.Role, 0)
	if err != nil {
		return fmt.Errorf("read role: %w", err)
	}
	for _, o := range objects {
		if err := l.create(ctx, o); err != nil {
			return fmt.Errorf("grant rights: %w", err)
		}
	}
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	request := Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 7200}}
	if err := l.ask(ctx, http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/holdfast-check/token", request, &answer); err != nil {
		return fmt.Errorf("ask for token: %w", err)
	}
	config, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]string{"server": l.server.URL(), "certificate-authority": l.server.PKI().CA}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]string{"token": answer.Status.Token}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]string{"cluster": "x", "user": "x"}}},
	})
	if err != nil {
		return err
	}
	l.kubeconfig = filepath.Join(l.dir, "kubeconfig")
	return os.WriteFile(l.kubeconfig, config, 0o600)
}
