package creds

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Client opens the files and returns a configuration for dialling; see Source.Client.
func (f Files) Client(serverName string) (*tls.Config, error) {
	s, err := Open(f)
	if err != nil {
		return nil, err
	}
	return s.Client(serverName), nil
}

// Server opens the files and returns a configuration for listening; see Source.Server.
func (f Files) Server(requireClient bool) (*tls.Config, error) {
	s, err := Open(f)
	if err != nil {
		return nil, err
	}
	return s.Server(requireClient)
}

// Client returns a configuration for dialling one server. serverName is the
// host name or the address that the certificate must be valid for. It may be
// empty when the server is dialled by a host name; crypto/tls does not tell a
// verifier which address was dialled, so for an address it must be given.
func (s *Source) Client(serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: serverName,
		// Verified in VerifyConnection instead, because RootCAs cannot change
		// during the life of a configuration.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return s.verifyServer(state, serverName)
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if m := s.current(false); m.cert != nil {
				return m.cert, nil
			}
			return &tls.Certificate{}, nil // none; the server decides
		},
	}
}

// verifyServer does what crypto/tls does by default, with the CAs in force now.
func (s *Source) verifyServer(state tls.ConnectionState, name string) error {
	if name == "" {
		name = state.ServerName
	}
	if name == "" {
		return errors.New("verify server: it was dialled by address and no name was given; pass the address to Client")
	}
	return s.verify(state, x509.ExtKeyUsageServerAuth, name, "server "+name)
}

// verify checks the peer's chain, its use and, unless empty, its name; who
// stands for the peer in errors.
func (s *Source) verify(state tls.ConnectionState, use x509.ExtKeyUsage, name, who string) error {
	opts := x509.VerifyOptions{DNSName: name, KeyUsages: []x509.ExtKeyUsage{use}, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	var err error
	for _, force := range []bool{false, true} {
		opts.Roots = s.current(force).pool
		if _, err = state.PeerCertificates[0].Verify(opts); err == nil {
			return nil
		}
	}
	return fmt.Errorf("verify %s: %w%s", who, &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}, s.remedy(err))
}

// remedy says what to do about the things that go wrong in practice.
func (s *Source) remedy(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		roots := s.files.CA
		if roots == "" {
			roots = "the system's store"
		}
		return fmt.Sprintf("; is %s its CA?", roots)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "; issue its certificate with that name, or dial a name that is in it"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch invalid.Reason {
		case x509.Expired:
			return "; renew its certificate or set the clock"
		case x509.IncompatibleUsage:
			return "; issue its certificate for both server and client authentication"
		}
	}
	return ""
}

// Server returns a configuration for listening. With requireClient every
// client must show a certificate that the CA file vouches for.
func (s *Source) Server(requireClient bool) (*tls.Config, error) {
	if s.files.Cert == "" {
		return nil, errors.New("serve TLS: no certificate given; give certificate and key")
	}
	if requireClient && s.files.CA == "" {
		return nil, errors.New("serve TLS: no CA given to verify clients with; give the CA file")
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.current(false).cert, nil
		},
		// A resumed session would carry a client past the loss of its CA.
		SessionTicketsDisabled: true,
	}
	if requireClient {
		// Any certificate here, because ClientCAs cannot change during the
		// life of a configuration; verified in VerifyConnection.
		cfg.ClientAuth = tls.RequireAnyClientCert
		cfg.VerifyConnection = s.verifyClient
	}
	return cfg, nil
}

func (s *Source) verifyClient(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("verify client: it showed no certificate")
	}
	who := state.PeerCertificates[0].Subject.CommonName
	return s.verify(state, x509.ExtKeyUsageClientAuth, "", "client "+who)
}
