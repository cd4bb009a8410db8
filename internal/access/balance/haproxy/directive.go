package haproxy

import (
	"net/netip"
	"strings"
)

// Reasons given more than once.
const (
	becauseLog   = "logging is set under log: {format, level}; each change of a backend is a line"
	becauseStats = "see `holdfast balance status` and /metrics"
	becauseHTTP  = "HTTP is not looked into; bytes are passed on as they come"
	becauseRules = "there are no rules; clients are routed by TLS server name alone (routes)"
	becauseTune  = "tuning of HAProxy; not needed"
)

// silent are directives that the balancer does anyway, or that say what is so
// without them.
var silent = map[string]bool{
	"mode": true, "retries": true, "enabled": true, "description": true, "id": true,
	"option redispatch": true, "option tcpka": true, "option clitcpka": true, "option srvtcpka": true,
	"option splice-auto": true, "option splice-request": true, "option splice-response": true,
	"option dontlognull": true, "option tcp-check": true, "option tcp-smart-accept": true, "option tcp-smart-connect": true,
	"option contstats": true,
}

// reasons say of a directive, or of all that begin so, why it has no equal.
var reasons = []struct{ prefix, reason string }{
	{"acl", becauseRules},
	{"use_backend", becauseRules},
	{"use-server", becauseRules},
	{"tcp-request", becauseRules},
	{"tcp-response", becauseRules},
	{"http-request", becauseHTTP},
	{"http-response", becauseHTTP},
	{"http-after-response", becauseHTTP},
	{"redirect", becauseHTTP},
	{"stick-table", "there are no tables; policy: source keeps a client on one backend"},
	{"stick", "there are no tables; policy: source keeps a client on one backend"},
	{"hash-type", "policy: source has one way of hashing"},
	{"log", becauseLog},
	{"log-", becauseLog},
	{"unique-id-", becauseLog},
	{"option tcplog", becauseLog},
	{"option httplog", becauseLog},
	{"option log-", becauseLog},
	{"option dontlog-", becauseLog},
	{"option logasap", becauseLog},
	{"stats", becauseStats},
	{"monitor", "see /healthz and /readyz of the telemetry address"},
	{"option http", becauseHTTP},
	{"option forward", becauseHTTP},
	{"option originalto", becauseHTTP},
	{"http-reuse", becauseHTTP},
	{"http-error", becauseHTTP},
	{"cookie", becauseHTTP},
	{"capture", becauseHTTP},
	{"compression", becauseHTTP},
	{"filter", becauseHTTP},
	{"errorfile", becauseHTTP},
	{"errorloc", becauseHTTP},
	{"timeout http-", becauseHTTP},
	{"timeout tarpit", becauseHTTP},
	{"timeout client-fin", "a half-closed connection has the idle timeout"},
	{"timeout server-fin", "a half-closed connection has the idle timeout"},
	{"option allbackups", "all backups serve when no other backend can"},
	{"option abortonclose", "a client that leaves while it waits is forgotten at once"},
	{"option persist", "a backend that is down gets no connections"},
	{"option ssl-hello-chk", "checks are https, http, tcp or etcd; tcp is taken"},
	{"option external-check", "checks are https, http, tcp or etcd; tcp is taken"},
	{"option ldap-check", "checks are https, http, tcp or etcd; tcp is taken"},
	{"option mysql-check", "checks are https, http, tcp or etcd; tcp is taken"},
	{"option pgsql-check", "checks are https, http, tcp or etcd; tcp is taken"},
	{"option redis-check", "checks are https, http, tcp or etcd; tcp is taken"},
	{"option smtpchk", "checks are https, http, tcp or etcd; tcp is taken"},
	{"option spop-check", "checks are https, http, tcp or etcd; tcp is taken"},
	{"tcp-check", "checks are https, http, tcp or etcd; no dialogue of one's own"},
	{"external-check", "checks are https, http, tcp or etcd; no program of one's own"},
	{"email-alert", "alert on the metrics instead"},
	{"server-template", "write the name under backends: dns"},
	{"dispatch", "write the address under backends: static"},
	{"fullconn", "limits are maxConns of the frontend and of each backend"},
	{"rate-limit", "there is no limit by rate; maxConns and maxPerClient limit the number"},
	{"backlog", becauseTune},
	{"bind-process", becauseTune},
	{"disabled", "the section is switched off there, but not here; remove what is not wanted"},
	{"option nolinger", "connections end with FIN when both sides are done; only failed ones are reset"},
	{"option", "an option without equal here"},
}

