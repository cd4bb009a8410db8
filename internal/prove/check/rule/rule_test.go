package rule

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

func TestEffectsSpeakOfWindows(t *testing.T) {
	for want, e := range map[string]Effect{
		"losing b: a third of new connections fail for 5–25 s":         Lasts("losing b", "a third of new connections fail", scenario.EndpointLease()),
		"losing b: it fails for 600–900 ms":                            Lasts("losing b", "it fails", scenario.BFD(3, 300*time.Millisecond)),
		"losing b: it fails for 15.4 min":                              Lasts("losing b", "it fails", scenario.Retransmitted()),
		"losing b: it fails for 2.6–3.6 s":                             Lasts("losing b", "it fails", scenario.Adverts(time.Second, 100)),
		"losing b: it fails, as long as it lasts; no detector ends it": Unending("losing b", "it fails"),
		"": {},
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSeveritiesAreRead(t *testing.T) {
	for _, s := range []Severity{Note, Warning, Error} {
		if got, err := ParseSeverity(s.String()); err != nil || got != s {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	if _, err := ParseSeverity("high"); err == nil {
		t.Error("high was accepted")
	}
}
