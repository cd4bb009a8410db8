package leader

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

// Settings is leader.yaml: what a person tells an agent. Anything left out is
// found (certificates on kubeadm, k3s, RKE2 and Talos) or has the default
// that docs/guide/leader.md explains.
type Settings struct {
	Etcd EtcdSettings `yaml:"etcd"`
	// Prefix is where rows and the last decision live in etcd: members/<id>
	// and decision below it. What stands there and is no row of this version is
	// left alone and makes nobody known.
	Prefix string `yaml:"prefix"`
	// Zone is this member's zone, for the order below.
	Zone string `yaml:"zone"`
	// Zones orders zones, best first, where several members would do.
	Zones []string `yaml:"zones"`
	// PreferredZone, if set, gets leadership back in a quiet window.
	PreferredZone string        `yaml:"preferredZone"`
	ReturnAfter   time.Duration `yaml:"returnAfter"`
	// Profile is default or seed (3 failures down, 10 good up, 15 s, 2 min).
	Profile string        `yaml:"profile"`
	Settle  time.Duration `yaml:"settle"` // 0: the profile's
	DryRun  bool          `yaml:"dryRun"`
	// Pace multiplies the rate of everything the agent does at rest; for soak
	// tests only. 0 means 1.
	Pace int `yaml:"pace"`
	// observeOnly makes the agent publish and offer nothing.
	observeOnly bool

	Mesh      MeshSettings       `yaml:"mesh"`
	Telemetry telemetry.Settings `yaml:"telemetry"`
	Log       telemetry.Log      `yaml:"log"`
}

// EtcdSettings says how the own member and its peers are reached.
type EtcdSettings struct {
	// Endpoints holds the client URL of the own member, and of no other.
	Endpoints    []string `yaml:"endpoints"`
	CA           string   `yaml:"ca"`
	Cert         string   `yaml:"cert"`
	Key          string   `yaml:"key"`
	Username     string   `yaml:"username"`
	PasswordFile string   `yaml:"passwordFile"`
	// Metrics is the base URL of /metrics where the client port has none.
	Metrics string       `yaml:"metrics"`
	Peer    PeerSettings `yaml:"peer"`
}

// PeerSettings are the credentials that etcd itself shows its peers.
type PeerSettings struct {
	CA   string `yaml:"ca"`
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// MeshSettings is where agents hand each other their rows over mTLS with the
// peer certificate.
type MeshSettings struct {
	// Listen is the own address; empty switches the mesh off.
	Listen string `yaml:"listen"`
	// Port is where the other agents listen, on the hosts of their peer URLs.
	Port int `yaml:"port"`
}

// Defaults of the ports: next to etcd's own 2379 and 2380, and free in the
// port lists of kubeadm, k3s, RKE2 and Talos.
const (
	defaultMeshPort  = 2384
	defaultTelemetry = "127.0.0.1:9384"
	defaultEndpoint  = "https://127.0.0.1:2379"
	defaultPrefix    = "/holdfast/leader"
)

// defaultSettings is what an empty file means.
func defaultSettings() Settings {
	return Settings{
		Prefix:      defaultPrefix,
		ReturnAfter: 5 * time.Minute,
		Profile:     "default",
		Mesh:        MeshSettings{Listen: fmt.Sprintf(":%d", defaultMeshPort), Port: defaultMeshPort},
		Telemetry:   telemetry.Settings{Listen: defaultTelemetry},
		Log:         telemetry.Log{Level: "info", Format: "text"},
	}
}

// complete checks the settings and finds what was left out, below root ("/"
// outside tests).
func (s *Settings) complete(root string) error {
	if err := s.findCredentials(root); err != nil {
		return err
	}
	if len(s.Etcd.Endpoints) == 0 {
		s.Etcd.Endpoints = []string{defaultEndpoint}
	}
	return errors.Join(s.checkEndpoint(), s.checkNames(), s.checkMesh(), s.checkAccount())
}

func (s *Settings) findCredentials(root string) error {
	e := &s.Etcd
	client := creds.Files{CA: e.CA, Cert: e.Cert, Key: e.Key}
	peer := creds.Files{CA: e.Peer.CA, Cert: e.Peer.Cert, Key: e.Peer.Key}
	plain := len(e.Endpoints) > 0 && strings.HasPrefix(e.Endpoints[0], "http://")
	if plain || (client != creds.Files{} && peer != creds.Files{}) {
		return nil
	}
	found, err := etcd.FindPKI(root)
	if err != nil {
		missing := "etcd.cert"
		if (client != creds.Files{}) {
			missing = "etcd.peer.cert"
		}
		return fmt.Errorf("%s: not set, and none found: %w; set etcd.ca, etcd.cert, etcd.key and etcd.peer.*", missing, err)
	}
	if (client == creds.Files{}) {
		e.CA, e.Cert, e.Key = found.Client.CA, found.Client.Cert, found.Client.Key
	}
	if (peer == creds.Files{}) {
		e.Peer = PeerSettings{CA: found.Peer.CA, Cert: found.Peer.Cert, Key: found.Peer.Key}
	}
	return nil
}

func (s *Settings) checkEndpoint() error {
	if n := len(s.Etcd.Endpoints); n > 1 {
		return fmt.Errorf("etcd.endpoints: %d given; name only the own member, the others are found through it", n)
	}
	u, err := url.Parse(s.Etcd.Endpoints[0])
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return fmt.Errorf("etcd.endpoints: %q is not a URL; write https://HOST:2379", s.Etcd.Endpoints[0])
	}
	if port, err := strconv.Atoi(u.Port()); u.Hostname() == "" || err != nil || port < 1 || port > 65535 {
		return fmt.Errorf("etcd.endpoints: %q lacks a host, or a port from 1 to 65535; write https://HOST:2379", s.Etcd.Endpoints[0])
	}
	return nil
}

