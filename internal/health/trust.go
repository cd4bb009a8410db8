package health

import (
	"bytes"
	"crypto/tls"
	"slices"
)

// credentials are who we said we are when a connection was made.
type credentials struct {
	chain [][]byte // of our certificate, DER; empty: none
	token string   // empty: none; never print it
}

func (c credentials) equal(o credentials) bool {
	return c.token == o.token && slices.EqualFunc(c.chain, o.chain, bytes.Equal)
}

// credentials returns those in force now.
func (p *web) credentials() (c credentials) {
	if p.tls != nil {
		if own, err := p.tls.GetClientCertificate(&tls.CertificateRequestInfo{}); err == nil {
			c.chain = own.Certificate
		}
	}
	if b, ok := p.question.(interface{ bearer() string }); ok {
		c.token = b.bearer()
	}
	return c
}

// standsToday reports whether w would come about today as it did: with the same
// credentials, to a server that the CAs in force vouch for. A connection that
// would not says nothing about new ones. It costs one verification of a chain,
// some 0.1 ms, for each request.
func (p *web) standsToday(w *wire) bool {
	if !w.made.equal(p.credentials()) {
		return false
	}
	conn, ok := w.conn.(*tls.Conn)
	return !ok || p.tls.VerifyConnection(conn.ConnectionState()) == nil
}
