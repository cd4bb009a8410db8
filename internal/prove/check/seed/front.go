package seed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// statuses are what a front answers itself, by outcome.
var statuses = map[string]int{fact.ProbeUnauthorized: http.StatusUnauthorized, fact.ProbeUnready: http.StatusInternalServerError}

// answering lets addresses answer: with certificates of their own in front of the
// apiserver, refusing, or not at all. It returns how to end that.
func (l *Lab) answering(all map[string]fact.Probe) (end func() error, err error) {
	var servers []*http.Server
	var hosts []netip.Addr
	end = func() error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.Close())
		}
		for _, host := range hosts {
			errs = append(errs, l.leave(host))
		}
		return errors.Join(errs...)
	}
	for address, p := range all {
		if p.Outcome == fact.ProbeSilent {
			continue
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return end, fmt.Errorf("answer at %s: %w", address, err)
		}
		if !slices.Contains(hosts, at.Addr()) {
			if err := l.stay(at.Addr()); err != nil {
				return end, fmt.Errorf("answer at %s: %w", address, err)
			}
			hosts = append(hosts, at.Addr())
		}
		if p.Outcome == fact.ProbeRefused {
			continue
		}
		server, err := l.front(address, p)
		if err != nil {
			return end, fmt.Errorf("answer at %s: %w", address, err)
		}
		servers = append(servers, server)
	}
	return end, nil
}

// front is a TLS server at an address.
func (l *Lab) front(address string, p fact.Probe) (*http.Server, error) {
	cert, _, err := l.signer.answering(p.Names, p.Addresses, p.NotAfter).sign()
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	err = l.stand.Do(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: l.behind(p.Outcome), ErrorLog: log.New(discard{}, "", 0), ReadHeaderTimeout: patience}
	go func() { _ = s.Serve(tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{cert}})) }()
	return s, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// behind is what a front does with requests.
func (l *Lab) behind(outcome string) http.Handler {
	if code, ok := statuses[outcome]; ok {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, http.StatusText(code), code) })
	}
	to, err := url.Parse(l.server.URL())
	if err != nil {
		return http.NotFoundHandler() // the lab's own URL is one
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return l.stand.DialContext(ctx, network, addr)
		},
		TLSClientConfig: &tls.Config{RootCAs: l.signer.pool()},
	}
	return proxy
}

// stay gives the stand an address, leave takes it away.
func (l *Lab) stay(a netip.Addr) error  { return l.place(a, netlink.AddrAdd) }
func (l *Lab) leave(a netip.Addr) error { return l.place(a, netlink.AddrDel) }

func (l *Lab) place(a netip.Addr, change func(netlink.Link, *netlink.Addr) error) error {
	return l.stand.Do(func() error {
		link, err := netlink.LinkByName(silence)
		if err != nil {
			return fmt.Errorf("find interface: %w", err)
		}
		one := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
		if err := change(link, &netlink.Addr{IPNet: one}); err != nil {
			return fmt.Errorf("change address %s: %w", a, err)
		}
		return nil
	})
}
