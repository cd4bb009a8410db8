package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// execIn replaces the calling process with argv inside a node. It returns only
// an error.
func execIn(s state, node, cluster string, argv []string) error {
	if !s.alive() {
		return crashed(s.Name)
	}
	path, err := s.enter(node)
	if err != nil {
		return err
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("find command: %w", err)
	}
	env, err := s.environ(node, cluster)
	if err != nil {
		return err
	}
	if err := space.Enter(path, node); err != nil {
		return err
	}
	if err := unix.Exec(program, argv, append(os.Environ(), env...)); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

// environ is the environment of a command in a node. etcdctl then talks to the
// member there, or to the first one where the node has none; cluster "" is the
// first. kubectl talks to the apiserver of the node's site.
func (s state) environ(node, cluster string) ([]string, error) {
	env := []string{"HOLDFAST_LAB=" + s.Name, "HOLDFAST_NODE=" + node}
	for _, c := range s.Configs {
		if c.Node == node {
			env = append(env, "KUBECONFIG="+c.Path)
		}
	}
	var member *stateMember
	var names []string
	for i, m := range s.Members {
		names = append(names, m.Cluster)
		if cluster != "" && m.Cluster != cluster {
			continue
		}
		if member == nil || m.Cluster == member.Cluster && m.Node == node {
			member = &s.Members[i]
		}
	}
	if member == nil {
		if cluster != "" {
			return nil, fmt.Errorf("etcd cluster %q is unknown: use one of %s", cluster, orDash(strings.Join(names, ", ")))
		}
		return env, nil
	}
	return append(env,
		"ETCDCTL_API=3",
		"ETCDCTL_ENDPOINTS="+member.ClientURL,
		"ETCDCTL_CACERT="+member.PKI.CA,
		"ETCDCTL_CERT="+member.PKI.ClientCert,
		"ETCDCTL_KEY="+member.PKI.ClientKey,
	), nil
}

func crashed(name string) error {
	return fmt.Errorf("lab %s has crashed: clean up with `holdfast lab down --name %s`", name, name)
}
