// Package certificates has the rules about the names and ends of the apiservers'
// certificates.
//
// Guarantees: as of package rule; of apiservers only recorded handshakes are judged,
// never what a certificate ought to have by its settings. Nothing is held against
// the clock of whoever runs the audit: time is when the facts were collected.
package certificates
