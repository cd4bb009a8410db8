package haproxy

import (
	"strings"
)

// httpchk takes "option httpchk [METHOD] [URI [VERSION]]"; with one word it is
// the URI (manual, option httpchk).
func (r *reader) httpchk(p *proxy, l line) {
	args := l.words[2:]
	uri := ""
	switch len(args) {
	case 0:
	case 1:
		uri = args[0]
	default:
		r.method(l, args[0])
		uri = args[1]
		if rest := strings.Join(args[2:], " "); strings.ContainsAny(rest, "\r\n") {
			r.notes.add(l.number, "option httpchk", "headers of the request are not carried over")
		}
	}
	p.check.on = true
	p.check.path = "/"
	if uri != "" {
		r.path(p, l, uri)
	}
}

func (r *reader) path(p *proxy, l line, uri string) {
	if !strings.HasPrefix(uri, "/") || strings.ContainsAny(uri, " \t\r\n") {
		r.notes.add(l.number, clip(l.String()), "%q is not a path; / is taken", clip(uri))
		uri = "/"
	}
	p.check.path = uri
}

// method: every check here is a GET.
func (r *reader) method(l line, method string) {
	if method != "GET" {
		r.notes.add(l.number, clip(l.String()), "checks ask with GET, not %s", clip(method))
	}
}

// httpRule takes "http-check send|expect|connect …".
func (r *reader) httpRule(p *proxy, l line) {
	switch l.word(1) {
	case "send":
		r.httpSend(p, l)
	case "connect":
		r.httpConnect(p, l)
	case "expect":
		r.httpExpect(l)
	default:
		r.notes.add(l.number, clip(l.String()), "a rule without equal here")
	}
}

func (r *reader) httpSend(p *proxy, l line) {
	for i := 2; i < len(l.words); i++ {
		value := l.word(i + 1)
		switch l.words[i] {
		case "meth":
			r.method(l, value)
		case "uri":
			r.path(p, l, value)
		case "ver":
		case "hdr":
			r.notes.add(l.number, "http-check send: hdr", "headers of the request are not carried over")
			i++
		default:
			r.notes.add(l.number, "http-check send: "+clip(l.words[i]), "only method and path are carried over")
		}
		i++
	}
}

func (r *reader) httpConnect(p *proxy, l line) {
	for i := 2; i < len(l.words); i++ {
		switch l.words[i] {
		case "default", "linger":
		case "ssl":
			p.check.tls = true
		case "sni":
			i++
			p.check.name = l.word(i)
		default:
			r.notes.add(l.number, "http-check connect: "+clip(l.words[i]), "checks go to the address that serves")
			i++
		}
	}
}

// httpExpect is silent when the rule says what holds here anyway: 200 is good.
func (r *reader) httpExpect(l line) {
	words := l.words[2:]
	for len(words) > 1 && words[0] != "!" && words[0] != "status" {
		if !strings.HasPrefix(words[0], "min-recv") && !strings.HasSuffix(words[0], "-status") && !strings.HasPrefix(words[0], "on-") && words[0] != "comment" {
			break
		}
		words = words[2:]
	}
	if len(words) == 2 && words[0] == "status" && (words[1] == "200" || words[1] == "200-299" || words[1] == "200-399") {
		return
	}
	r.notes.add(l.number, clip(l.String()), "200 is ready; 401 and 403 to a check without credentials are alive; all else is not ready")
}
