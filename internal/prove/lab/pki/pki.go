package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Lifetime is how long certificates are valid: a lab lives for hours, and a
// year (kubeadm's figure) survives a clock stepped by a drill.
const Lifetime = 365 * 24 * time.Hour

// Files are the paths of one member's TLS material.
type Files struct {
	Dir        string `json:"dir"`
	CA         string `json:"ca"`
	ServerCert string `json:"server_cert"`
	ServerKey  string `json:"server_key"`
	PeerCert   string `json:"peer_cert"`
	PeerKey    string `json:"peer_key"`
	ClientCert string `json:"client_cert"`
	ClientKey  string `json:"client_key"`
}

// In names the files that a member keeps in dir.
func In(dir string) Files {
	p := func(name string) string { return filepath.Join(dir, name) }
	return Files{
		Dir: dir, CA: p("ca.crt"),
		ServerCert: p("server.crt"), ServerKey: p("server.key"),
		PeerCert: p("peer.crt"), PeerKey: p("peer.key"),
		ClientCert: p("healthcheck-client.crt"), ClientKey: p("healthcheck-client.key"),
	}
}

// Authority signs the certificates of one cluster.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	now  time.Time
}

// NewAuthority makes an authority and leaves ca.crt and ca.key in dir, so that
// further certificates can be signed by hand. Validity starts an hour before
// now.
func NewAuthority(dir, name string, now time.Time) (*Authority, error) {
	a := &Authority{now: now}
	t := template(name, nil, now)
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate authority key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create authority certificate: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("parse authority certificate: %w", err)
	}
	a.key, a.pem = key, encode("CERTIFICATE", der)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make certificate directory: %w", err)
	}
	return a, store(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"), a.pem, key)
}

// Issue writes the files of the member called name into dir. Its server and
// peer certificates are valid for name, localhost, the loopbacks and ips.
func (a *Authority) Issue(dir, name string, ips ...netip.Addr) (Files, error) {
	f := In(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Files{}, fmt.Errorf("make certificate directory: %w", err)
	}
	if err := os.WriteFile(f.CA, a.pem, 0o644); err != nil {
		return Files{}, fmt.Errorf("write authority certificate: %w", err)
	}
	serve := template(name, nil, a.now)
	serve.DNSNames = []string{name, "localhost"}
	serve.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, ip := range ips {
		serve.IPAddresses = append(serve.IPAddresses, ip.AsSlice())
	}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	serve.ExtKeyUsage = both
	client := template("kube-etcd-healthcheck-client", []string{"system:masters"}, a.now)
	client.ExtKeyUsage = both[1:]
	for _, c := range []struct {
		t         *x509.Certificate
		cert, key string
	}{{serve, f.ServerCert, f.ServerKey}, {serve, f.PeerCert, f.PeerKey}, {client, f.ClientCert, f.ClientKey}} {
		if err := a.sign(c.t, c.cert, c.key); err != nil {
			return Files{}, err
		}
	}
	return f, nil
}

func (a *Authority) sign(t *x509.Certificate, certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate key: %w", err)
	}
	t.SerialNumber = serial()
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("create certificate %s: %w", t.Subject.CommonName, err)
	}
	return store(certFile, keyFile, encode("CERTIFICATE", der), key)
}

func template(name string, orgs []string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: name, Organization: orgs},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(Lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

// serial draws a number of 127 bits: RFC 5280 4.1.2.2 asks for at most 20
// octets, positive.
func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil { // the reader of crypto/rand does not fail
		panic(err)
	}
	return n.Add(n, big.NewInt(1))
}

func store(certFile, keyFile string, cert []byte, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	if err := os.WriteFile(certFile, cert, 0o644); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	if err := os.WriteFile(keyFile, encode("PRIVATE KEY", der), 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
