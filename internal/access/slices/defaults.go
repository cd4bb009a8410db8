package slices

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	stdslices "slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// defaultSettings is what an empty file means.
func defaultSettings() Settings {
	timers, decisions := health.Default(), plan.Default()
	return Settings{
		Port: defaultPort,
		Apiserver: ApiserverSettings{
			URL: defaultApiserver, ServerName: kubeapi.ClusterName,
			Period: timers.Period, Timeout: timers.Timeout, Rise: timers.Rise, Fall: timers.Fall,
		},
		API:      APISettings{Servers: []string{defaultBalancer, defaultApiserver}},
		GiveBack: decisions.GiveBack, Lapse: decisions.Lapse,
		Datapath:  "auto",
		Path:      PathSettings{Period: defaultPathPeriod},
		Telemetry: telemetry.Settings{Listen: defaultTelemetry},
		Log:       telemetry.Log{Level: "info", Format: "text"},
	}
}

// complete checks what a person wrote and finds what was left out, below root
// ("/" outside tests). It opens no socket.
func (s *Settings) complete(root string) error {
	if err := s.checkNode(); err != nil {
		return err
	}
	for _, check := range []func() error{s.checkAddresses, s.checkServers, s.checkTimes, s.checkZones, s.checkWords} {
		if err := check(); err != nil {
			return err
		}
	}
	return s.Apiserver.complete(root, s.API.Kubeconfig == "")
}

// dnsName is what the API takes for the name of a Node (RFC 1123).
var dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// mostName leaves room for what is put around a node's name in the names of
// slices and Leases, of 253 characters.
const mostName = 230

func (s *Settings) checkNode() error {
	from := "node"
	if s.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("node: not set, and the host has no name (%w); write the name of the Node", err)
		}
		// As the kubelet does with the host's name.
		s.Node, from = strings.ToLower(strings.TrimSpace(name)), "node (of the host)"
	}
	if !dnsName.MatchString(s.Node) || len(s.Node) > mostName {
		return fmt.Errorf("%s: %q cannot be the name of a Node; write it as kubectl get nodes shows it", from, s.Node)
	}
	return nil
}

func (s *Settings) checkAddresses() error {
	seen := map[bool]string{}
	for i, text := range s.Addresses {
		ip, err := netip.ParseAddr(text)
		switch {
		case err != nil || ip.Zone() != "":
			return fmt.Errorf("addresses[%d]: %q is not an IP address; write the one that clients reach the apiserver at", i, text)
		case ip.Unmap().IsLoopback() || ip.IsUnspecified() || ip.Unmap().IsLinkLocalUnicast() || ip.IsMulticast():
			return fmt.Errorf("addresses[%d]: %s is none that other nodes reach, and the API refuses it; write the node's own", i, text)
		}
		v4 := ip.Unmap().Is4()
		if other := seen[v4]; other != "" {
			return fmt.Errorf("addresses: %s and %s are of one family; keep one", other, text)
		}
		seen[v4], s.Addresses[i] = text, ip.Unmap().String()
	}
	if s.Port < 1 || s.Port > 65535 {
		return fmt.Errorf("port: %d; write the port of the apiserver, 1 to 65535", s.Port)
	}
	return nil
}

func (s *Settings) checkServers() error {
	if len(s.API.Servers) == 0 {
		return fmt.Errorf("api.servers: none; write at least the balancer of this node (%s) or an apiserver", defaultBalancer)
	}
	for i, server := range s.API.Servers {
		if stdslices.Contains(s.API.Servers[:i], server) {
			return fmt.Errorf("api.servers[%d]: %q is there twice; keep one", i, server)
		}
		if _, err := kubeapi.New(kubeapi.Config{Server: server, Token: "x"}); err != nil {
			return fmt.Errorf("api.servers[%d]: %w", i, err)
		}
	}
	if s.API.Context != "" && s.API.Kubeconfig == "" {
		return fmt.Errorf("api.context: %q without api.kubeconfig; set both, or leave it out", s.API.Context)
	}
	return nil
}

// leastLapse is the shortest time without a sign of life that means anything.
const leastLapse = 25 * time.Second

func (s *Settings) checkTimes() error {
	// A watch that stalls unnoticed hides a renewal's 10.4 s and the 12 s that
	// count as watching without a break (plan.Settings.Gap).
	if s.Lapse < leastLapse || s.Lapse > time.Hour {
		return fmt.Errorf("lapse: %s; write a time from %s (two renewals of a Lease, and one that is late) to 1h", s.Lapse, leastLapse)
	}
	if s.GiveBack < 0 || s.GiveBack > time.Hour {
		return fmt.Errorf("giveBack: %s; write a time from 0s to 1h", s.GiveBack)
	}
	if p := s.Path.Period; p != 0 && (p < leastPathPeriod || p > time.Hour) {
		return fmt.Errorf("path.period: %s; write a time from %s to 1h, or 0s for never", p, leastPathPeriod)
	}
	return nil
}

