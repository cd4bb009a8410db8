package probe

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

func (t TLS) check(field string) error {
	if (t.Cert == "") != (t.Key == "") {
		return fmt.Errorf("%s: cert %q and key %q; give both or neither", field, t.Cert, t.Key)
	}
	if t.CA != "" && t.InsecureSkipVerify {
		return fmt.Errorf("%s: ca %q with insecureSkipVerify; a CA that is not used to verify misleads, remove one", field, t.CA)
	}
	return nil
}

// load reads the files and returns the client's configuration for host.
func (t TLS) load(host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read CA: %s holds no PEM certificate; give the file of the CA that signed the server", t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
