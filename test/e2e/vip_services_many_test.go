package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestVIPServicesMany has a hundred Services, and measures what that costs: private
// memory and processor of an agent, writes to the API, and changes of the kernel's
// rules, which hold up kube-proxy.
func TestVIPServicesMany(t *testing.T) {
	nightly(t)
	const many = 100
	w, o := newWire(t, 3), newObjects()
	kubeconfig := w.serve(o)
	for i := range many {
		name := fmt.Sprintf("s%03d", i)
		o.put(wireServices+name, exposed(name, "Cluster", nil))
	}
	begun := time.Now()
	for i := 1; i <= 3; i++ {
		w.startMany(i, kubeconfig)
	}
	held := func() (n, spread int) {
		for i := 1; i <= 3; i++ {
			own := 0
			if s := w.servicesStatus(i); s != nil {
				for _, a := range s.Addresses {
					if a.State == "active" {
						own++
					}
				}
			}
			if n += own; own > 0 {
				spread++
			}
		}
		return n, spread
	}
	w.await("every address is answered for", time.Minute, func() bool { n, _ := held(); return n == many })
	t.Logf("%d Services are answered for %s after three agents began", many, time.Since(begun).Round(10*time.Millisecond))
	if n, spread := held(); n != many || spread != 3 {
		t.Errorf("%d addresses on %d machines", n, spread)
	}

	const watched = 20 * time.Second
	services, leases, cpu := len(o.written("/api/v1/services")), len(o.written(wireLeases)), w.processor(1)
	from := time.Now()
	w.await("a while", watched+time.Second, func() bool { return time.Since(from) > watched })
	took := time.Since(from).Seconds()
	if n := len(o.written("/api/v1/services")) - services; n > 0 {
		t.Errorf("%d writes to Services at rest", n)
	}
	if n, _ := held(); n != many {
		t.Errorf("%d addresses are held after a while", n)
	}
	t.Logf("at rest: %.0f writes a second to Leases; an agent takes %.1f %% of a processor; %s",
		float64(len(o.written(wireLeases))-leases)/took, 100*(w.processor(1)-cpu).Seconds()/took, w.weight(1))
}

// startMany is startServices with a pool of hundreds.
func (w *wire) startMany(i int, kubeconfig string) {
	w.t.Helper()
	w.pool = "192.0.2.100-192.0.2.239"
	w.startServices(i, kubeconfig, "")
}

// processor is the time that an agent has had.
func (w *wire) processor(i int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.running[i].cmd.Process.Pid))
	if err != nil {
		w.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	var user, system int64
	_, _ = fmt.Sscan(fields[11], &user)
	_, _ = fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// weight is the private memory of an agent, and VmRSS beside it.
func (w *wire) weight(i int) string {
	_, text := (&edge{wire: w}).memory(i)
	return text
}
