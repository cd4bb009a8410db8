// Package certificates has the rules about the names and ends of the apiservers'
// certificates.
//
// Guarantees: as of package rule; only recorded handshakes are judged, never what a
// certificate ought to have by its settings.
package certificates
