package kubeapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// verifier judges a server's certificate.
type verifier func(tls.ConnectionState) error

// tls returns the client's side of TLS for a server dialled as host. What came
// as files follows the files (package creds); what came as data is fixed.
func (c Config) tls(host string) (*tls.Config, error) {
	files := creds.Files{}
	if len(c.CAData) == 0 {
		files.CA = c.CAFile
	}
	if len(c.CertData) == 0 {
		files.Cert, files.Key = c.CertFile, c.KeyFile
	}
	source, err := creds.Open(files)
	if err != nil {
		return nil, err
	}
	verify := func(name string) verifier { return source.Client(name).VerifyConnection }
	if len(c.CAData) > 0 {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(c.CAData) {
			return nil, errors.New("certificate-authority-data: no certificate in PEM form; encode the CA file in base64")
		}
		verify = func(name string) verifier { return verifyWith(roots, name) }
	}
	names := c.names(host)
	config := source.Client(names[0])
	config.VerifyConnection = verify(names[0])
	if len(names) > 1 {
		config.VerifyConnection = either(verify(names[0]), verify(names[1]))
	}
	if len(c.CertData) > 0 {
		pair, err := c.pair()
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate, config.Certificates = nil, []tls.Certificate{pair}
	}
	return config, nil
}

// names are those that the server's certificate may be valid for.
func (c Config) names(host string) []string {
	switch {
	case c.ServerName != "":
		return []string{c.ServerName}
	case c.AnyServer:
		return []string{host, ClusterName}
	}
	return []string{host}
}

// either accepts what one of the two accepts, and tells the first's reason.
func either(one, other verifier) verifier {
	return func(state tls.ConnectionState) error {
		err := one(state)
		if _, ok := errors.AsType[x509.HostnameError](err); ok && other(state) == nil {
			return nil
		}
		return err
	}
}

// verifyWith does what crypto/tls does by default.
func verifyWith(roots *x509.CertPool, name string) verifier {
	return func(state tls.ConnectionState) error {
		opts := x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: x509.NewCertPool()}
		for _, cert := range state.PeerCertificates[1:] {
			opts.Intermediates.AddCert(cert)
		}
		if _, err := state.PeerCertificates[0].Verify(opts); err != nil {
			err = &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
			return fmt.Errorf("verify server %s: %w", name, err)
		}
		return nil
	}
}

func (c Config) pair() (tls.Certificate, error) {
	if len(c.KeyData) == 0 {
		return tls.Certificate{}, errors.New("client-key-data: missing beside client-certificate-data; give both or neither")
	}
	pair, err := tls.X509KeyPair(c.CertData, c.KeyData)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("client-certificate-data and client-key-data: %w; give the two that were issued together", err)
	}
	return pair, nil
}
