package check

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/base/file"
	"github.com/holdfast-ha/holdfast/internal/prove/check/collect"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

func pathCommand() *cobra.Command {
	var ca string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "path https://ADDRESS",
		Short: "Say what answers for an address: ready, 401, silence, or another's certificate",
		Long: `Say what answers for an address: ready, 401, silence, or another's certificate.

Asks for /readyz over TLS, once, without credentials, and prints the names and
addresses that the certificate is for.

Exit code 0: an apiserver answers for the address, ready or with anonymous requests
off (401). 1: it does not. 2: wrong usage.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := hostPort(args[0])
			if err != nil {
				return err
			}
			roots, err := readRoots(ca)
			if err != nil {
				return err
			}
			from, err := os.Hostname()
			if err != nil {
				from = ""
			}
			p := collect.TLS(roots, from)(cmd.Context(), address)
			return tellPath(cmd.OutOrStdout(), p, asJSON)
		},
	}
	cmd.Flags().StringVar(&ca, "ca", "", "PEM file of the cluster's authority; without it the chain is left alone")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

// hostPort reads an address that is a URL or host:port; 443 is the port of a URL
// without one.
func hostPort(text string) (string, error) {
	if u, err := url.Parse(text); err == nil && u.Scheme == "https" && u.Hostname() != "" {
		port := u.Port()
		if port == "" {
			port = "443"
		}
		return net.JoinHostPort(u.Hostname(), port), nil
	}
	if host, port, err := net.SplitHostPort(text); err == nil && host != "" && port != "" {
		return text, nil
	}
	return "", fmt.Errorf("address %q: want https://HOST:PORT", text)
}

func readRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := file.Read(path, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca %s: no certificate in PEM", path)
	}
	return pool, nil
}

// meanings say of each outcome what it tells about the address.
var meanings = map[string]string{
	fact.ProbeOK:           "the address works, and the apiserver behind it is ready",
	fact.ProbeUnauthorized: "the address works; the apiserver answers no anonymous requests, so that checks need credentials",
	fact.ProbeUnready:      "the address works, but the apiserver behind it is not ready",
	fact.ProbeSilent:       "nobody answers: the address is held by no machine, or packets are lost",
	fact.ProbeRefused:      "a machine answers for the address, but no apiserver listens there",
	fact.ProbeX509:         "clients refuse the certificate",
	fact.ProbeFailed:       "it could not be asked",
}

func tellPath(w io.Writer, p fact.Probe, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		if err := e.Encode(struct {
			Version int `json:"version"`
			fact.Probe
		}{1, p}); err != nil {
			return err
		}
	} else if err := pathText(w, p); err != nil {
		return err
	}
	if p.Outcome == fact.ProbeOK || p.Outcome == fact.ProbeUnauthorized {
		return nil
	}
	return exit.With(exit.Failed, errors.New("check path: "+p.Address+": "+meanings[p.Outcome]))
}

func pathText(w io.Writer, p fact.Probe) error {
	status := ""
	if p.Status > 0 {
		status = fmt.Sprintf(" (%d)", p.Status)
	}
	text := fmt.Sprintf("%s: %s%s: %s\n", p.Address, p.Outcome, status, meanings[p.Outcome])
	if p.Error != "" {
		text += "  " + p.Error + "\n"
	}
	if names := slices.Concat(p.Names, p.Addresses); len(names) > 0 {
		text += fmt.Sprintf("  certificate for %s, until %s\n", strings.Join(names, ", "), p.NotAfter.Format("2006-01-02"))
	}
	_, err := io.WriteString(w, text)
	return err
}
