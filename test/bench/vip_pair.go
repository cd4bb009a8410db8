package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
)

const (
	callRole = "vip-call"
	callRate = 100 // new connections per second
	pairPort = 6443
	// pairBar is by when new connections have to be served again.
	pairBar = 500 * time.Millisecond
)

// call is one new connection of a client of a pair of balancers.
type call struct {
	Start, End time.Time
	Err        string
}

// runCalls is the process of that client: TLS and one request each, until it is
// told to end; then it prints them.
func runCalls(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(callRole, flag.ContinueOnError)
	address := flags.String("address", "", "where the balancer is")
	ca := flags.String("ca", "", "authority of the backends")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	c, err := (&ground{pki: pki.Files{CA: *ca}}).client(0)
	if err != nil {
		return err
	}
	c.address = *address
	s := c.flow(callRate)
	<-ctx.Done()
	var all []call
	for _, a := range s.finish() {
		one := call{Start: a.start, End: a.end}
		if a.err != nil {
			one.Err = a.err.Error()
		}
		all = append(all, one)
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

// backend of a pair, of three on the last station.
func (a *arena) pairBackends(files pki.Files) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all []string
	i := a.machines + 2
	for n := 1; n <= backendCount; n++ {
		state, err := a.write("ok", "backend-%d", n)
		if err != nil {
			return nil, err
		}
		address := netip.AddrPortFrom(a.segment.Station(i).Four, uint16(backendPort+n)).String()
		one, err := a.launch(i, "backend", self, backendRole, "--kind", "tls", "--address", address, "--number", strconv.Itoa(n),
			"--state", state, "--cert", files.ServerCert, "--key", files.ServerKey)
		if err != nil {
			return nil, err
		}
		a.lasting, all = append(a.lasting, one), append(all, address)
	}
	return all, nil
}

// pair measures two machines that each have a balancer and hold the address in
// turn: what a client sees when one of them dies, and when its balancer does.
func (y *yard) pair(ctx context.Context) ([]Row, error) {
	a, err := y.arena(2)
	if err != nil {
		return nil, err
	}
	defer a.close()
	ca, err := pki.NewAuthority(a.path("pki"), "vip-bench", time.Now())
	if err != nil {
		return nil, err
	}
	files, err := ca.Issue(a.path("pki/backend"), "kubernetes", prize)
	if err != nil {
		return nil, err
	}
	backends, err := a.pairBackends(files)
	if err != nil {
		return nil, err
	}
	to := setup{host: "0.0.0.0", port: pairPort, backends: backends, tls: true}
	rivals := []rival{ourPair(to, files), theirPair(to, files)}
	var rows []Row
	for _, f := range []struct {
		name, what string
		strike     func(*arena) error
	}{
		{"vip-pair-machine", "machine silent", func(a *arena) error { return a.segment.Station(1).Silence() }},
		{"vip-pair-balancer", "its balancer killed", func(a *arena) error { return a.running[1][0].signal(syscall.SIGKILL) }},
	} {
		var late [2][]float64
		got, err := a.bout(ctx, rivals, y.times(5), func(ctx context.Context, a *arena, r rival, k, n int) (round, error) {
			one, failed, err := a.callDuring(ctx, files, func() error {
				if !pause(ctx, time.Duration(float64(k)/float64(n)*float64(time.Second))) {
					return ctx.Err()
				}
				return f.strike(a)
			})
			i := 0
			if r.name != rivals[0].name {
				i = 1
			}
			if err == nil {
				one.stale = a.client.Neighbor(prize) != r.believes(a, a.client.Last())
				late[i] = append(late[i], failed)
			}
			return one, err
		})
		if err != nil {
			return rows, err
		}
		rows = append(rows, pairRows(f.name, f.what, rivals, got, late)...)
	}
	return rows, nil
}

// callDuring has a client call while something happens, and for three seconds
// more.
func (a *arena) callDuring(ctx context.Context, files pki.Files, strike func() error) (one round, late float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return one, 0, err
	}
	c, err := a.launch(a.machines+1, "call", self, callRole, "--address", netip.AddrPortFrom(prize, pairPort).String(), "--ca", files.CA)
	if err != nil {
		return one, 0, err
	}
	defer c.kill()
	if !pause(ctx, time.Second) {
		return one, 0, ctx.Err()
	}
	began := time.Now()
	if err := strike(); err != nil {
		return one, 0, err
	}
	at := time.Now()
	if !pause(ctx, 3*time.Second) {
		return one, 0, ctx.Err()
	}
	one.seen = a.client.Since(began)
	if err := c.signal(syscall.SIGTERM); err != nil {
		return one, 0, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return one, 0, ctx.Err()
	}
	var all []call
	if err := json.Unmarshal([]byte(c.log()), &all); err != nil {
		return one, 0, fmt.Errorf("read calls: %w: %s", err, c.tail())
	}
	one.took, late = servedAgain(all, at)
	return one, late, nil
}

