package seed

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"regexp"
	"time"
)

// moved is a value with all its times later by a while, and authorities that end
// later by as much.
func moved(v any, by time.Duration) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = moved(value, by)
		}
	case []any:
		for i, value := range v {
			v[i] = moved(value, by)
		}
	case time.Time:
		return v.Add(by).UTC().Format(time.RFC3339)
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return t.Add(by).UTC().Format(time.RFC3339)
		}
		return authority.ReplaceAllStringFunc(v, func(field string) string { return movedAuthority(field, by) })
	}
	return v
}

// authority is that of a kubeconfig, which is text in a ConfigMap.
var authority = regexp.MustCompile(`certificate-authority-data: *[A-Za-z0-9+/=]+`)

// movedAuthority is an authority of the same name whose end is later. What cannot be
// read stays.
func movedAuthority(field string, by time.Duration) string {
	name, data, _ := bytes.Cut([]byte(field), []byte(":"))
	text, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(data)))
	if err != nil {
		return field
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return field
	}
	old, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return field
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return field
	}
	old.NotBefore, old.NotAfter, old.SignatureAlgorithm, old.PublicKey = old.NotBefore.Add(by), old.NotAfter.Add(by), 0, nil
	der, err := x509.CreateCertificate(rand.Reader, old, old, key.Public(), key)
	if err != nil {
		return field
	}
	return string(name) + ": " + base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