// because returns why a directive has no equal.
func because(directive string) string {
	for _, r := range reasons {
		exact := strings.HasSuffix(r.prefix, "-") || strings.HasPrefix(r.prefix, "option ")
		if directive == r.prefix || strings.HasPrefix(directive, r.prefix+" ") || exact && strings.HasPrefix(directive, r.prefix) {
			return r.reason
		}
	}
	return "has no equal here"
}

// directive takes one line of a section.
func (r *reader) directive(p *proxy, l line) {
	name := l.words[0]
	switch {
	case l.env:
		r.notes.add(l.number, clip(name), "environment variables are not expanded; write the value, then import again")
		return
	case name == "no" || name == "default":
		r.withdraw(p, l)
		return
	case name == "option":
		name += " " + l.word(1)
	}
	if checkOptions[name] {
		p.check.on = false // the last option of the kind holds
	}
	switch name {
	case "bind":
		r.bind(p, l)
	case "balance":
		r.balance(p, l)
	case "maxconn":
		r.maxConns(p, l)
	case "timeout":
		r.timeout(p, l)
	case "default_backend":
		p.use = l.word(1)
	case "use_backend":
		if len(l.words) != 2 || p.use != "" {
			r.notes.add(l.number, clip(l.String()), "%s", because(name))
			break
		}
		p.use = l.word(1)
	case "source":
		r.source(p, l)
	case "option httpchk":
		r.httpchk(p, l)
	case "http-check":
		r.httpRule(p, l)
	case "default-server":
		r.params(&p.base, l, 1)
	case "server":
		r.server(p, l)
	default:
		if !silent[name] {
			r.notes.add(l.number, clip(l.String()), "%s", because(name))
		}
	}
}

// checkOptions choose another kind of check than option httpchk.
var checkOptions = map[string]bool{
	"option tcp-check": true, "option ssl-hello-chk": true, "option ldap-check": true, "option mysql-check": true, "option pgsql-check": true,
	"option redis-check": true, "option smtpchk": true, "option spop-check": true, "option external-check": true,
}

// withdraw takes "no option X" and "default option X". Options that are not
// carried over are off here anyway.
func (r *reader) withdraw(p *proxy, l line) {
	option := l.word(1) + " " + l.word(2)
	switch {
	case option == "option httpchk":
		p.check.on = false
	case l.words[0] == "no" && silent[option] && option != "option tcp-check":
		r.notes.add(l.number, clip(l.String()), "the balancer always does this")
	}
}

func (r *reader) maxConns(p *proxy, l line) {
	n, err := number(l.word(1), 0, maxConns)
	if err != nil {
		r.notes.add(l.number, clip(l.String()), "%v", err)
	}
	p.maxConns = n
}

// balance chooses the nearest of the three policies.
func (r *reader) balance(p *proxy, l line) {
	algorithm, _, _ := strings.Cut(l.word(1), "(")
	switch algorithm {
	case "roundrobin", "leastconn", "source":
		p.balance = algorithm
	case "static-rr":
		p.balance = "roundrobin"
	case "random":
		// Two random picks, the one with fewer connections: what leastconn
		// does here.
		p.balance = "leastconn"
	default:
		p.balance = "leastconn"
		r.notes.add(l.number, clip(l.String()), "policies are leastconn, roundrobin and source; leastconn is taken")
	}
}

func (r *reader) source(p *proxy, l line) {
	text := strings.TrimSuffix(l.word(1), ":0")
	ip, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil || ip.IsUnspecified() || len(l.words) > 2 {
		r.notes.add(l.number, clip(l.String()), "only an address to connect from is carried over (sourceAddress)")
		return
	}
	p.source = ip
}
