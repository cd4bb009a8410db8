package bgp

import (
	"strings"
	"testing"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/holdfast-ha/holdfast/internal/address/bfd"
)

func TestEveryCauseIsOneLine(t *testing.T) {
	for _, k := range Kinds {
		c := Cause{Kind: k, Text: "text", AS: 65001, Seconds: 9}
		if s := c.String(); s == "" || strings.Contains(s, "\n") {
			t.Errorf("%s: %q", k, s)
		}
	}
	if (Cause{}).String() != "" {
		t.Error("no cause has words")
	}
}

func TestSilenceIsExplained(t *testing.T) {
	for _, c := range []struct {
		password, alive bool
		want            string
	}{
		{false, false, "it is away, filtered, or wants a password"},
		{true, false, "it is away, or the password is not the router's"},
		{false, true, "BFD hears it; the router wants a password"},
		{true, true, "BFD hears it; the password is not the router's"},
	} {
		got := Cause{Kind: NoAnswer, Password: c.password, Alive: c.alive}.String()
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestNotificationsInWords(t *testing.T) {
	for _, c := range []struct {
		code, subcode uint8
		data          []byte
		kind          Kind
		text          string
	}{
		{2, 2, nil, RefusedAS, "refuses AS 65010"},
		{2, 3, nil, SameID, "same router identifier"},
		{2, 6, nil, Refused, "the peer refuses"},
		{4, 0, nil, Reset, "anew"},
		{6, 1, nil, Refused, "the peer refuses"},
		{6, 2, communication("maintenance"), Shutdown, `"maintenance"`},
		{6, 2, []byte{200, 'x'}, Shutdown, "was shut down"},
		{6, 3, nil, Shutdown, "was shut down"},
		{6, 4, nil, Reset, "anew"},
		{6, 10, nil, Reset, "anew: its BFD says down"},
	} {
		n := &packet.BGPNotification{ErrorCode: c.code, ErrorSubcode: c.subcode, Data: c.data}
		got := told(n, testConfig())
		if got.Kind != c.kind || !strings.Contains(got.String(), c.text) {
			t.Errorf("%d/%d: got %s: %s", c.code, c.subcode, got.Kind, got)
		}
	}
}

// TestFailedPath is RFC 5882 section 3.2 and what FRR makes of its sessions.
func TestFailedPath(t *testing.T) {
	for _, c := range []struct {
		name   string
		change bfd.Change
		want   bool
	}{
		{"silence", bfd.Change{From: bfd.Up, To: bfd.Down, Diag: bfd.DiagDetectionExpired, Remote: bfd.Up}, true},
		{"the peer does not hear us", bfd.Change{From: bfd.Up, To: bfd.Down, Diag: bfd.DiagNeighborDown, Remote: bfd.Down, RemoteDiag: bfd.DiagDetectionExpired}, true},
		{"the peer begins anew", bfd.Change{From: bfd.Up, To: bfd.Down, Diag: bfd.DiagNeighborDown, Remote: bfd.Down}, false},
		{"FRR makes the session anew", bfd.Change{From: bfd.Up, To: bfd.Down, Diag: bfd.DiagNeighborDown, Remote: bfd.Down, RemoteDiag: bfd.DiagNeighborDown}, false},
		{"put away", bfd.Change{From: bfd.Up, To: bfd.Down, Diag: bfd.DiagNeighborDown, Remote: bfd.AdminDown, RemoteDiag: bfd.DiagAdminDown}, false},
		{"never up", bfd.Change{From: bfd.Init, To: bfd.Down, Diag: bfd.DiagDetectionExpired}, false},
	} {
		if got := c.change.Lost(); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}
