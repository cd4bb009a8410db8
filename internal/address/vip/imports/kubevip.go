package imports

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// KubeVIP imports a static pod or DaemonSet of kube-vip.
func KubeVIP(data []byte) (Result, error) {
	env, err := environment(data)
	if err != nil {
		return Result{}, err
	}
	v := &kubeVIP{env: env}
	v.controlPlane()
	v.services()
	for _, name := range sorted(v.env) {
		v.leftover(name)
	}
	return v.result(&v.document, "a manifest of kube-vip")
}

// manifest is what matters of a Pod or of a workload with a template.
type manifest struct {
	Kind string  `yaml:"kind"`
	Spec podSpec `yaml:"spec"`
}

type podSpec struct {
	Containers []container `yaml:"containers"`
	Template   struct {
		Spec struct {
			Containers []container `yaml:"containers"`
		} `yaml:"spec"`
	} `yaml:"template"`
}

type container struct {
	Name  string `yaml:"name"`
	Image string `yaml:"image"`
	Env   []struct {
		Name      string    `yaml:"name"`
		Value     string    `yaml:"value"`
		ValueFrom yaml.Node `yaml:"valueFrom"`
	} `yaml:"env"`
}

// fromField marks a value that the cluster fills in.
const fromField = "\x00"

// environment is that of the container of kube-vip, among any documents.
func environment(data []byte) (map[string]string, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var m manifest
		err := dec.Decode(&m)
		if errors.Is(err, io.EOF) {
			return nil, errors.New("there is no container of kube-vip in the file; name a static pod or DaemonSet of it")
		}
		if err != nil {
			return nil, fmt.Errorf("read YAML: %s", strings.ReplaceAll(err.Error(), "\n", " "))
		}
		for _, c := range append(m.Spec.Containers, m.Spec.Template.Spec.Containers...) {
			if !strings.Contains(c.Image, "kube-vip") && c.Name != "kube-vip" {
				continue
			}
			env := map[string]string{}
			for _, e := range c.Env {
				env[e.Name] = e.Value
				if !e.ValueFrom.IsZero() {
					env[e.Name] = fromField
				}
			}
			return env, nil
		}
	}
}

type kubeVIP struct {
	collector
	document document
	env      map[string]string
}

// take returns a variable and does away with it.
func (v *kubeVIP) take(names ...string) (value, name string) {
	for _, n := range names {
		if got, ok := v.env[n]; ok {
			delete(v.env, n)
			if value == "" {
				value, name = got, n
			}
		}
	}
	return value, name
}

func (v *kubeVIP) yes(name string) bool {
	value, _ := v.take(name)
	b, err := strconv.ParseBool(value)
	if value != "" && err != nil {
		v.mistake(name, "%q is not a truth value; write true or false", value)
	}
	return b
}

func (v *kubeVIP) whole(name string, low, high int) int {
	value, _ := v.take(name)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		v.mistake(name, "%q is out of range; write %d to %d", value, low, high)
		return 0
	}
	return n
}

// controlPlane makes the group of the API's address.
func (v *kubeVIP) controlPlane() {
	wanted := v.yes("cp_enable")
	arp, bgp, table := v.yes("vip_arp"), v.yes("bgp_enable"), v.yes("vip_routingtable")
	elected := v.yes("vip_leaderelection")
	address, name := v.take("address", "vip_address")
	iface, _ := v.take("vip_interface")
	if !wanted && address == "" {
		return
	}
	g := &group{Name: "api", Interface: iface}
	for text := range strings.SplitSeq(address, ",") {
		text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
		a, err := netip.ParseAddr(text)
		if err != nil {
			v.mistake(name, "%q is not an address; write it as numbers, since names are not resolved here", text)
			continue
		}
		g.Addresses = append(g.Addresses, a.String())
	}
	if address == "" {
		v.mistake("address", "missing, but cp_enable is true; name the address of the API")
	}
	switch {
	case arp:
		g.Announce = []string{"arp"}
	case bgp:
		g.Announce, v.document.BGP = []string{"bgp"}, v.speaker()
	case table:
		g.Announce = []string{"route"}
		if n, _ := v.take("vip_routingtableid"); n != "" {
			v.note("vip_routingtableid", "%s is not carried over; set the table of announce route", n)
		}
	default:
		v.mistake("vip_arp", "none of vip_arp, bgp_enable and vip_routingtable is true; set the one in use")
	}
	v.holder(g, elected || arp)
	v.health(g)
	v.document.Groups = append(v.document.Groups, g)
}

