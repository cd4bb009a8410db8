package creds

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// Files names PEM files. It is comparable; the zero value means no files.
type Files struct {
	// CA holds the certificates that the other side is verified with; empty
	// means the roots of the system.
	CA string
	// Cert and Key are the own certificate chain, leaf first, and its private
	// key. Both or neither are given.
	Cert, Key string
}

// ErrExpired is wrapped by errors of Check about a certificate whose time is
// over or has not come.
var ErrExpired = errors.New("outside its validity")

// material is what one reading of the files gave.
type material struct {
	pool *x509.CertPool   // nil: roots of the system
	cert *tls.Certificate // nil: none; Leaf is set
	cas  []*x509.Certificate
}

// load reads all files or fails with one line that names the file and the remedy.
func (f Files) load() (*material, error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, fmt.Errorf("certificate %q and key %q: one is missing; give both or neither", f.Cert, f.Key)
	}
	m := &material{}
	var err error
	if f.CA != "" {
		if m.cas, err = readCertificates("CA", f.CA); err != nil {
			return nil, err
		}
		m.pool = x509.NewCertPool()
		for _, ca := range m.cas {
			m.pool.AddCert(ca)
		}
	}
	if f.Cert != "" {
		if m.cert, err = f.loadPair(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (f Files) loadPair() (*tls.Certificate, error) {
	if _, err := readCertificates("certificate", f.Cert); err != nil {
		return nil, err
	}
	cert, err := read("certificate", f.Cert)
	if err != nil {
		return nil, err
	}
	key, err := read("key", f.Key)
	if err != nil {
		return nil, err
	}
	if !hasBlock(key, "PRIVATE KEY") {
		return nil, fmt.Errorf("key %s: no private key in PEM form; give the file that starts with -----BEGIN … PRIVATE KEY-----", f.Key)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		if strings.Contains(err.Error(), "does not match") {
			return nil, fmt.Errorf("key %s: does not belong to certificate %s; give the two that were issued together", f.Key, f.Cert)
		}
		return nil, fmt.Errorf("key %s: %w; give an unencrypted PEM key", f.Key, err)
	}
	return &pair, nil
}

func readCertificates(what, path string) ([]*x509.Certificate, error) {
	data, err := read(what, path)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w; write the file again", what, path, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s %s: no certificate in PEM form; give the file that starts with -----BEGIN CERTIFICATE-----", what, path)
	}
	return certs, nil
}

func hasBlock(data []byte, suffix string) bool {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, suffix) {
			return true
		}
	}
	return false
}

// mostPEM is far above any bundle of authorities: the system's has 220 kB.
const mostPEM = 4 << 20

func read(what, path string) ([]byte, error) {
	data, err := file.Read(path, mostPEM)
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s %s: %w; check the path", what, path, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s %s: %w; run as a user that may read it", what, path, fs.ErrPermission)
	}
	return nil, fmt.Errorf("read %s: %w", what, err)
}

// check reports the first certificate whose validity does not include now.
func (m *material) check(f Files, now time.Time) error {
	if m.cert != nil {
		if err := checkTime("certificate", f.Cert, m.cert.Leaf, now); err != nil {
			return err
		}
	}
	// A bundle may keep an old CA beside its successor: one valid is enough.
	var first error
	for _, ca := range m.cas {
		err := checkTime("CA", f.CA, ca, now)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func checkTime(what, path string, c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("%s %s: %w: expired %s; renew it", what, path, ErrExpired, c.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return fmt.Errorf("%s %s: %w: not valid before %s; check the clock", what, path, ErrExpired, c.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}
