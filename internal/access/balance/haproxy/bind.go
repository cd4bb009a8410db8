package haproxy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// bindReasons say why a parameter of bind has no equal; all take one word.
var bindReasons = map[string]string{
	"maxconn": "limits are of the whole frontend (maxConns)", "interface": "listen on the address of that interface instead",
	"namespace": "start the balancer in that namespace", "mss": becauseTune, "backlog": becauseTune, "nice": becauseTune, "process": becauseTune,
	"thread": becauseTune, "shards": becauseTune, "tcp-ut": "the user timeout is userTimeout of the frontend", "level": becauseStats,
	"user": "the socket belongs to the balancer's user", "group": "the socket belongs to the balancer's group", "mode": "the socket has the mode that the umask gives it",
	"uid": "the socket belongs to the balancer's user", "gid": "the socket belongs to the balancer's group",
}

// bindSilent are parameters without effect on what is balanced, by how many
// words follow.
var bindSilent = map[string]int{"name": 1, "id": 1, "v4v6": 0, "tfo": 0, "defer-accept": 0}

// tlsWithValue are the parameters of a TLS listener that a word follows.
var tlsWithValue = map[string]bool{
	"crt": true, "crt-list": true, "ca-file": true, "ca-verify-file": true, "crl-file": true, "verify": true, "alpn": true, "npn": true, "ciphers": true, "ciphersuites": true,
	"curves": true, "ecdhe": true, "ssl-min-ver": true, "ssl-max-ver": true, "ca-ignore-err": true, "crt-ignore-err": true, "tls-ticket-keys": true, "proto": true,
	"ca-sign-file": true, "ca-sign-pass": true, "ca-sign-use-chain": true, "sigalgs": true,
}

// bind takes the addresses of one line.
func (r *reader) bind(p *proxy, l line) {
	b := bind{number: l.number}
	for i := 2; i < len(l.words); i++ {
		word := l.words[i]
		skip, quiet := bindSilent[word]
		switch {
		case quiet:
			i += skip
		case word == "accept-proxy":
			b.proxied = true
		case word == "transparent":
			b.transparent = true
		case word == "ssl":
			b.tls = true
		case word == "v6only":
			r.notes.add(l.number, "bind: v6only", "[::] takes IPv4 as well")
		case tlsWithValue[word]:
			i++ // told with ssl
		case bindReasons[word] != "":
			r.notes.add(l.number, "bind: "+word, "%s", bindReasons[word])
			i++
		default:
			r.notes.add(l.number, "bind: "+clip(word), "a parameter without equal here")
		}
	}
	for text := range strings.SplitSeq(l.word(1), ",") {
		address, err := listen(text)
		if err != nil {
			r.notes.add(l.number, "bind "+clip(text), "%v; left out", err)
			continue
		}
		b.address = address
		p.binds = append(p.binds, b)
	}
}

// listen turns an address of bind into one of the balancer's.
func listen(text string) (string, error) {
	if path, ok := strings.CutPrefix(text, "unix@"); ok || strings.HasPrefix(text, "/") {
		if !strings.HasPrefix(path, "/") && !strings.HasPrefix(text, "/") || len(path) > 107 || strings.ContainsAny(path, "\n\r") {
			return "", fmt.Errorf("not an absolute path of at most 107 bytes")
		}
		return "unix:" + path, nil
	}
	host, port, err := hostPort(text)
	switch {
	case err != nil:
		return "", err
	case port == "":
		return "", fmt.Errorf("no port")
	}
	if host == "" || host == "*" {
		host = "0.0.0.0" // IPv4 alone (manual, bind)
	}
	return join(host, port)
}

// hostPort cuts at the last colon, as HAProxy does, so that ":::6443" is "::".
// The port may be missing.
func hostPort(text string) (host, port string, err error) {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "ipv4@"), "ipv6@")
	if kind, _, ok := strings.Cut(text, "@"); ok {
		return "", "", fmt.Errorf("%s@ has no equal here", clip(kind))
	}
	i := strings.LastIndexByte(text, ':')
	if i < 0 || strings.HasSuffix(text, "]") {
		return strings.Trim(text, "[]"), "", nil
	}
	return strings.Trim(text[:i], "[]"), text[i+1:], nil
}

func join(host, port string) (string, error) {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "", fmt.Errorf("%q is a name, not an IP address", clip(host))
	}
	if strings.Contains(port, "-") {
		return "", fmt.Errorf("a range of ports; write each port as a frontend of its own")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not a number from 1 to 65535", clip(port))
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)).String(), nil
}
