package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// TestIPv6 runs the main job with etcd and agents on IPv6 alone.
func TestIPv6(t *testing.T) {
	c := bare(t, "3.6")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, site := range sites {
		m := c.member(site)
		argv := m.Argv()
		for i := range argv {
			argv[i] = c.sixth(argv[i])
		}
		c.spawn(m, "etcd6-"+site, argv)
	}
	for _, site := range sites {
		m := c.member(site)
		pki := m.PKI()
		c.agents[site] = c.spawn(m, "agent6-"+site, []string{
			self, "leader", "run", "--endpoint", c.sixth(m.ClientURL()), "--zone", site, "--zones", "a,b,c",
			"--ca", pki.CA, "--cert", pki.ClientCert, "--key", pki.ClientKey,
			"--peer-ca", pki.CA, "--peer-cert", pki.PeerCert, "--peer-key", pki.PeerKey,
			"--mesh-listen", c.sixth(m.Node().IP().String() + ":2384"), "--log-format", "json",
		})
	}
	c.settled()
	lead, err := c.status("a")
	if err != nil {
		t.Fatal(err)
	}
	from := strings.TrimSuffix(lead.Leader, "1")
	others := strings.Replace("abc", from, "", 1)
	c.cut(lab.Cut{From: from, To: others[:1]})
	c.until("leadership moves to who sees all", patience, func() error {
		s, err := c.status(others[1:])
		if err == nil && s.Leader != others[1:]+"1" {
			err = fmt.Errorf("%s leads", s.Leader)
		}
		return err
	})
}

// sixth replaces every IPv4 address of a node by its IPv6 one.
func (c *cluster) sixth(s string) string {
	for _, n := range c.lab.Nodes() {
		s = strings.ReplaceAll(s, n.IP().String()+":", "["+n.IP6().String()+"]:")
	}
	return s
}

// spawn runs a program beside a member and keeps what it says.
func (c *cluster) spawn(m *lab.Member, name string, argv []string) *agent {
	c.t.Helper()
	log := &buffer{}
	child, err := m.Node().Spawn(c.t.Context(), lab.Process{
		Name: name, Argv: argv, Env: append(os.Environ(), asAgent+"=1"), Stdout: log, Stderr: log,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return &agent{child, log}
}
