package drill

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// Windows are derived without a lab; they must know the lab's presets.
func TestWindowsKnowThePresets(t *testing.T) {
	for _, preset := range lab.Presets() {
		spec, err := lab.Default(preset)
		if err != nil {
			t.Fatal(err)
		}
		var longest time.Duration
		for _, l := range spec.Links {
			longest = max(longest, 2*l.Delay)
		}
		c := mustCase(t, "partial-split", "main")
		c.Lab.Preset = preset
		if got := c.TimersOf("main").RTT; got != longest {
			t.Errorf("preset %s: windows assume a round trip of %s, the lab has %s", preset, got, longest)
		}
	}
}

func TestLabSpecCarriesTheCase(t *testing.T) {
	c := mustCase(t, "partial-split", "two-clusters")
	spec, err := labSpec(c, true, "3.6", "/run/x")
	if err != nil {
		t.Fatal(err)
	}
	if spec.Peer != "3.6" || spec.Dir != "/run/x" || len(spec.Sites) != 3 || !spec.Sites[2].Witness || len(spec.Links) != 3 {
		t.Errorf("spec %+v", spec)
	}
	if len(spec.Etcd) != 2 || spec.Etcd[1].Name != "second" || spec.Etcd[1].ClientPort == spec.Etcd[0].ClientPort {
		t.Errorf("clusters %+v", spec.Etcd)
	}
}

// A lab takes shorter names than a scenario may have.
func TestLabNames(t *testing.T) {
	usable := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	for _, name := range append(scenario.Names(), strings.Repeat("a", 25)+"-b", strings.Repeat("long-", 8)+"name") {
		if got := labName(name); !usable.MatchString(got) {
			t.Errorf("scenario %s has the lab %q", name, got)
		}
	}
}
