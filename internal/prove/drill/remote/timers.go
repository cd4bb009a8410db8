package remote

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Timers are what was read off the processes of the hosts' units.
type Timers struct {
	// Election is the election timeout of every etcd that runs, 0 where it is not known.
	Election time.Duration
	// Found is what each host said, by host and unit.
	Found map[string]string
	// Unknown says in words why Election is 0.
	Unknown string
}

// ReadTimers asks every host that has units for the command lines of their processes.
// It changes nothing. A host that does not answer is an error.
func ReadTimers(ctx context.Context, inv *Inventory) (Timers, error) {
	var mu sync.Mutex
	t := Timers{Found: map[string]string{}}
	err := each(inv.Hosts, func(h Host) error {
		if len(h.Units) == 0 {
			return nil
		}
		s, err := dial(ctx, h, inv.KnownHosts)
		if err != nil {
			return err
		}
		defer func() { _ = s.client.Close() }()
		out, err := s.run(ctx, reading(h), "read")
		if err != nil {
			return fmt.Errorf("read timers: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for unit, d := range elections(out) {
			t.Found["timers of "+h.Name+" "+unit] = fmt.Sprintf("election timeout %v", d)
			t.take(d)
		}
		return nil
	})
	if t.Election == 0 && t.Unknown == "" {
		t.Unknown = "no unit of the inventory runs etcd"
	}
	return t, err
}

// take keeps an election timeout that all members share.
func (t *Timers) take(d time.Duration) {
	switch {
	case t.Unknown != "":
	case t.Election == 0:
		t.Election = d
	case t.Election != d:
		t.Unknown = fmt.Sprintf("members of etcd have the election timeouts %v and %v", t.Election, d)
		t.Election = 0
	}
}

// reading prints, for each unit, its name and the arguments of its process one a line.
// Of the environment, which may hold secrets, only two variables are read.
func reading(h Host) string {
	var b strings.Builder
	head(&b, h)
	for _, unit := range h.unitNames() {
		fmt.Fprintf(&b, `pid=$(systemctl show -p MainPID --value %[1]s 2>/dev/null)
if [ "${pid:-0}" != 0 ]; then
	echo "unit %[1]s"
	tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -E '^ETCD_(ELECTION_TIMEOUT)='
	tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null
fi
`, unit)
	}
	b.WriteString("echo read\n")
	return b.String()
}

// elections finds the election timeouts of those units that run etcd, which takes
// milliseconds. A flag wins over the environment, and --config-file over both: what
// stands there is not read, and the unit is left out.
func elections(out string) map[string]time.Duration {
	found := map[string]time.Duration{}
	for part := range strings.SplitSeq("\n"+out, "\nunit ") {
		lines := strings.Split(strings.TrimSpace(part), "\n")
		etcd, file, ms := false, false, ""
		for i, l := range lines[1:] {
			flag, value, given := strings.Cut(strings.TrimLeft(l, "-"), "=")
			if !given && i+2 < len(lines) {
				value = lines[i+2]
			}
			switch {
			case strings.HasPrefix(l, "ETCD_ELECTION_TIMEOUT="):
				ms = value
			case l == "etcd" || strings.HasSuffix(l, "/etcd"):
				etcd = true
			case flag == "election-timeout":
				ms = value
			case flag == "config-file":
				file = true
			}
		}
		if n, err := strconv.Atoi(ms); etcd && !file && err == nil && n > 0 && n <= 50_000 {
			found[lines[0]] = time.Duration(n) * time.Millisecond
		} else if etcd && !file && ms == "" {
			found[lines[0]] = scenario.DefaultElection
		}
	}
	return found
}
