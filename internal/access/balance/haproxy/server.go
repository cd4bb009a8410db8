package haproxy

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// server is one backend, or what default-server says of all.
type server struct {
	number           int
	name, address    string
	port             string // may be missing
	weight, maxConns int
	backup, off      bool
	resetWhenDown    bool
	sendProxy        int
	slowStart        time.Duration
	checked          bool
	probe            probe
	tls              bool // towards the server, for clients' bytes
	noCA             bool // verify none, or ca-file @system-ca
}

// probe is how a server is checked, as far as that may differ among servers.
type probe struct {
	inter            time.Duration
	rise, fall       int
	tls              bool
	ca, crt, tlsName string
}

// newServer has the defaults of the manual, section 5.2.
func newServer() server {
	return server{weight: 1, probe: probe{inter: 2 * time.Second, rise: 2, fall: 3}}
}

func (r *reader) server(p *proxy, l line) {
	s := p.base
	s.number, s.name = l.number, l.word(1)
	r.params(&s, l, 3)
	host, port, err := hostPort(l.word(2))
	if err == nil && strings.HasPrefix(l.word(2), "/") {
		err = fmt.Errorf("a socket; write it under backends: static as unix:/PATH")
	}
	if err == nil {
		_, err = join(host, "1") // the port may come from bind
	}
	if err != nil {
		r.notes.add(l.number, "server "+clip(s.name), "%v; left out (names go under backends: dns)", err)
		return
	}
	s.address, s.port = host, port
	switch {
	case s.off:
		r.notes.add(l.number, "server "+clip(s.name), "disabled there; left out")
	case s.weight == 0:
		r.notes.add(l.number, "server "+clip(s.name), "weight 0, so no new connections there; left out")
	default:
		p.servers = append(p.servers, s)
	}
}

// flag sets what a parameter without value says.
var flags = map[string]func(*server){
	"check":         func(s *server) { s.checked = true },
	"no-check":      func(s *server) { s.checked = false },
	"check-ssl":     func(s *server) { s.probe.tls = true },
	"no-check-ssl":  func(s *server) { s.probe.tls = false },
	"ssl":           func(s *server) { s.tls, s.probe.tls = true, true },
	"no-ssl":        func(s *server) { s.tls = false },
	"backup":        func(s *server) { s.backup = true },
	"no-backup":     func(s *server) { s.backup = false },
	"disabled":      func(s *server) { s.off = true },
	"enabled":       func(s *server) { s.off = false },
	"send-proxy":    func(s *server) { s.sendProxy = 1 },
	"send-proxy-v2": func(s *server) { s.sendProxy = 2 },
	"no-send-proxy": func(s *server) { s.sendProxy = 0 },
}

// serverReasons say why a parameter has no equal.
var serverReasons = map[string]struct {
	values int
	reason string
}{
	"observe":              {1, "clients' own connections are always watched, too"},
	"error-limit":          {1, "clients' own connections are always watched, too"},
	"on-error":             {1, "a failure only makes the backend suspect until a check has confirmed it"},
	"on-marked-up":         {1, "connections stay; rebalance moves quiet ones back slowly"},
	"cookie":               {1, becauseHTTP},
	"minconn":              {1, "limits are fixed (maxConns)"},
	"maxqueue":             {1, "the queue is of the whole frontend (queue: {length, timeout})"},
	"port":                 {1, "checks go to the address that serves"},
	"addr":                 {1, "checks go to the address that serves"},
	"track":                {1, "each backend is checked by itself"},
	"agent-check":          {0, "there is no agent; use `holdfast balance drain`"},
	"agent-inter":          {1, "there is no agent; use `holdfast balance drain`"},
	"agent-port":           {1, "there is no agent; use `holdfast balance drain`"},
	"agent-addr":           {1, "there is no agent; use `holdfast balance drain`"},
	"agent-send":           {1, "there is no agent; use `holdfast balance drain`"},
	"source":               {1, "set sourceAddress of the frontend"},
	"resolvers":            {1, "names go under backends: dns"},
	"resolve-prefer":       {1, "names go under backends: dns"},
	"resolve-net":          {1, "names go under backends: dns"},
	"resolve-opts":         {1, "names go under backends: dns"},
	"init-addr":            {1, "names go under backends: dns"},
	"send-proxy-v2-ssl":    {0, "the PROXY header carries addresses alone; use send-proxy-v2"},
	"send-proxy-v2-ssl-cn": {0, "the PROXY header carries addresses alone; use send-proxy-v2"},
	"proxy-v2-options":     {1, "the PROXY header carries addresses alone"},
	"check-send-proxy":     {0, "checks carry no PROXY header"},
	"check-proto":          {1, "checks speak HTTP/1.1"},
	"check-alpn":           {1, "checks speak HTTP/1.1"},
	"check-via-socks4":     {0, "there is no SOCKS"},
	"socks4":               {1, "there is no SOCKS"},
	"alpn":                 {1, "clients agree on it with the backend themselves"},
	"npn":                  {1, "clients agree on it with the backend themselves"},
	"crl-file":             {1, "lists of revoked certificates are not read"},
	"ciphers":              {1, becauseTune},
	"ciphersuites":         {1, becauseTune},
	"ssl-min-ver":          {1, "checks speak TLS 1.2 or later"},
	"ssl-max-ver":          {1, "checks speak TLS 1.2 or later"},
	"tcp-ut":               {1, "the user timeout is userTimeout of the frontend"},
	"pool-max-conn":        {1, becauseHTTP},
	"pool-purge-delay":     {1, becauseHTTP},
	"pool-low-conn":        {1, becauseHTTP},
	"max-reuse":            {1, becauseHTTP},
	"proto":                {1, becauseHTTP},
	"ws":                   {1, becauseHTTP},
	"namespace":            {1, "start the balancer in that namespace"},
	"redir":                {1, becauseHTTP},
	"log-proto":            {1, becauseLog},
	"id":                   {1, ""},
	"tfo":                  {0, ""},
	"no-tfo":               {0, ""},
	"stick":                {0, ""},
	"non-stick":            {0, ""},
	"no-verifyhost":        {0, ""},
	"no-tls-tickets":       {0, ""},
	"no-ssl-reuse":         {0, ""},
	"no-sslv3":             {0, ""},
	"no-tlsv10":            {0, ""},
	"no-tlsv11":            {0, ""},
	"no-agent-check":       {0, ""},
	"no-check-send-proxy":  {0, ""},
	"no-send-proxy-v2":     {0, ""},
	"no-send-proxy-v2-ssl": {0, ""},
	"force-tlsv12":         {0, "checks speak TLS 1.2 or later"},
	"force-tlsv13":         {0, "checks speak TLS 1.2 or later"},
	"allow-0rtt":           {0, "clients agree on it with the backend themselves"},
}

