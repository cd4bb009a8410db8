package drill

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

const (
	arbiterCluster    = "arbiter"
	arbiterClientPort = 2479
	arbiterObject     = "/pairs/drill"
	arbiterBucket     = "records"
	arbiterAccess     = "pair"
	arbiterSecret     = "known to the lab alone"
)

type pairArbiter struct {
	URL             string `yaml:"url"`
	CAFile          string `yaml:"caFile,omitempty"`
	CertFile        string `yaml:"certFile,omitempty"`
	KeyFile         string `yaml:"keyFile,omitempty"`
	CredentialsFile string `yaml:"credentialsFile,omitempty"`
}

// arbiterConfig is the file of `holdfast pair arbiter serve --config`.
type arbiterConfig struct {
	Listen       string `yaml:"listen"`
	Dir          string `yaml:"dir"`
	CertFile     string `yaml:"certFile"`
	KeyFile      string `yaml:"keyFile"`
	ClientCAFile string `yaml:"clientCAFile"`
}

// pairArbiter is where the agents find the record.
func (e *engine) pairArbiter() (pairArbiter, error) {
	m, err := e.arbiterMember()
	if err != nil {
		return pairArbiter{}, err
	}
	pki := m.PKI()
	a := pairArbiter{URL: "https://" + arbiterAddress(m) + arbiterObject, CAFile: pki.CA, CertFile: pki.ClientCert, KeyFile: pki.ClientKey}
	switch e.c.Pair.Arbiter {
	case scenario.ArbiterEtcd:
		a.URL = "etcd+" + a.URL
	case scenario.ArbiterS3:
		a.URL = "s3://" + arbiterBucket + arbiterObject + "?endpoint=https://" + arbiterAddress(m)
		a.CertFile, a.KeyFile = "", ""
		a.CredentialsFile, err = e.textFile("credentials", fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", arbiterAccess, arbiterSecret))
	}
	return a, err
}

// arbiterMember is the etcd of the third site, whose place, certificates and directory
// any arbiter has.
func (e *engine) arbiterMember() (*lab.Member, error) {
	return e.lab.Member(arbiterCluster, e.c.Pair.Site)
}

func arbiterAddress(m *lab.Member) string {
	return net.JoinHostPort(m.Node().IP().String(), strconv.Itoa(arbiterClientPort))
}

// arbiterCommand is what keeps the record.
func (e *engine) arbiterCommand() ([]string, error) {
	m, err := e.arbiterMember()
	if err != nil {
		return nil, err
	}
	switch e.c.Pair.Arbiter {
	case scenario.ArbiterEtcd:
		return m.Argv(), nil
	case scenario.ArbiterS3:
		return gatewayOfS3(m)
	}
	pki := m.PKI()
	file, err := e.configFile("arbiter.yaml", arbiterConfig{
		Listen: arbiterAddress(m), Dir: m.DataDir(), CertFile: pki.ServerCert, KeyFile: pki.ServerKey, ClientCAFile: pki.CA,
	})
	if err != nil {
		return nil, err
	}
	return []string{e.exe, "pair", "arbiter", "serve", "--config", filepath.Base(file)}, nil
}

// gatewayOfS3 is versitygw over a directory with one bucket.
func gatewayOfS3(m *lab.Member) ([]string, error) {
	program, err := lab.FindPeer("versitygw")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(m.DataDir(), arbiterBucket), 0o700); err != nil {
		return nil, fmt.Errorf("make bucket: %w", err)
	}
	return []string{
		program, "--access", arbiterAccess, "--secret", arbiterSecret, "--port", arbiterAddress(m), "--keep-alive",
		"--cert", m.PKI().ServerCert, "--key", m.PKI().ServerKey, "posix", m.DataDir(),
	}, nil
}

// awaitArbiter waits until it listens.
func (e *engine) awaitArbiter(ctx context.Context) error {
	node, err := e.nodeOf(e.c.Pair.Site)
	if err != nil {
		return err
	}
	m, err := e.arbiterMember()
	if err != nil {
		return err
	}
	listens := func() bool {
		conn, err := node.DialContext(ctx, "tcp", arbiterAddress(m))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	if !until(ctx, readyWithin, listens) {
		return fmt.Errorf("the arbiter does not listen after %s; see logs/arbiter-%s.log", readyWithin, e.c.Pair.Site)
	}
	return nil
}