// servedAgain is when the last connection began that failed or was slow, from the
// fault, in milliseconds, and how many failed that began after the bar.
func servedAgain(all []call, at time.Time) (took *float64, late float64) {
	var last time.Duration
	for _, c := range all {
		begun := c.Start.Sub(at)
		if begun < 0 || c.Err == "" && c.End.Sub(c.Start) <= slow {
			continue
		}
		last = max(last, begun)
		if c.Err != "" && begun > pairBar {
			late++
		}
	}
	v := ms(last)
	return &v, late
}

// ourPair is the balancer and a holder gated on a ready backend behind it.
func ourPair(to setup, files pki.Files) rival {
	gate := fmt.Sprintf("    health: [{name: backend, kind: https, address: \"127.0.0.1:%d\", path: /readyz, serverName: kubernetes, ca: %q, period: 200ms, timeout: 200ms}]\n",
		pairPort, files.CA)
	return behind(ourVRRP(endInterval, gate), func(a *arena, i int) error {
		conf, err := a.write(holdfastConfig(to, a.path("balance-%d.sock", i), files.CA), "balance-%d.yaml", i)
		if err != nil {
			return err
		}
		return a.enlist(i, "balance", a.y.binary, "balance", "run", "--config", conf)
	})
}

// theirPair is HAProxy and keepalived, which asks as often as it can: its scripts
// run once a second at most.
func theirPair(to setup, files pki.Files) rival {
	script := fmt.Sprintf(`vrrp_script backend {
  script "/usr/bin/curl --silent --fail --output /dev/null --max-time 1 --cacert %s --connect-to kubernetes:443:127.0.0.1:%d https://kubernetes/readyz"
  interval 1
  timeout 1
  fall 2
  rise 2
}
`, files.CA, pairPort)
	r := behind(keepalived(endInterval, script, "  track_script {\n    backend\n  }"), func(a *arena, i int) error {
		conf, err := a.write(haproxyConfig(to, a.path("haproxy-%d.sock", i), files.CA), "haproxy-%d.cfg", i)
		if err != nil {
			return err
		}
		return a.enlist(i, "haproxy", "haproxy", "-db", "-f", filepath.Clean(conf))
	})
	r.name = peerName + " and " + keepalivedName
	return r
}

// behind starts a balancer before the holder of its address.
func behind(r rival, balancer func(*arena, int) error) rival {
	start := r.start
	r.settle += 4 * time.Second // until the checks are good on all machines
	r.start = func(a *arena, i int) error {
		if err := balancer(a, i); err != nil {
			return err
		}
		return start(a, i)
	}
	return r
}

func pairRows(name, what string, rivals []rival, got [][]round, late [2][]float64) []Row {
	ours, theirs := tookOf(got[0]), tookOf(got[1])
	sum := func(v []float64) (n float64) {
		for _, x := range v {
			n += x
		}
		return n
	}
	other := sum(late[1])
	note := fmt.Sprintf("%s: when the last new connection began that failed or took longer than %s, median of %d; worst %s ms, peer %s ms; %s",
		what, slow, len(ours), figure(last(ours), ""), figure(last(theirs), ""), load())
	return []Row{
		within(name, "ms", middle(ours), ms(pairBar), note).against(rivals[1].name, middle(theirs)),
		atMost(name+"-failed", "connections", sum(late[0]), 0,
			fmt.Sprintf("sum of %d rounds at %d new connections a second, begun later than %s after it", len(ours), callRate, pairBar)).against(rivals[1].name, &other),
		staleRow(name+"-stale", rivals, got),
	}
}
