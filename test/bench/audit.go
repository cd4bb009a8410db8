package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// auditPolicy makes an apiserver log what a service account of kube-system
// writes, whatever becomes of it.
func auditPolicy(user string) string {
	return fmt.Sprintf(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:kube-system:%s"]
  verbs: [create, update, patch, delete, deletecollection]
`, user)
}

func (z *zoned) auditLog(a *lab.APIServer) string {
	return filepath.Join(z.dir, "audit-"+a.Node().Name()+".log")
}

// audited is a line of an audit log, as far as it matters here.
type audited struct {
	Received time.Time `json:"requestReceivedTimestamp"`
	Sources  []string  `json:"sourceIPs"`
	Object   struct {
		Resource string `json:"resource"`
	} `json:"objectRef"`
}

// ledger counts writes by the node that they came from, and by resource.
type ledger struct {
	nodes, resources map[string]int
}

// writes counts what came in from one time on, and before another.
func (z *zoned) writes(from, to time.Time) (ledger, error) {
	sum := ledger{nodes: map[string]int{}, resources: map[string]int{}}
	names := map[string]string{}
	for _, a := range z.lab.APIServers() {
		names[a.Node().IP().String()] = a.Node().Name()
	}
	for _, a := range z.lab.APIServers() {
		f, err := os.Open(z.auditLog(a))
		if err != nil {
			return sum, fmt.Errorf("count writes: %w", err)
		}
		err = sum.count(f, a.Node().Name(), names, from, to)
		_ = f.Close()
		if err != nil {
			return sum, fmt.Errorf("count writes at %s: %w", a.Node().Name(), err)
		}
	}
	return sum, nil
}

// count adds the log of the apiserver on node at; names are nodes by address.
func (l ledger) count(log io.Reader, at string, names map[string]string, from, to time.Time) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line audited
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("read audit log: %w: %.200s", err, lines.Text())
		}
		if line.Received.Before(from) || !line.Received.Before(to) {
			continue
		}
		node, err := line.node(at, names)
		if err != nil {
			return err
		}
		l.nodes[node]++
		l.resources[line.Object.Resource]++
	}
	return lines.Err()
}

// node is where a request came from.
func (a audited) node(at string, names map[string]string) (string, error) {
	if len(a.Sources) == 0 {
		return "", fmt.Errorf("a request at %s has no source", a.Received)
	}
	if ip, err := netip.ParseAddr(a.Sources[0]); err == nil && ip.IsLoopback() {
		return at, nil
	}
	if name, ok := names[a.Sources[0]]; ok {
		return name, nil
	}
	return "", fmt.Errorf("a request came from %s, which is no node", a.Sources[0])
}
