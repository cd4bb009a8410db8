package balance

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// open reads the credentials of a check. sendProxy is the version of the PROXY
// header that the backends expect from everybody, the checks included.
func (c Check) open(sendProxy int) (*health.Method, error) {
	m, err := health.Check{
		Kind: health.Kind(c.Kind), Path: c.Path, ServerName: c.ServerName,
		TLS: creds.Files{CA: c.CA, Cert: c.Cert, Key: c.Key}, TokenFile: c.TokenFile, Preface: preface(sendProxy),
	}.Open()
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	return m, nil
}

// preface is the PROXY header of a connection that is nobody's but our own:
// UNKNOWN in version 1, LOCAL in version 2 (haproxy.org, proxy-protocol.txt,
// sections 2.1 and 2.2).
func preface(version int) []byte {
	switch version {
	case 1:
		return []byte("PROXY UNKNOWN\r\n")
	case 2:
		return []byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00")
	}
	return nil
}