// holder says who holds it: the Lease, or everybody.
func (v *kubeVIP) holder(g *group, elected bool) {
	duration := v.seconds("vip_leaseduration")
	renew, retry := v.seconds("vip_renewdeadline"), v.seconds("vip_retryperiod")
	kind, _ := v.take("leaderElectionType")
	lock, _ := v.take("vip_leasename")
	space, _ := v.take("cp_namespace")
	self, _ := v.take("vip_nodename")
	config, _ := v.take("k8s_config_file")
	if !elected {
		g.Anycast = &struct{}{}
		if g.Interface == "" || g.Interface == "lo" {
			g.Interface = "lo"
		}
		return
	}
	g.Lease = &lease{Peers: []*peer{}, Duration: asDuration(duration)}
	if kind == "etcd" {
		endpoints, _ := v.take("etcd_endpoints")
		ca, _ := v.take("etcd_ca_cert")
		cert, _ := v.take("etcd_cert")
		key, _ := v.take("etcd_key")
		g.Lease.Etcd = &etcd{Endpoints: strings.FieldsFunc(endpoints, func(r rune) bool { return r == ',' }), CA: ca, Cert: cert, Key: key}
	} else {
		g.Lease.Kubernetes = &kubernetes{Kubeconfig: config, Namespace: space}
		if lock != "" {
			v.note("vip_leasename", "%s is not carried over: the record is another one, and sharing a Lease with kube-vip would have both hold the address", lock)
		}
	}
	if self != fromField {
		g.Lease.Self = self
	}
	v.note("peers", "kube-vip takes whoever has the Lease; name the machines under groups[0].lease.peers, each with an address where it hears the others")
	if renew+retry > 0 {
		v.note("vip_renewdeadline", "not carried over: how often the record is renewed follows from its duration")
	}
	if duration == 0 {
		v.note("vip_leaseduration", "not set; kube-vip's 15 s are not carried over, the default here is shorter")
	}
}

func asDuration(seconds int) duration { return duration(time.Duration(seconds) * time.Second) }

func (v *kubeVIP) seconds(name string) int { return v.whole(name, 1, 1<<20) }

// health is the check of the API, which kube-vip has with BGP only.
func (v *kubeVIP) health(g *group) {
	address, _ := v.take("control_plane_health_check_address")
	period, timeout := v.seconds("control_plane_health_check_period_seconds"), v.seconds("control_plane_health_check_timeout_seconds")
	fall := v.whole("control_plane_health_check_failure_threshold", 1, 100)
	ca, _ := v.take("control_plane_health_check_ca_path")
	port, _ := v.take("port")
	if address == "" {
		if port == "" {
			port = "6443"
		}
		v.note("health", "kube-vip checks nothing here; give groups[0] a check of https://127.0.0.1:%s/readyz, so that the address leaves an apiserver that does not answer", port)
		return
	}
	h := &health{Name: "apiserver", Kind: "https", CA: ca, Period: asDuration(period), Timeout: asDuration(timeout), Fall: fall}
	rest, ok := strings.CutPrefix(address, "https://")
	if !ok {
		h.Kind = "http"
		rest = strings.TrimPrefix(address, "http://")
	}
	host, path, _ := strings.Cut(rest, "/")
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), map[string]string{"https": "443", "http": "80"}[h.Kind])
	}
	h.Address, h.Path = host, "/"+path
	if h.Period > 0 {
		v.fit("control_plane_health_check_timeout_seconds", h)
	}
	g.Health = append(g.Health, h)
}

// speaker is the part bgp_*.
func (v *kubeVIP) speaker() *speaker {
	s := &speaker{AS: uint32(v.whole("bgp_as", 1, 1<<32-1)), Peers: []*router{}}
	if s.AS == 0 {
		s.AS = 65000 // kube-vip's default
	}
	if id, _ := v.take("bgp_routerid"); id != fromField {
		s.RouterID = id
	}
	if _, name := v.take("bgp_routerinterface"); name != "" {
		v.note(name, "not carried over: the identifier is the first address of the machine; set bgp.routerID for another")
	}
	hold, keep := v.seconds("bgp_hold_time"), v.seconds("bgp_keepalive_interval")
	source, _ := v.take("bgp_sourceip")
	device, _ := v.take("bgp_sourceif")
	peers, _ := v.take("bgp_peers")
	one, _ := v.take("bgp_peeraddress")
	as, _ := v.take("bgp_peeras")
	password, _ := v.take("bgp_peerpass")
	if one != "" {
		peers = strings.Trim(strings.Join([]string{bracketed(one), as, password, strconv.FormatBool(v.yes("bgp_multihop"))}, ":")+","+peers, ",")
	}
	for i, text := range strings.FieldsFunc(peers, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		if r := v.router(fmt.Sprintf("bgp_peers[%d]", i), text); r != nil {
			r.Hold, r.Keepalive, r.LocalAddress, r.Interface = asDuration(hold), asDuration(keep), source, device
			s.Peers = append(s.Peers, r)
		}
	}
	if len(s.Peers) == 0 {
		v.mistake("bgp_peers", "no router is named; write ADDRESS:AS")
	}
	return s
}

