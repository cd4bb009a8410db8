package kubeapi

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Config says where the API is and who asks. The zero value of a field means
// that it is not given; data wins over the file of the same name.
type Config struct {
	// Server is the URL of the API: "https://10.0.0.1:6443". http is accepted
	// only for loopback without credentials, as kubectl proxy offers it.
	Server string
	// ServerName is the name that the server's certificate must be valid
	// for; empty means the host of Server.
	ServerName string
	// CAFile and CAData are PEM certificates the server is verified with;
	// none means the roots of the system.
	CAFile string
	CAData []byte
	// CertFile and KeyFile, or CertData and KeyData, are the client's own.
	CertFile, KeyFile string
	CertData, KeyData []byte
	// Token is sent as a bearer token. TokenFile is read at each request and
	// wins over Token while it can be read and is not empty.
	Token, TokenFile string
	// Namespace is the one that the credentials are at home in; may be empty.
	Namespace string
	// Dial replaces how connections are made, e.g. to go through a balancer;
	// nil means net.Dialer. It is given the host and port of Server.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// AnyServer says that Dial leads to any API server of the cluster: then a
	// certificate for ClusterName is as good as one for the host of Server.
	AnyServer bool
	// Servers are the URLs of several API servers of one cluster, the preferred
	// one first; where it is not empty, Server is not asked. Each is verified
	// by its own host, or as AnyServer and ServerName say.
	Servers []string
	// Attempt bounds how long one server is given to answer one request; 0
	// means 2.5 s where there are several and 15 s where there is one.
	Attempt time.Duration

	// turn is shared by the clients of one Cluster.
	turn *turn
}

// ClusterName is a name that the certificate of every API server of a cluster
// is valid for: pods reach them by it, and kubeadm, k3s, RKE2 and Talos issue
// them so. Their addresses, in contrast, differ from server to server.
const ClusterName = "kubernetes.default.svc"

// String names the server and the kind of credentials, never a secret.
func (c Config) String() string {
	with := "anonymously"
	switch {
	case c.hasCert() && c.hasToken():
		with = "with a client certificate and a token"
	case c.hasCert():
		with = "with a client certificate"
	case c.hasToken():
		with = "with a token"
	}
	if len(c.Servers) > 0 {
		return strings.Join(c.Servers, ", ") + " " + with
	}
	return c.Server + " " + with
}

// GoString keeps secrets out of %#v as well.
func (c Config) GoString() string { return "kubeapi.Config{" + c.String() + "}" }

func (c Config) hasCert() bool  { return c.CertFile != "" || len(c.CertData) > 0 }
func (c Config) hasToken() bool { return c.Token != "" || c.TokenFile != "" }

// servers returns the servers that are asked, each as a configuration of its own.
func (c Config) servers() []Config {
	if len(c.Servers) == 0 {
		return []Config{c}
	}
	var all []Config
	for _, s := range c.Servers {
		one := c
		one.Server, one.Servers = s, nil
		all = append(all, one)
	}
	return all
}

// attempt is how long one server is given.
func (c Config) attempt() time.Duration {
	switch {
	case c.Attempt > 0:
		return min(c.Attempt, requestTimeout)
	case len(c.Servers) > 1:
		return attemptTimeout
	}
	return requestTimeout
}

// base returns the parsed Server.
func (c Config) base() (*url.URL, error) {
	u, err := url.Parse(c.Server)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		return nil, fmt.Errorf("server %q: not a URL; write https://HOST:PORT", c.Server)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("server of host %q: a URL with user, query or fragment; write https://HOST:PORT", u.Host)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	switch {
	case u.Scheme == "https":
		return u, nil
	case u.Scheme != "http":
		return nil, fmt.Errorf("server %q: scheme is not https; write https://HOST:PORT", c.Server)
	case c.hasCert() || c.hasToken():
		return nil, fmt.Errorf("server %q: credentials would travel in the clear; write https://HOST:PORT", c.Server)
	case !loopback(u.Hostname()):
		return nil, fmt.Errorf("server %q: plain http to another machine; write https://HOST:PORT", c.Server)
	}
	return u, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