func (s *Settings) checkNames() error {
	if !strings.HasPrefix(s.Prefix, "/") || len(s.Prefix) < 2 || strings.HasPrefix(s.Prefix, "/registry") {
		return fmt.Errorf("prefix: %q; write an absolute key outside /registry, such as %s", s.Prefix, defaultPrefix)
	}
	s.Prefix = strings.TrimRight(s.Prefix, "/")
	for i, z := range s.Zones {
		if z == "" || slices.Contains(s.Zones[:i], z) {
			return fmt.Errorf("zones: %q stands there twice or is empty; name each zone once, best first", z)
		}
	}
	if s.Profile != "default" && s.Profile != "seed" {
		return fmt.Errorf("profile: %q; write default or seed", s.Profile)
	}
	if s.Pace < 0 || s.Pace > 100 {
		return fmt.Errorf("pace: %d; it is for soak tests: 1 to 100, or leave it out", s.Pace)
	}
	if tidy(s.Zone) != s.Zone {
		return fmt.Errorf("zone: %q; write at most %d printable characters", s.Zone, maxText)
	}
	return errors.Join(within("settle", s.Settle, time.Hour), within("returnAfter", s.ReturnAfter, 30*24*time.Hour))
}

// within refuses a wait that nobody means: a unit mistaken, or a digit too many.
func within(field string, d, most time.Duration) error {
	if d < 0 || d > most {
		return fmt.Errorf("%s: %s; write a time from 0s to %s", field, d, most)
	}
	return nil
}

func (s *Settings) checkMesh() error {
	if s.Mesh.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(s.Mesh.Listen); err != nil {
		return fmt.Errorf("mesh.listen: %q: %w; write HOST:PORT or :PORT", s.Mesh.Listen, err)
	}
	if s.Mesh.Port < 1 || s.Mesh.Port > 65535 {
		return fmt.Errorf("mesh.port: %d; write the port the other agents listen on, 1 to 65535", s.Mesh.Port)
	}
	return nil
}

func (s *Settings) checkAccount() error {
	if (s.Etcd.Username == "") != (s.Etcd.PasswordFile == "") {
		return errors.New("etcd.username, etcd.passwordFile: set both or neither")
	}
	return nil
}

// access reads what is needed to talk to client ports.
func (s *Settings) access() (etcd.Access, error) {
	a := etcd.Access{
		TLS:      creds.Files{CA: s.Etcd.CA, Cert: s.Etcd.Cert, Key: s.Etcd.Key},
		Username: s.Etcd.Username, PasswordFile: s.Etcd.PasswordFile,
	}
	if a.PasswordFile == "" {
		return a, nil
	}
	_, err := etcd.ReadPassword(a.PasswordFile) // a mistake is told at the start
	return a, err
}

// peerTLS are the credentials for peer ports and the mesh.
func (s *Settings) peerTLS() creds.Files {
	return creds.Files{CA: s.Etcd.Peer.CA, Cert: s.Etcd.Peer.Cert, Key: s.Etcd.Peer.Key}
}

// metricsURLs are where the own member's /metrics may be: what was set, or the
// client URL and the loopback address of kubeadm, k3s and RKE2.
func (s *Settings) metricsURLs() []string {
	if s.Etcd.Metrics != "" {
		return []string{s.Etcd.Metrics}
	}
	return []string{s.Etcd.Endpoints[0], "http://127.0.0.1:2381"}
}