func bracketed(a string) string {
	if strings.Contains(a, ":") && !strings.HasPrefix(a, "[") {
		return "[" + a + "]"
	}
	return a
}

// router is ADDRESS:AS[:PASSWORD[:MULTIHOP[:PORT]]][;OPTIONS] of bgp_peers.
func (v *kubeVIP) router(where, text string) *router {
	text, options, _ := strings.Cut(text, ";")
	r := &router{}
	if strings.HasPrefix(text, "[") {
		address, rest, ok := strings.Cut(text[1:], "]")
		if !ok {
			v.mistake(where, "%q lacks a ]; write [ADDRESS]:AS", text)
			return nil
		}
		r.Address, text = address, rest
	} else {
		r.Address, text, _ = strings.Cut(text, ":")
		text = ":" + text
	}
	parts := append(strings.Split(text, ":"), "", "", "", "", "")
	if _, err := netip.ParseAddr(r.Address); err != nil {
		v.mistake(where, "%q is not an address; write ADDRESS:AS", r.Address)
		return nil
	}
	n, err := strconv.ParseUint(parts[1], 10, 32)
	if err != nil || n == 0 {
		v.mistake(where, "%q is not an AS; write ADDRESS:AS", parts[1])
		return nil
	}
	r.AS = uint32(n)
	if parts[2] != "" {
		r.PasswordFile = "/etc/holdfast/bgp.password"
		v.note(where, "the password is not carried over; write it to %s, readable by the agent alone", r.PasswordFile)
	}
	if far, err := strconv.ParseBool(parts[3]); err == nil && far {
		r.Multihop = 50 // kube-vip's TTL
	}
	if p := parts[4]; p != "" && p != "179" {
		v.note(where, "port %s is not carried over: kube-vip reads it and dials 179", p)
	}
	v.options(where, strings.Join(append(parts[5:], options), ";"), r)
	return r
}

// options of a peer: mpbgp, and bfd_on with rx, tx and mult.
func (v *kubeVIP) options(where, text string, r *router) {
	for option := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == ';' || c == '/' }) {
		key, _, _ := strings.Cut(option, "=")
		switch key {
		case "bfd_on", "bfd":
			// kube-vip's interval is in microseconds by mistake; what is meant is 300 ms.
			r.BFD = &bfd{Interval: duration(300 * time.Millisecond), Multiplier: 3}
			v.note(where, "BFD is set to 300 ms × 3, the documented default of kube-vip, which takes its numbers for microseconds; 100ms finds a dead node sooner")
		case "mpbgp", "mpbgp_nexthop":
			r.Families = []string{"ipv4", "ipv6"}
		default:
			v.note(where, "%s is not carried over", option)
		}
	}
}

// services is the part svc_*.
func (v *kubeVIP) services() {
	if v.yes("svc_enable") {
		v.note("svc_enable", "addresses of Services are not in this file")
	}
	for name := range v.env {
		if strings.HasPrefix(name, "svc_") || strings.HasPrefix(name, "lb_class") {
			delete(v.env, name)
		}
	}
}

// quiet are variables without an effect on who holds an address.
var quiet = []string{
	"vip_cidr", "vip_subnet", "vip_loglevel", "vip_ddns", "dns_mode", "vip_cleanroutingtable", "prometheus_server",
	"vip_preserve_on_leadership_loss", "cp_detect", "vip_arpRate", "vip_startleader", "vip_skipdad",
}

func (v *kubeVIP) leftover(name string) {
	value, ok := v.env[name]
	switch {
	case !ok, slices.Contains(quiet, name):
	case value == "" || value == "false":
	case name == "lb_enable":
		v.note(name, "not carried over: to balance, run `holdfast balance` beside it")
	case strings.HasPrefix(name, "enable_upnp"), strings.HasPrefix(name, "egress"), strings.HasPrefix(name, "dhcp"), strings.Contains(name, "wireguard"):
		v.note(name, "not carried over: there is nothing of the kind here")
	default:
		v.note(name, "not carried over")
	}
}

func sorted(m map[string]string) []string {
	all := make([]string, 0, len(m))
	for name := range m {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// manifestLike says whether a file has a line of a Kubernetes object, which
// keepalived's language does not have.
func manifestLike(data []byte) bool {
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("apiVersion:")) {
			return true
		}
	}
	return false
}
