package scenario

import (
	"strings"
	"testing"
	"time"
)

func TestSlowDiskMistakesGetOneLine(t *testing.T) {
	const cut = "cuts: [{from: a, to: b}]"
	for _, tc := range []struct{ name, fault, want string }{
		{"no time", "slowDisk: [main/a]", "sync: 0s; choose 50ms to 30s"},
		{"too long", "slowDisk: [main/a], sync: 1m", "sync: 1m0s; choose 50ms to 30s"},
		{"nobody's", cut + ", sync: 1s", "sync: 1s of nobody's disk; add slowDisk: [main/SITE]"},
		{"a site", "slowDisk: [a], sync: 1s", `slowDisk: "a" is no member; write CLUSTER/SITE, such as main/a`},
		{"an agent", "slowDisk: [agent:main/a], sync: 1s", `slowDisk: "agent:main/a" is no member; write CLUSTER/SITE, such as main/a`},
		{"unknown", "slowDisk: [main/z], sync: 1s", `slowDisk: site of main/z: "z" is unknown; choose one of a, b, c`},
	} {
		_, err := Parse("x.yaml", []byte(strings.Replace(small, cut, tc.fault, 1)))
		if want := "x.yaml: variants[0]: faults[0]: " + tc.want; err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, want)
		}
	}
}

func TestDiskWindow(t *testing.T) {
	c := mustCase(t, "slow-disk", "main")
	if !c.HasSlowDisks() {
		t.Error("no member's disk can be slowed")
	}
	w, err := c.TimersOf("main").Window("disk-left")
	if err != nil {
		t.Fatal(err)
	}
	if w.Min != 15*time.Second || w.Max != 36386*time.Millisecond {
		t.Errorf("[%s, %s]; %v", w.Min, w.Max, w.Why)
	}
	if mustCase(t, "partial-split", "main").HasSlowDisks() {
		t.Error("the disks of a split can be slowed, which costs every sync something")
	}
}
