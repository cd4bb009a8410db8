package balancer

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

func backendOf(t *testing.T, text string) backend {
	t.Helper()
	f := &fact.Facts{}
	f.Files.Add(&fact.File{Node: "lb1", Path: "/etc/haproxy/haproxy.cfg", Data: []byte(text)}, fact.Location{Line: 1})
	all := apiBackends(f)
	if len(all) != 1 {
		t.Fatalf("%d backends in %s", len(all), text)
	}
	return all[0]
}

const server = "server a 10.0.0.11:6443 "

func TestTimesOfChecks(t *testing.T) {
	for _, tc := range []struct {
		text       string
		hung, gone time.Duration
	}{
		{"backend b\n" + server + "check\n", 8 * time.Second, 6 * time.Second},
		{"backend b\n" + server + "check inter 3s fall 3\n", 12 * time.Second, 9 * time.Second},
		{"backend b\ndefault-server inter 1s fall 2\n" + server + "check\n", 3 * time.Second, 2 * time.Second},
		{"defaults\ndefault-server inter 1s\nbackend b\n" + server + "check fall 5\n", 6 * time.Second, 5 * time.Second},
		// A check that has connected has all of timeout check, and the next one waits.
		{"defaults\ntimeout check 10s\nbackend b\n" + server + "check\n", 40 * time.Second, 6 * time.Second},
		{"backend b\ntimeout check 1s\n" + server + "check inter 3s\n", 10 * time.Second, 9 * time.Second},
		{"backend b\n" + server + "check inter x fall -1\n", 8 * time.Second, 6 * time.Second},
	} {
		b := backendOf(t, tc.text)
		if hung, gone := b.hung(b.servers[0]).Max, b.gone(b.servers[0]).Max; hung != tc.hung || gone != tc.gone {
			t.Errorf("%q: %s and %s, want %s and %s", tc.text, hung, gone, tc.hung, tc.gone)
		}
	}
}

func TestBindsOfSections(t *testing.T) {
	for line, want := range map[string]string{
		"bind *:6443":                 ":6443",
		"bind :::6443 v4v6":           ":6443",
		"bind [::]:6443 v4v6":         ":6443",
		"bind ipv4@10.0.0.1:6443":     "10.0.0.1:6443",
		"bind 10.0.0.1:1,127.0.0.1:2": "10.0.0.1:1 127.0.0.1:2",
		"bind /run/x.sock":            "",
	} {
		got := ""
		for _, x := range (section{Block: conf.HAProxy([]byte("frontend f\n" + line)).Blocks[0]}).binds() {
			if got != "" {
				got += " "
			}
			got += x.host + ":" + x.port
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestWhatAChecksAsks(t *testing.T) {
	for text, want := range map[string]struct {
		uri       string
		anonymous bool
	}{
		"backend b\noption httpchk GET /readyz\n" + server + "check check-ssl\n":                                               {"/readyz", true},
		"backend b\noption httpchk\nhttp-check send meth GET uri /healthz\n" + server + "check check-ssl\n":                    {"/healthz", true},
		"backend b\noption httpchk GET /readyz\nhttp-check expect status 200,401\n" + server + "check\n":                       {"/readyz", false},
		"backend b\noption httpchk GET /readyz\n" + server + "check check-ssl crt /x.pem\n":                                    {"/readyz", false},
		"backend b\noption httpchk GET /readyz\nhttp-check send hdr Authorization \"Bearer x\"\n" + server + "check check-ssl": {"/readyz", false},
		"backend b\n" + server + "check\n": {"", false},
	} {
		b := backendOf(t, text)
		if b.uri() != want.uri || asksAnonymously(b) != want.anonymous {
			t.Errorf("%q: %q, %t", text, b.uri(), asksAnonymously(b))
		}
	}
}
