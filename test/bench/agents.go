package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	slicesPort = 9387
	zonalPort  = 9388
	// mirrors is how many Services ask for one.
	mirrors = 20
)

// benchSlices measures agents of `holdfast slices` that have nothing to do.
func benchSlices(ctx context.Context, quick bool) ([]Row, error) {
	z, err := newZoned(ctx, "holdfast-slices")
	if err != nil {
		return nil, err
	}
	defer z.close()
	var names []string
	for _, a := range z.lab.APIServers() {
		names = append(names, a.Node().Name())
	}
	if err := z.enlist(ctx, "slices", "manifest", "rbac", "--node", strings.Join(names, ",")); err != nil {
		return nil, err
	}
	for _, a := range z.lab.APIServers() {
		pki := a.PKI()
		// In the place of the node's balancer: a list of servers.
		if err := z.start(ctx, a, "slices", "run", "--node", a.Node().Name(), "--witness", "c", "--kubeconfig", z.kubeconfig,
			"--server", strings.Join(z.servers(a), ","), "--ca", pki.CA, "--cert", pki.KubeletCert, "--key", pki.KubeletKey); err != nil {
			return nil, err
		}
	}
	return z.rest(ctx, "slices-rest", slicesPort, "", quick)
}

// benchZonal measures replicas of `holdfast zonal` that have nothing to do.
func benchZonal(ctx context.Context, quick bool) ([]Row, error) {
	z, err := newZoned(ctx, "holdfast-zonal")
	if err != nil {
		return nil, err
	}
	defer z.close()
	if err := z.enlist(ctx, "zonal", "manifest"); err != nil {
		return nil, err
	}
	if err := z.apply(ctx, "services.yaml", services(mirrors)); err != nil {
		return nil, err
	}
	for _, a := range z.lab.APIServers() {
		if err := z.start(ctx, a, "zonal", "run", "--kubeconfig", z.kubeconfig, "--server", strings.Join(z.servers(a), ",")); err != nil {
			return nil, err
		}
	}
	if err := await(ctx, 2*time.Minute, func() error { return z.mirrored(ctx, mirrors) }); err != nil {
		return nil, err
	}
	return z.rest(ctx, "zonal-rest", zonalPort, fmt.Sprintf(", %d mirrors", mirrors), quick)
}

// services are Services that ask for a mirror, with an endpoint in every zone.
func services(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Service
metadata: {name: shop-%[1]d, namespace: default, annotations: {holdfast.dev/zonal: "true"}}
spec: {trafficDistribution: PreferSameZone, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-%[1]d-pods, namespace: default, labels: {kubernetes.io/service-name: shop-%[1]d}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.1.%[1]d], zone: a, conditions: {ready: true}, hints: {forZones: [{name: a}]}}
- {addresses: [10.244.2.%[1]d], zone: b, conditions: {ready: true}, hints: {forZones: [{name: b}]}}
- {addresses: [10.244.3.%[1]d], zone: c, conditions: {ready: true}, hints: {forZones: [{name: c}]}}
`, i+1)
	}
	return b.String()
}

// mirrored says that n mirrors lead somewhere: replicas are ready before one of
// them may act.
func (z *zoned) mirrored(ctx context.Context, n int) error {
	names, err := z.kubectl(ctx, "get", "endpointslices", "--selector=endpointslice.kubernetes.io/managed-by=holdfast-zonal", "--output=name")
	if got := len(strings.Fields(names)); err == nil && got < n {
		err = fmt.Errorf("%d of %d mirrors are made", got, n)
	}
	return err
}

// rest lets the agents settle, and reads what they use from then on. world is
// what a note says of what they see.
func (z *zoned) rest(ctx context.Context, name string, port int, world string, quick bool) ([]Row, error) {
	quiet, watch := 15*time.Second, 2*time.Minute
	if quick {
		quiet, watch = 5*time.Second, 15*time.Second
	}
	if err := z.settled(ctx, port); err != nil {
		return nil, err
	}
	if err := z.calm(ctx, quiet); err != nil {
		return nil, err
	}
	from := time.Now()
	before, err := z.read()
	if err != nil {
		return nil, err
	}
	if !pause(ctx, watch) {
		return nil, ctx.Err()
	}
	to := time.Now()
	after, err := z.read()
	if err != nil {
		return nil, err
	}
	// Who has fallen at rest would need little.
	if err := z.settled(ctx, port); err != nil {
		return nil, err
	}
	written, err := z.writes(from, to)
	if err != nil {
		return nil, err
	}
	return restRows(name, fmt.Sprintf("3 agents%s, %s", world, watch), before, after, written, to.Sub(from)), nil
}

// calm waits until nothing but Leases has been written for a while: what agents
// write at their start, of which Events come at 12 a minute, is not rest.
func (z *zoned) calm(ctx context.Context, quiet time.Duration) error {
	begun := time.Now()
	return await(ctx, 2*time.Minute, func() error {
		now := time.Now()
		if now.Sub(begun) < quiet {
			return errors.New("not looked at for long enough")
		}
		written, err := z.writes(now.Add(-quiet), now)
		if err != nil {
			return err
		}
		delete(written.resources, "leases")
		if len(written.resources) > 0 {
			return fmt.Errorf("agents are never at rest: in %s they wrote %v", quiet, written.resources)
		}
		return nil
	})
}

func (z *zoned) read() ([]reading, error) {
	var all []reading
	for _, a := range z.agents {
		one, err := process(a.Pid())
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// restRows are the figures of agents between two readings.
func restRows(name, note string, before, after []reading, written ledger, took time.Duration) []Row {
	var began, rss, private, cpu []float64
	for i, a := range after {
		began = append(began, before[i].rss)
		rss, private = append(rss, a.rss), append(private, a.private)
		cpu = append(cpu, 100*(a.cpu-before[i].cpu)/took.Seconds())
	}
	total, most := 0, 0
	for _, n := range written.nodes {
		total, most = total+n, max(most, n)
	}
	fmt.Fprintf(os.Stderr, "bench:   %s: writes by node %v, by resource %v; VmRSS %s MB and %s MB before, private %s MB, %s %% of a core\n",
		name, written.nodes, written.resources, list(rss), list(began), list(private), list(cpu))
	of := "nothing"
	if total > 0 {
		of = strings.Join(slices.Sorted(maps.Keys(written.resources)), ", ")
	}
	return []Row{
		atMost(name+"-writes", "per s and node", float64(most)/took.Seconds(), 0.2,
			fmt.Sprintf("%s; the busiest node, from the audit logs of 3 apiservers; all nodes %d writes, of %s", note, total, of)),
		atMost(name+"-rss", "MB", slices.Max(rss), 35, fmt.Sprintf("%s; VmRSS of the largest, all %s (before: %s)", note, list(rss), list(began))),
		reported(name+"-private-memory", "MB", slices.Max(private), fmt.Sprintf("%s; RssAnon+RssShmem of the largest", note)),
		reported(name+"-cpu", "% of a core", slices.Max(cpu), fmt.Sprintf("%s; the busiest, all %s", note, list(cpu))),
	}
}

// reported makes a row without a bar.
func reported(name, unit string, ours float64, note string) Row {
	return Row{Name: name, Unit: unit, Ours: &ours, Holds: true, Note: note + "; reported, no bar"}
}

func list(values []float64) string {
	var all []string
	for _, v := range values {
		all = append(all, fmt.Sprintf("%.3g", v))
	}
	return strings.Join(all, ", ")
}
