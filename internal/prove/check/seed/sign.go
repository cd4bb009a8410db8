package seed

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// signer is the cluster's authority.
type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newSigner(certFile, keyFile string) (*signer, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("read authority: %s is no key to sign with", keyFile)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	return &signer{cert, key}, nil
}

func (s *signer) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(s.cert)
	return p
}

// order is a certificate that is yet to be signed.
type order struct {
	by       *signer
	template *x509.Certificate
}

// answering orders the certificate of a server. An end of zero is in a year.
func (s *signer) answering(names, addresses []string, end time.Time) order {
	if end.IsZero() {
		end = time.Now().AddDate(1, 0, 0)
	}
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: names,
	}
	if end.Before(t.NotBefore) {
		t.NotBefore = end.AddDate(-1, 0, 0)
	}
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		}
	}
	return order{s, t}
}

func (o order) sign() (tls.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("generate key: %w", err)
	}
	if o.template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("draw serial number: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, o.template, o.by.cert, key.Public(), o.by.key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("sign certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, key, nil
}

// write puts the certificate and its key in files.
func (o order) write(certFile, keyFile string) error {
	cert, key, err := o.sign()
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			return fmt.Errorf("write certificate: %w", err)
		}
	}
	return nil
}
