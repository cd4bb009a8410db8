package supervise

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// refused are flags that are read only to be refused.
var refused = []string{"proxy", "discovery", "discovery-srv", "discovery-endpoints", "discovery-token", "discovery-proxy"}

// etcd's defaults, from embed.NewConfig.
const (
	defaultName      = "default"
	defaultClient    = "http://localhost:2379"
	defaultPeer      = "http://localhost:2380"
	defaultElection  = 1000 * time.Millisecond
	defaultHeartbeat = 100 * time.Millisecond
)

// describe says how etcd runs with the settings, in directory cwd. It is pure.
func describe(s settings, cwd string) (Etcd, error) {
	if err := s.fit(); err != nil {
		return Etcd{}, err
	}
	e := Etcd{Name: s.or("name", defaultName)}
	e.DataDir = absolute(cwd, s.or("data-dir", e.Name+".etcd"))
	if s["wal-dir"] != "" {
		e.WALDir = absolute(cwd, s["wal-dir"])
	}
	if e.WALDir == filepath.Join(e.DataDir, "member", "wal") {
		e.WALDir = ""
	}
	if err := e.apart(); err != nil {
		return e, err
	}
	if err := e.urls(s); err != nil {
		return e, err
	}
	if err := e.timers(s); err != nil {
		return e, err
	}
	e.ClientTLS, e.PeerTLS = s.files("", cwd, e.ClientURLs), s.files("peer-", cwd, e.PeerURLs)
	return e, nil
}

func (s settings) or(name, fallback string) string {
	if v := s[name]; v != "" {
		return v
	}
	return fallback
}

// fit refuses what does not go with a pair.
func (s settings) fit() error {
	for name, why := range map[string]string{
		"force-new-cluster": "it makes a new cluster at every start and drops acknowledged writes",
		"unsafe-no-fsync":   "a write that is acknowledged has to be on the disk of both",
		"auto-tls":          "its certificates cannot be verified",
		"peer-auto-tls":     "its certificates cannot be verified",
		"version":           "it only prints the version",
		"help":              "it only prints the flags",
		"h":                 "it only prints the flags",
	} {
		on, err := s.on(name)
		if err != nil {
			return err
		}
		if on {
			return refuse(Unfit, "drop --"+name, "--%s does not go with a pair: %s", name, why)
		}
	}
	for _, name := range refused {
		if v := s[name]; v != "" && !(name == "proxy" && v == "off") {
			return refuse(Unfit, "name both members by --initial-cluster", "--%s=%s does not go with a pair: its members have to be known beforehand", name, v)
		}
	}
	if state := s["initial-cluster-state"]; state != "" && state != "new" && state != "existing" {
		return refuse(Unclear, "write new or existing", "--initial-cluster-state is %q", state)
	}
	return nil
}

// apart refuses a --wal-dir around etcd's other data: etcd replaces the whole directory when
// it makes a log, and setting data aside renames it.
func (e *Etcd) apart() error {
	if e.WALDir == "" {
		return nil
	}
	snap := filepath.Join(e.DataDir, "member", "snap")
	if snap == e.WALDir || strings.HasPrefix(snap, strings.TrimSuffix(e.WALDir, "/")+"/") {
		return refuse(Unfit, "give it a directory of its own, or leave it out", "--wal-dir %s has the rest of etcd's data in it (--data-dir %s)", e.WALDir, e.DataDir)
	}
	return nil
}

func absolute(cwd, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(cwd, path)
}

func (e *Etcd) urls(s settings) error {
	listen := s["listen-client-urls"]
	advertise := s["advertise-client-urls"]
	if listen == "" {
		advertise = s.or("advertise-client-urls", defaultClient)
	} else if advertise == "" {
		return refuse(Unclear, "give it the URLs that clients use", "--advertise-client-urls is missing, without which etcd does not start beside --listen-client-urls")
	}
	for _, u := range []struct {
		flag, value string
		into        *[]string
	}{
		{"listen-client-urls", s.or("listen-client-urls", defaultClient), &e.ClientURLs},
		{"listen-peer-urls", s.or("listen-peer-urls", defaultPeer), &e.PeerURLs},
		{"listen-metrics-urls", s["listen-metrics-urls"], &e.MetricsURLs},
		{"advertise-client-urls", advertise, &e.AdvertiseClient},
		{"initial-advertise-peer-urls", s.or("initial-advertise-peer-urls", defaultPeer), &e.AdvertisePeer},
	} {
		var err error
		if *u.into, err = parseURLs(u.flag, u.value); err != nil {
			return err
		}
	}
	cluster := s["initial-cluster"]
	if cluster == "" {
		e.InitialCluster = map[string][]string{e.Name: e.AdvertisePeer}
		return nil
	}
	var err error
	e.InitialCluster, err = parseCluster(cluster)
	return err
}