// leastPathPeriod is what an apiserver does not notice yet, from every node.
const leastPathPeriod = time.Second

// labelValue is what the API takes for the value of a label.
var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

func (s *Settings) checkZones() error {
	if s.Zone != "" && !labelValue.MatchString(s.Zone) {
		return fmt.Errorf("zone: %q cannot be the value of a label; write it as the label topology.kubernetes.io/zone has it", s.Zone)
	}
	for i, z := range s.Witnesses {
		if !labelValue.MatchString(z) || stdslices.Contains(s.Witnesses[:i], z) {
			return fmt.Errorf("witnesses[%d]: %q is no zone, or there twice; name each zone once, best first", i, z)
		}
	}
	return nil
}

func (s *Settings) checkWords() error {
	if _, _, err := datapath.Parse(s.Datapath); err != nil {
		return err
	}
	return s.Telemetry.Check()
}

// complete finds credentials for the own apiserver: those given, else the pod's
// service account where the agent runs in one, else the kubelet's.
func (a *ApiserverSettings) complete(root string, inPod bool) error {
	if _, err := a.address(); err != nil {
		return err
	}
	if err := a.timers().Validate(); err != nil {
		return fmt.Errorf("apiserver.%w", err)
	}
	switch {
	case (a.Cert == "") != (a.Key == ""):
		return errors.New("apiserver.cert, apiserver.key: set both or neither")
	case a.Anonymous && (a.Cert != "" || a.TokenFile != ""):
		return errors.New("apiserver.anonymous: true beside cert or tokenFile; leave one of them out")
	case a.CA != "" && (a.Anonymous || a.Cert != "" || a.TokenFile != ""):
		return nil
	}
	return a.find(root, inPod)
}

func (a *ApiserverSettings) find(root string, inPod bool) error {
	named := a.Anonymous || a.Cert != "" || a.TokenFile != ""
	dir := filepath.Join(root, kubeapi.ServiceAccountDir)
	if _, err := os.Stat(filepath.Join(dir, "token")); inPod && err == nil {
		a.CA = cmp.Or(a.CA, filepath.Join(dir, "ca.crt"))
		if !named {
			a.TokenFile = filepath.Join(dir, "token")
		}
		return nil
	}
	found, err := health.FindKubelet(root)
	switch {
	case err == nil:
		a.CA = cmp.Or(a.CA, found.Files.CA)
		if !named {
			a.Cert, a.Key = found.Files.Cert, found.Files.Key
		}
	case a.CA == "":
		return fmt.Errorf("apiserver.ca: not set, and neither a pod's service account nor the kubelet's certificate found: %w", err)
	}
	return nil
}

// address is the host and port of URL.
func (a *ApiserverSettings) address() (string, error) {
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" {
		return "", fmt.Errorf("apiserver.url: %q; write https://127.0.0.1:PORT", a.URL)
	}
	if !ownHost(u.Hostname()) {
		return "", fmt.Errorf("apiserver.url: %q is not of this machine, and an agent judges its own apiserver only; write https://127.0.0.1:PORT, or the address of this node that it listens on", a.URL)
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")), nil
}

// ownHost says that a host is this machine: the loopback, or an address of an
// interface. Other names may lead anywhere.
func ownHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost"
	}
	if ip = ip.Unmap(); ip.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err == nil && stdslices.ContainsFunc(all, func(a net.Addr) bool {
		own, err := netip.ParsePrefix(a.String())
		return err == nil && own.Addr().Unmap() == ip.WithZone("")
	})
}

func (a *ApiserverSettings) timers() health.Timers {
	t := health.Default()
	t.Period, t.Timeout, t.Rise, t.Fall = a.Period, a.Timeout, a.Rise, a.Fall
	t.Suspect = min(t.Suspect, t.Timeout/4)
	t.DownPeriod = min(t.DownPeriod, t.Period)
	return t
}

// check is how the own apiserver is asked.
func (a *ApiserverSettings) check() health.Check {
	return health.Check{
		Kind: health.HTTPS, Path: "/readyz", ServerName: a.ServerName,
		TLS: creds.Files{CA: a.CA, Cert: a.Cert, Key: a.Key}, TokenFile: a.TokenFile,
	}
}

// decisions are the settings of package plan.
func (s *Settings) decisions() plan.Settings {
	d := plan.Default()
	d.Witnesses, d.GiveBack, d.Lapse = s.Witnesses, s.GiveBack, s.Lapse
	return d
}
