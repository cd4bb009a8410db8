package lab

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// detachRules reset what goes over the node's loopback address to a port: the
// apiserver's connections to its etcd member, old and new. Everybody else
// reaches the member at the node's own address.
const detachRules = `table ip holdfast-detach
delete table ip holdfast-detach
table ip holdfast-detach {
	chain output {
		type filter hook output priority filter; policy accept;
		ip daddr 127.0.0.1 tcp dport %[1]d counter reject with tcp reset
		ip saddr 127.0.0.1 tcp sport %[1]d counter reject with tcp reset
	}
}
`

const attachRules = `table ip holdfast-detach
delete table ip holdfast-detach
`

// noticeWithin bounds how long an apiserver may take to say that it has lost
// its storage: two checks of 2 s each, measured 4 s.
const noticeWithin = 10 * time.Second

// Detach cuts the apiserver from its etcd member, and nobody else: connections
// are reset and new ones refused. It returns when the rules are loaded;
// AwaitUnready measures that they are felt. An apiserver with another storage
// cannot be detached, nor one beside the first of a site.
func (a *APIServer) Detach(ctx context.Context) error {
	if o := a.node.lab.spec.APIServer; o.Etcd != "" {
		return fmt.Errorf("detach apiserver %s: it stores in %s: leave apiserver.etcd out for its own member alone", a.node.name, a.etcdServers(o))
	}
	if a.node != a.member.node {
		return fmt.Errorf("detach apiserver %s: its etcd member is on another node: cut %s from %s instead", a.node.name, a.node.name, a.member.node.name)
	}
	return a.loadRules(ctx, "detach", fmt.Sprintf(detachRules, a.member.cluster.ClientPort))
}

// Attach takes Detach back. It does not wait for the apiserver to be ready.
func (a *APIServer) Attach(ctx context.Context) error {
	return a.loadRules(ctx, "attach", attachRules)
}

func (a *APIServer) loadRules(ctx context.Context, verb, rules string) error {
	a.node.lab.journal.write("%s apiserver %s: nft -f - (in node %s)", verb, a.node.name, a.node.name)
	var out []byte
	err := a.node.Do(func() (err error) {
		cmd := exec.CommandContext(ctx, "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s apiserver %s: %w: %s", verb, a.node.name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// AwaitUnready returns when the apiserver answers /readyz with a failure,
// while its process runs and listens. ErrNotInForce says that it did not in
// time.
func (a *APIServer) AwaitUnready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, noticeWithin)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		code, _, err := a.Request(ctx, http.MethodGet, "/readyz", "", nil)
		if err == nil && code >= 500 {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: apiserver %s still answers /readyz with %d after %s", ErrNotInForce, a.node.name, code, noticeWithin)
		}
	}
}