// parseURLs reads a comma-separated list as etcd does.
func parseURLs(flag, list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	var all []string
	for _, text := range strings.Split(list, ",") {
		text = strings.TrimSpace(text)
		u, err := url.Parse(text)
		if err != nil || !slices.Contains([]string{"http", "https", "unix", "unixs"}, u.Scheme) {
			return nil, refuse(Unclear, "write URLs such as https://10.0.0.1:2379", "--%s has %q", flag, text)
		}
		if _, _, err := net.SplitHostPort(u.Host); err != nil && strings.HasPrefix(u.Scheme, "http") {
			return nil, refuse(Unclear, "write URLs such as https://10.0.0.1:2379", "--%s has %q, without a port", flag, text)
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all, nil
}

// parseCluster reads "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380", where a
// name may come more than once.
func parseCluster(list string) (map[string][]string, error) {
	all := map[string][]string{}
	for _, text := range strings.Split(list, ",") {
		name, address, ok := strings.Cut(strings.TrimSpace(text), "=")
		if !ok || name == "" || address == "" {
			return nil, refuse(Unclear, "write NAME=URL,NAME=URL", "--initial-cluster has %q", text)
		}
		urls, err := parseURLs("initial-cluster", address)
		if err != nil {
			return nil, err
		}
		all[name] = append(all[name], urls...)
	}
	return all, nil
}

func (e *Etcd) timers(s settings) error {
	for _, t := range []struct {
		flag     string
		fallback time.Duration
		into     *time.Duration
	}{{"election-timeout", defaultElection, &e.ElectionTimeout}, {"heartbeat-interval", defaultHeartbeat, &e.Heartbeat}} {
		*t.into = t.fallback
		v := s[t.flag]
		if v == "" {
			continue
		}
		// Go's flag package takes 0x10 and 1_000 as well.
		n, err := strconv.ParseUint(v, 0, 32)
		if err != nil || n == 0 {
			return refuse(Unclear, "write a number of milliseconds", "--%s is %q", t.flag, v)
		}
		*t.into = time.Duration(n) * time.Millisecond
	}
	return nil
}

// files are the certificates with which etcd itself speaks to ports of the
// kind: those for clients where they are given, its own otherwise.
func (s settings) files(prefix, cwd string, listen []string) creds.Files {
	secure := slices.ContainsFunc(listen, func(u string) bool { return strings.HasPrefix(u, "https:") || strings.HasPrefix(u, "unixs:") })
	if !secure {
		return creds.Files{}
	}
	f := creds.Files{CA: s[prefix+"trusted-ca-file"], Cert: s[prefix+"cert-file"], Key: s[prefix+"key-file"]}
	if s[prefix+"client-cert-file"] != "" && s[prefix+"client-key-file"] != "" {
		f.Cert, f.Key = s[prefix+"client-cert-file"], s[prefix+"client-key-file"]
	}
	for _, path := range []*string{&f.CA, &f.Cert, &f.Key} {
		if *path != "" {
			*path = absolute(cwd, *path)
		}
	}
	return f
}

// check refuses a cluster given for a join that etcd could not use.
func (e Etcd) check(mode Mode) error {
	if !mode.Existing {
		return nil
	}
	members, err := parseCluster(mode.InitialCluster)
	if err != nil {
		return err
	}
	if members[e.Name] == nil {
		return fmt.Errorf("start etcd: the cluster to join, %s, has no member %s", mode.InitialCluster, e.Name)
	}
	return nil
}
