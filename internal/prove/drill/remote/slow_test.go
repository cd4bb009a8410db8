package remote

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// slowCase is a way between a and b that is slow as told.
func slowCase(s scenario.Slow) *scenario.Case {
	s.From, s.To = "a", "b"
	return &scenario.Case{Scenario: "slow", Phases: scenario.Phases{Hold: 10e9}, Faults: []scenario.Step{{Name: "far", Slow: []scenario.Slow{s}}}}
}

// newSlowHost is a host with a device towards its peers.
func newSlowHost(t *testing.T, s scenario.Slow) *host {
	t.Helper()
	h := newHost(t)
	p, err := Build(slowCase(s), inventory(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	h.p = p
	h.want("make a device", h.sh("ip link add wan type veth peer name other && ip link set wan up && ip link set other up && ip addr add 10.0.1.10/8 dev wan && ip addr add fd00::1/16 dev wan nodad && tc qdisc add dev wan clsact && echo made"), "made")
	return h
}

func (h *host) queues() string {
	h.t.Helper()
	out, err := exec.CommandContext(h.t.Context(), "tc", "qdisc", "show", "dev", "wan").CombinedOutput()
	if err != nil {
		h.t.Fatal(err)
	}
	return string(out)
}

func TestASlowHostIsLeftAsItWas(t *testing.T) {
	h := newSlowHost(t, scenario.Slow{Loss: 0.1, Mbit: 5})
	before := h.queues()
	ops := h.p.of("cp-a")
	h.want("look", h.sh(looking(h.h, ops)), "looked")
	h.want("stage", h.sh(staging(h.h, h.p)), "armed")
	if q := h.queues(); q != before {
		t.Errorf("staging changed the host: %s", q)
	}
	for range 2 {
		h.want("inject", h.sh(injecting(h.h, ops)), "injected")
		if q := h.queues(); !strings.Contains(q, "qdisc htb 4f46: root") || !strings.Contains(q, "tbf 4f47: parent 4f46:1 rate 5Mbit") || !strings.Contains(q, "clsact") {
			t.Errorf("in force: %s", q)
		}
		if r := h.rules(); !strings.Contains(r, "ip daddr 10.0.2.10 counter packets 0 bytes 0 meta priority set 4f46:1") || !strings.Contains(r, "numgen random mod 100000 < 10000 counter") {
			t.Errorf("in force: %s", r)
		}
		h.want("count", h.sh(counting(h.h, ops)), "counted")
		h.want("heal", h.sh(healing(h.h, ops)), "healed")
		if q := h.queues(); q != before || h.rules() != "" {
			t.Errorf("healed: %s%s", q, h.rules())
		}
	}
	h.want("inject", h.sh(injecting(h.h, ops)), "injected")
	h.want("undo", h.sh(undone(h.h)), "undone")
	h.gone()
	if q := h.queues(); q != before {
		t.Errorf("undone: %s, before: %s", q, before)
	}
}

// TestAQueueOfSomebodyElse is refused, and left alone where it comes during a drill.
func TestAQueueOfSomebodyElse(t *testing.T) {
	h := newSlowHost(t, scenario.Slow{Mbit: 5})
	ops := h.p.of("cp-a")
	h.want("theirs", h.sh("tc qdisc add dev wan root handle 7: tbf rate 1mbit burst 15000 latency 50ms && echo set"), "set")
	out := h.sh("(" + looking(h.h, ops) + ") | head -1")
	h.want("look", out, "problem: device wan has a queueing discipline that somebody set (tbf 7:), which an undo could not bring back; remove it, or drill another host")
	h.want("none", h.sh("tc qdisc del dev wan root && echo gone"), "gone")
	h.want("stage", h.sh(staging(h.h, h.p)), "armed")
	h.want("inject", h.sh(injecting(h.h, ops)), "injected")
	h.want("replace", h.sh("tc qdisc replace dev wan root handle 7: tbf rate 1mbit burst 15000 latency 50ms && echo set"), "set")
	h.want("undo", h.sh(undone(h.h)), "undone")
	h.gone()
	if q := h.queues(); !strings.Contains(q, "tbf 7: root") {
		t.Errorf("the undo removed what is not ours: %s", q)
	}
}

// TestAnUndoThatFailsIsTriedAgain keeps the mark of what could not be taken back.
func TestAnUndoThatFailsIsTriedAgain(t *testing.T) {
	h := newSlowHost(t, scenario.Slow{Mbit: 5})
	h.want("stage", h.sh(staging(h.h, h.p)), "armed")
	h.want("inject", h.sh(injecting(h.h, h.p.of("cp-a"))), "injected")
	// A tc that can only show.
	broken := "tc() { case \"$*\" in *del*) return 1 ;; *) command tc \"$@\" ;; esac; }; set --; . " + h.h.Dir + "/undo.sh"
	h.want("undo with a broken tc", h.sh(broken), "undo is not complete; "+h.h.Dir+" is kept")
	h.want("undo", h.sh(undone(h.h)), "undone")
	h.gone()
	if q := h.queues(); strings.Contains(q, "htb") {
		t.Errorf("left: %s", q)
	}
}

func TestAKernelWithoutNetemIsNamed(t *testing.T) {
	h := newSlowHost(t, scenario.Slow{Delay: 5e7})
	if h.sh("unshare -n tc qdisc add dev lo root netem delay 1ms && echo has") == "has" {
		h.want("look", h.sh(looking(h.h, h.p.of("cp-a"))), "looked")
		return
	}
	h.want("look", h.sh("("+looking(h.h, h.p.of("cp-a"))+") | head -1"),
		"problem: the kernel cannot slow packets down (netem, htb): load sch_netem and sch_htb (their package may be linux-modules-extra or kernel-modules-extra), or give loss and mbit without delay and jitter")
}

func TestTwoSlowWaysAtOnceAreRefused(t *testing.T) {
	c := slowCase(scenario.Slow{Mbit: 5})
	c.Faults = append(c.Faults, scenario.Step{Name: "too", At: 2e9, Slow: []scenario.Slow{{From: "a", To: "c", Mbit: 5}}})
	if _, err := Build(c, inventory(t), 0); err == nil || !strings.Contains(err.Error(), "host cp-a is an end of two slow ways at once (also of far)") {
		t.Error(err)
	}
	c.Faults[0].For = 2e9
	if _, err := Build(c, inventory(t), 0); err != nil {
		t.Error(err)
	}
}

func TestCounters(t *testing.T) {
	seen, taken := counters(`table inet holdfast_drill_1 {
	chain leave {
		ip daddr 10.0.2.10 counter packets 7 bytes 420 meta priority set 4f46:1
	}
	chain lose {
		numgen random mod 100000 < 10000 counter packets 2 bytes 120 drop
		counter packets 1 bytes 60 reject with icmpx admin-prohibited
		counter packets x bytes 60 drop
		counter packets
	}
}`)
	if seen != 7 || taken != 3 {
		t.Errorf("seen %d, taken %d", seen, taken)
	}
}

func TestARoundTripThatWasAddedShows(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		before, took, added time.Duration
		want                bool
	}{
		{ms, 101 * ms, 100 * ms, true}, {ms, 50 * ms, 100 * ms, false}, {2 * ms, ms, 0, true}, {2 * ms, ms, 100 * ms, false},
	} {
		if shows(tc.before, tc.took, tc.added) != tc.want {
			t.Errorf("%+v", tc)
		}
	}
}
