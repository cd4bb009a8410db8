package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
)

func (y *yard) apiserverDead(ctx context.Context) ([]Row, error) {
	return y.unhealthy(ctx, "vip-apiserver-dead", syscall.SIGKILL)
}

func (y *yard) apiserverHung(ctx context.Context) ([]Row, error) {
	return y.unhealthy(ctx, "vip-apiserver-hung", syscall.SIGSTOP)
}

// unhealthyBar is the default check: 1 s between two, 1 s of patience, twice.
const unhealthyBar = 2500

// readyAt is where the stand-in for an apiserver serves /readyz, on each machine.
var readyAt = fmt.Sprintf("%s:%d", addressOf(1), backendPort)

// unhealthy takes away what the address leads to, while its machine is well.
func (y *yard) unhealthy(ctx context.Context, name string, s syscall.Signal) ([]Row, error) {
	a, err := y.arena(3)
	if err != nil {
		return nil, err
	}
	defer a.close()
	ca, err := pki.NewAuthority(a.path("pki"), "vip-bench", time.Now())
	if err != nil {
		return nil, err
	}
	files, err := ca.Issue(a.path("pki/ready"), "kubernetes", addressOf(1))
	if err != nil {
		return nil, err
	}
	rivals := []rival{gated(files), scripted(files)}
	got, err := a.bout(ctx, rivals, y.times(5), func(ctx context.Context, a *arena, r rival, k, n int) (round, error) {
		// Anywhere between two checks of either.
		if !pause(ctx, time.Duration(float64(k)/float64(n)*float64(3*time.Second))) {
			return round{}, ctx.Err()
		}
		begun := time.Now()
		if err := a.running[1][0].signal(s); err != nil {
			return round{}, err
		}
		one, err := a.watch(ctx, r, begun, 30*time.Second, 500*time.Millisecond)
		// The machine goes on answering: it is the service that is away.
		one.took = nil
		for _, m := range one.seen.Moves {
			if m.To > 1 && one.took == nil {
				after := ms(m.After)
				one.took = &after
			}
		}
		return one, err
	})
	if err != nil {
		return nil, err
	}
	ours, theirs := tookOf(got[0]), tookOf(got[1])
	return []Row{
		within(name, "ms", middle(ours), unhealthyBar,
			fmt.Sprintf("until another machine answers, median of %d, default check of /readyz over TLS; worst %s ms, peer %s ms; the peer's script every 3 s, fall 3, rise 2, timeout 2 s, adverts 1 s; %s",
				len(ours), figure(last(ours), ""), figure(last(theirs), ""), load())).against(rivals[1].name, middle(theirs)),
		staleRow(name+"-stale", rivals, got),
	}, nil
}

// serving starts the stand-in before what looks at it.
func (r rival) serving(files pki.Files) rival {
	start := r.start
	r.start = func(a *arena, i int) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		state, err := a.write("ok", "state-%d", i)
		if err != nil {
			return err
		}
		err = a.enlist(i, "ready", self, backendRole, "--kind", "tls", "--address", readyAt, "--number", fmt.Sprint(i),
			"--state", state, "--cert", files.ServerCert, "--key", files.ServerKey)
		if err != nil {
			return err
		}
		return start(a, i)
	}
	return r
}

func gated(files pki.Files) rival {
	return ourVRRP(endInterval, fmt.Sprintf("    health: [{name: apiserver, kind: https, address: %q, path: /readyz, serverName: kubernetes, ca: %q}]\n",
		readyAt, filepath.Clean(files.CA))).serving(files)
}

// scripted is keepalived with the timers that its guides for apiservers have.
func scripted(files pki.Files) rival {
	script := fmt.Sprintf(`vrrp_script ready {
  script "/usr/bin/curl --silent --fail --output /dev/null --max-time 2 --cacert %s https://%s/readyz"
  interval 3
  timeout 3
  fall 3
  rise 2
}
`, files.CA, readyAt)
	r := keepalived(time.Second, script, "  track_script {\n    ready\n  }").serving(files)
	r.settle += 6 * time.Second
	return r
}
