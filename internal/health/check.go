package health

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// Kind is a kind of check.
type Kind string

const (
	// HTTPS asks a path over TLS, graded as the /readyz of a kube-apiserver.
	HTTPS Kind = "https"
	// HTTP asks a path in plain text; the expected codes are ready.
	HTTP Kind = "http"
	// TCP opens a connection. An open port proves little.
	TCP Kind = "tcp"
	// Etcd asks an etcd member whether its cluster has a leader.
	Etcd Kind = "etcd"
	// Exec runs a command; exit status 0 is ready.
	Exec Kind = "exec"
)

// Kinds are all kinds of check.
var Kinds = []Kind{HTTPS, HTTP, TCP, Etcd, Exec}

// Check says how servers are asked. The zero value of a field takes the
// default that it names.
type Check struct {
	Kind Kind
	// Path is asked by https (default /readyz) and http (default /).
	Path string
	// ServerName is the name or address that the server's certificate must be
	// valid for; default: the host that is dialled. Required for unix sockets.
	ServerName string
	// TLS names the CA and, where the server wants one, the client certificate,
	// for https and etcd. An etcd check without any file is made in plain text.
	TLS creds.Files
	// TokenFile holds a bearer token, for https; it is read again when it changes.
	TokenFile string
	// Codes are what an http check takes for ready; default 200.
	Codes []int
	// Command is run by exec, with HOLDFAST_CHECK_ADDRESS in its environment.
	Command []string
	// Preface is written to each new connection before anything else: a PROXY
	// protocol header where the server demands one.
	Preface []byte
}

// Method is an opened Check: it makes Probers that share its credentials. It
// is safe for concurrent use.
type Method struct {
	check Check
	certs *creds.Source // nil: no TLS
	token *token        // nil: none
}

// Open checks the settings and reads the credentials. Its error is one line
// that names the field or file and the remedy.
func (c Check) Open() (*Method, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	m := &Method{check: c}
	var err error
	if c.Kind == HTTPS || c.Kind == Etcd && c.TLS != (creds.Files{}) {
		if m.certs, err = creds.Open(c.TLS); err != nil {
			return nil, err
		}
	}
	if c.TokenFile != "" {
		if m.token, err = openToken(c.TokenFile); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (c Check) validate() error {
	secure := c.Kind == HTTPS || c.Kind == Etcd
	switch {
	case !slices.Contains(Kinds, c.Kind):
		return fmt.Errorf("kind: %q is not a kind of check; give one of %q", c.Kind, Kinds)
	case c.Path != "" && c.Kind != HTTPS && c.Kind != HTTP:
		return fmt.Errorf("path: %q has no meaning in a check of kind %s; leave it out", c.Path, c.Kind)
	case c.Path != "" && !isPath(c.Path):
		return fmt.Errorf("path: %q is not a path; start it with / and leave out spaces", c.Path)
	case !isName(c.ServerName):
		return fmt.Errorf("serverName: %q is neither a name nor an address; give one that is in the server's certificate", c.ServerName)
	case c.TLS != (creds.Files{}) && !secure:
		return fmt.Errorf("ca, cert, key: a check of kind %s uses no TLS; leave them out or take kind https", c.Kind)
	case c.ServerName != "" && !secure:
		return fmt.Errorf("serverName: a check of kind %s uses no TLS; leave it out or take kind https", c.Kind)
	case c.TokenFile != "" && c.Kind != HTTPS:
		return fmt.Errorf("tokenFile: a token is sent by kind https only, not %s; leave it out", c.Kind)
	case len(c.Codes) > 0 && c.Kind != HTTP:
		return fmt.Errorf("codes: only kind http takes expected codes, not %s; leave them out", c.Kind)
	case (len(c.Command) > 0) != (c.Kind == Exec):
		return fmt.Errorf("command: kind %s with the command %q; give a command for kind exec, and for no other", c.Kind, c.Command)
	}
	for _, code := range c.Codes {
		if code < 200 || code > 599 {
			return fmt.Errorf("codes: %d is not the code of an answer; give 200 to 599", code)
		}
	}
	return nil
}

func isPath(s string) bool {
	return s[0] == '/' && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// isName keeps what cannot stand in a header out of it.
func isName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' })
}

// Prober returns a Prober for one server; network and address are as for
// net.Dial. It fails if no name can be verified.
func (m *Method) Prober(network, address string) (Prober, error) {
	d := dialler{network: network, address: address, preface: m.check.Preface}
	name, host, err := m.names(network, address)
	if err != nil {
		return nil, err
	}
	if m.certs != nil {
		d.tls = m.certs.Client(name)
	}
	switch m.check.Kind {
	case TCP:
		return &tcp{dialler: d}, nil
	case Exec:
		return &command{argv: m.check.Command, address: address}, nil
	case Etcd:
		return newWeb(d, &etcd{host: host, authenticated: m.check.TLS.Cert != ""}), nil
	case HTTP:
		return newWeb(d, &page{host: host, path: orDefault(m.check.Path, "/"), codes: m.check.Codes}), nil
	default:
		return newWeb(d, &readyz{host: host, path: orDefault(m.check.Path, "/readyz"), token: m.token,
			authenticated: m.check.TLS.Cert != "" || m.token != nil}), nil
	}
}

// names returns the name to verify and the one for the Host header.
func (m *Method) names(network, address string) (name, host string, err error) {
	name = m.check.ServerName
	if network == "unix" {
		if name == "" && m.certs != nil {
			return "", "", errors.New("serverName: a unix socket has no name to verify; give the name in the server's certificate")
		}
		return name, orDefault(name, "localhost"), nil
	}
	ip, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", "", fmt.Errorf("address: %w; give host:port", err)
	}
	ip, _, _ = strings.Cut(ip, "%") // a zone is of this host only
	return orDefault(name, ip), orDefault(name, net.JoinHostPort(ip, port)), nil
}

// Err reports in one line what a person should mend about the credentials; nil
// if nothing.
func (m *Method) Err() error {
	if m.certs != nil {
		if err := m.certs.Check(); err != nil {
			return err
		}
	}
	if m.token != nil {
		return m.token.err()
	}
	return nil
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