// params reads the parameters of a server from word i on.
func (r *reader) params(s *server, l line, i int) {
	note := func(word, reason string) { r.notes.add(l.number, "server: "+clip(word), "%s", reason) }
	for ; i < len(l.words); i++ {
		word := l.words[i]
		if set, ok := flags[word]; ok {
			set(s)
			continue
		}
		if known, ok := serverReasons[word]; ok {
			if known.reason != "" {
				note(word, known.reason)
			}
			i += known.values
			continue
		}
		i++
		if ok, reason := r.value(s, word, l.word(i)); !ok {
			note(word, "a parameter without equal here")
			i--
		} else if reason != "" {
			note(word+" "+l.word(i), reason)
		}
	}
}

// value sets what a parameter with one value says. The reason is why the value
// was not taken, or not as it is; ok is false for an unknown parameter.
func (r *reader) value(s *server, word, value string) (ok bool, reason string) {
	var err error
	switch word {
	case "weight":
		s.weight, err = number(value, 0, 256)
	case "maxconn":
		s.maxConns, err = number(value, 0, maxConns)
	case "rise":
		s.probe.rise, err = number(value, 1, 100)
	case "fall":
		s.probe.fall, err = number(value, 1, 100)
	case "inter":
		s.probe.inter, err = within(value, 100*time.Millisecond, time.Minute)
	case "slowstart":
		s.slowStart, err = within(value, 0, time.Hour)
	case "fastinter", "downinter":
		reason = r.pace(word)
	case "ca-file":
		if s.noCA = strings.HasPrefix(value, "@"); s.noCA {
			reason = "the roots of the system do not vouch for an apiserver"
		} else {
			s.probe.ca = under(r.caBase, value)
		}
	case "crt":
		s.probe.crt = under(r.crBase, value)
	case "verify":
		s.noCA = value == "none"
	case "verifyhost", "check-sni":
		s.probe.tlsName = value
	case "sni":
		if name, plain := strings.CutPrefix(value, "str("); plain && s.probe.tlsName == "" {
			s.probe.tlsName = strings.TrimSuffix(name, ")")
		}
	case "on-marked-down":
		s.resetWhenDown = value == "shutdown-sessions"
	default:
		return false, ""
	}
	if err != nil {
		reason = err.Error()
	}
	return true, reason
}

// pace tells once for all servers that the rhythm of a suspect is fixed.
func (r *reader) pace(word string) string {
	switch told := r.paced[word]; {
	case told:
		return ""
	case word == "downinter":
		r.paced[word] = true
		return "a backend that is down is checked every 500ms"
	}
	r.paced[word] = true
	return "a suspect is checked anew at once, then every 200ms"
}

func under(base, path string) string {
	if base == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}
