package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

func (c *command) kubectl() *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use:   "kubectl [--node NODE] -- ARG…",
		Short: "Run kubectl in a node, as the administrator of its site's apiserver",
		Long: `Run kubectl in a node, as the administrator of its site's apiserver.

The node is the first one unless --node says otherwise; what is cut from it is
out of kubectl's reach. The exit code is kubectl's. Flags before the first
argument, or before --, belong to this command.`,
		Example: `  holdfast lab kubectl get nodes -o wide
  holdfast lab kubectl --node b1 -- -n kube-system get leases`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := readState(c.root, c.name)
			if err == nil {
				err = s.kubectl(node, args)
			}
			return exit.With(exit.Unknown, err)
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "where kubectl runs (default: the first node)")
	// Flags after the first argument belong to kubectl.
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// kubectl replaces the calling process with kubectl in a node, "" for the
// first. It returns only an error.
func (s state) kubectl(node string, args []string) error {
	if len(s.Configs) == 0 {
		if !s.alive() {
			return crashed(s.Name)
		}
		return fmt.Errorf("lab %s has no apiservers: start it with --kubernetes or --apiservers", s.Name)
	}
	if node == "" {
		node = s.Configs[0].Node
	}
	binary, err := findPeer("kubectl-" + s.Kubernetes)
	if err != nil {
		return err
	}
	return execIn(s, node, "", append([]string{binary}, args...))
}

// Kubectl runs kubectl in a node, as the administrator of its site's apiserver,
// and returns what it printed. The error holds what it complained of.
func (l *Lab) Kubectl(ctx context.Context, node string, args ...string) (string, error) {
	n, err := l.Node(node)
	if err != nil {
		return "", err
	}
	binary, err := l.kubernetesPeer("kubectl")
	if err != nil {
		return "", err
	}
	var out, complaint bytes.Buffer
	argv := append([]string{binary, "--kubeconfig", l.kubernetes[n.name].AdminConf}, args...)
	child, err := n.Spawn(ctx, Process{Name: "kubectl-" + n.name, Argv: argv, Stdout: &out, Stderr: &complaint})
	if err != nil {
		return "", err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), child.Stop(context.WithoutCancel(ctx), 0))
	}
	if err := child.Err(); err != nil {
		return out.String(), fmt.Errorf("run kubectl in %s: %w: %s", node, err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
