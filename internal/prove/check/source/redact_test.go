package source

import (
	"strings"
	"testing"
)

func TestCredentialsAreTakenOut(t *testing.T) {
	for in, want := range map[string]string{
		"token: K10abc::server:x":             "token: REDACTED",
		"agent-token: \"a b\"  # c":           "agent-token: REDACTED  # c",
		"    client-key-data: LS0t":           "    client-key-data: REDACTED",
		" neighbor 10.0.0.1 password hunter2": " neighbor 10.0.0.1 password REDACTED",
		"  auth_pass secret42":                "  auth_pass REDACTED",
		"    stats auth admin:pw":             "    stats auth admin:REDACTED",
		"K3S_TOKEN='a b'":                     "K3S_TOKEN=REDACTED",
		"psk=abcdef":                          "psk=REDACTED",
		"http-proxy: http://u:p@h:3128/":      "http-proxy: http://u:REDACTED@h:3128/",
		`  value: "10.0.0.1:65000:pw:false"`:  `  value: "10.0.0.1:65000:REDACTED:false"`,
		`  value: "10.0.0.1:65000::false"`:    `  value: "10.0.0.1:65000::false"`,
		"tokenFile: /var/run/token":           "tokenFile: /var/run/token",
		"server a 10.0.0.1:6443 check":        "server a 10.0.0.1:6443 check",
		"a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb": "a\nREDACTED\nREDACTED\nREDACTED\nb",
		"- --token-auth-file=/etc/x":                     "- --token-auth-file=/etc/x",
		"passwords are not kept":                         "passwords are not kept",
		"  {\"token\":\"abc\",\"server\":\"https://h\"}": "  {\"token\":REDACTED,\"server\":\"https://h\"}",
	} {
		got := string(redact([]byte(in)))
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if strings.Count(got, "\n") != strings.Count(in, "\n") {
			t.Errorf("%q: lines moved", in)
		}
	}
}
