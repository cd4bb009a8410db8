package source

import (
	"bytes"
	"regexp"
)

// secret matches a credential after its name, in the settings of any program that
// NodeFiles names: YAML, haproxy.cfg, keepalived.conf, frr.conf, and assignments.
var secret = regexp.MustCompile(`(?i)(["']?\b(?:[\w-]*token|[\w-]*password|passwd|secret|psk|auth_pass|client-key-data|client-certificate-data|tls-private-key|key-data|[\w-]*encryptionSecret|bearer)["']?\s*[:= \t]\s*)("[^"]*"|'[^']*'|[^\s,}]+)`)

// address credentials are in URLs (user:password@) and in "stats auth user:password".
var (
	userinfo  = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)
	statsAuth = regexp.MustCompile(`(?i)(\bstats\s+auth\s+[^:\s]+:)\S+`)
	// peers of kube-vip: address:AS:password:multihop.
	bgpPeers = regexp.MustCompile(`((?:\d+\.){3}\d+:\d+:)[^:,\s"']+(:)`)
)

const redacted = "REDACTED"

// redact takes the values of credentials out of a file of settings. Lines keep
// their numbers.
func redact(data []byte) []byte {
	lines := bytes.Split(data, []byte("\n"))
	inKey := false
	for i, line := range lines {
		begins := bytes.Contains(line, []byte("-----BEGIN")) && bytes.Contains(line, []byte("PRIVATE KEY"))
		if begins || inKey {
			inKey = !bytes.Contains(line, []byte("-----END"))
			lines[i] = []byte(redacted)
			continue
		}
		line = secret.ReplaceAll(line, []byte("${1}"+redacted))
		line = userinfo.ReplaceAll(line, []byte("${1}"+redacted+"@"))
		line = statsAuth.ReplaceAll(line, []byte("${1}"+redacted))
		lines[i] = bgpPeers.ReplaceAll(line, []byte("${1}"+redacted+"${2}"))
	}
	return bytes.Join(lines, []byte("\n"))
}
