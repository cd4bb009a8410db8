package pair

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/supervise"
)

// Settings is pair.yaml: what a person tells an agent. What etcd itself was
// told (its name, URLs, directories and certificates) is taken from etcd's own flags,
// unit or manifest.
type Settings struct {
	// Name is this member's name in the pair; default: etcd's --name.
	Name string       `yaml:"name"`
	Peer PeerSettings `yaml:"peer"`
	// Arbiter is where the record is kept.
	Arbiter arbiter.Settings `yaml:"arbiter"`
	Etcd    EtcdSettings     `yaml:"etcd"`

	// Profile is default or seed (20 s + 5 s).
	Profile    string        `yaml:"profile"`
	LostAfter  time.Duration `yaml:"lostAfter"`  // 0: the profile's
	HeadStart  time.Duration `yaml:"headStart"`  // 0: the profile's
	StuckAfter time.Duration `yaml:"stuckAfter"` // 0: the profile's
	// Prefer is the name of the member that should win; empty: the former leader.
	Prefer string `yaml:"prefer"`
	// Clients are places of which one must be reached before a claim, such as
	// tcp://192.0.2.1:443; none: no such check.
	Clients []string `yaml:"clients"`
	// Loser is stop, or serve-stale: etcd runs on, for serializable reads, until
	// the survivor answers.
	Loser string `yaml:"loser"`

	StateDir string `yaml:"stateDir"`
	// Prefix is where the key of the barrier lives in etcd.
	Prefix string `yaml:"prefix"`
	// Unit and StaticPod say who runs etcd, if not the agent.
	Unit      string `yaml:"unit"`
	StaticPod string `yaml:"staticPod"`
	// User runs a child etcd; empty: the agent's own.
	User string `yaml:"user"`

	Telemetry telemetry.Settings `yaml:"telemetry"`
	Log       telemetry.Log      `yaml:"log"`

	command []string // etcd and its arguments
}

// PeerSettings say who the other member is.
type PeerSettings struct {
	// Name is its name in the pair; default: the other one of etcd's
	// --initial-cluster.
	Name string `yaml:"name"`
	// Client is its client URL; default: the host of its peer URL with the own
	// client port.
	Client string `yaml:"client"`
	// URL is its peer URL; default: of etcd's --initial-cluster.
	URL string `yaml:"url"`
}

// EtcdSettings say how client ports are reached, the own and the peer's.
type EtcdSettings struct {
	// Endpoint is the own client URL; default: the first of etcd's.
	Endpoint     string `yaml:"endpoint"`
	CA           string `yaml:"ca"`
	Cert         string `yaml:"cert"`
	Key          string `yaml:"key"`
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"passwordFile"`
}

const (
	defaultTelemetry = "127.0.0.1:9386"
	defaultStateDir  = "/var/lib/holdfast/pair"
	defaultPrefix    = "/holdfast/pair"

	loserStops      = "stop"
	loserServesOn   = "serve-stale"
	profileDefault  = "default"
	profileSeed     = "seed"
	defaultPatience = 5 * time.Second
)

func defaultSettings() Settings {
	return Settings{
		Profile: profileDefault, Loser: loserStops, StateDir: defaultStateDir, Prefix: defaultPrefix,
		Telemetry: telemetry.Settings{Listen: defaultTelemetry},
		Log:       telemetry.Log{Level: "info", Format: "text"},
	}
}

// config is the decision's configuration.
func (s *Settings) config() Config {
	c := Config{
		LostAfter: 3 * time.Second, HeadStart: 1500 * time.Millisecond, StuckAfter: 30 * time.Second,
	}
	if s.Profile == profileSeed {
		c.LostAfter, c.HeadStart, c.StuckAfter = 20*time.Second, 5*time.Second, time.Minute
	}
	c.Self, c.Peer, c.Prefer = s.Name, s.Peer.Name, s.Prefer
	c.LostAfter = cmp.Or(s.LostAfter, c.LostAfter)
	c.HeadStart = cmp.Or(s.HeadStart, c.HeadStart)
	c.StuckAfter = cmp.Or(s.StuckAfter, c.StuckAfter)
	c.BootGrace, c.Patience = 10*time.Second, defaultPatience
	c.ServeStale = s.Loser == loserServesOn
	return c
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// check reports mistakes that can be told before etcd's own flags are known.
func (s *Settings) check() error {
	switch {
	case s.Profile != profileDefault && s.Profile != profileSeed:
		return fmt.Errorf("profile: %q; write %s or %s", s.Profile, profileDefault, profileSeed)
	case s.Loser != loserStops && s.Loser != loserServesOn:
		return fmt.Errorf("loser: %q; write %s or %s", s.Loser, loserStops, loserServesOn)
	case s.Arbiter.URL == "":
		return errors.New("arbiter.url: not set; a pair needs a place outside of it that decides: s3://…, etcd+https://…, configmap://… or https://… (see docs/guide/arbiter.md)")
	case !strings.HasPrefix(s.Prefix, "/") || len(s.Prefix) < 2 || strings.HasPrefix(s.Prefix, "/registry"):
		return fmt.Errorf("prefix: %q; write an absolute key outside /registry, such as %s", s.Prefix, defaultPrefix)
	case (s.Etcd.Username == "") != (s.Etcd.PasswordFile == ""):
		return errors.New("etcd.username, etcd.passwordFile: set both or neither")
	case s.StateDir == "":
		return fmt.Errorf("stateDir: %q; write a directory that stays, such as %s", s.StateDir, defaultStateDir)
	}
	s.Prefix = strings.TrimRight(s.Prefix, "/")
	if err := s.checkSupervision(); err != nil {
		return err
	}
	for _, c := range s.Clients {
		if u, err := url.Parse(c); err != nil || u.Scheme != "tcp" || u.Port() == "" || u.Hostname() == "" {
			return fmt.Errorf("clients: %q; write tcp://HOST:PORT, of something that is up whenever clients are", c)
		}
	}
	return errors.Join(between("lostAfter", s.LostAfter, 2*time.Second, time.Hour),
		between("headStart", s.HeadStart, 500*time.Millisecond, time.Minute), between("stuckAfter", s.StuckAfter, 5*time.Second, 24*time.Hour))
}

func (s *Settings) checkSupervision() error {
	ways := 0
	for _, given := range []bool{len(s.command) > 0, s.Unit != "", s.StaticPod != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return fmt.Errorf("%d ways given to run etcd; write one of: -- etcd ARGS…, --unit NAME, --static-pod FILE", ways)
	}
	return nil
}

// between reports a duration that is set and out of bounds.
func between(name string, d, least, most time.Duration) error {
	if d == 0 || (d >= least && d <= most) {
		return nil
	}
	return fmt.Errorf("%s: %s; write a time from %s to %s", name, d, least, most)
}

// adopt fills in what etcd itself was told.
func (s *Settings) adopt(e supervise.Etcd) error {
	s.Name = cmp.Or(s.Name, e.Name)
	if s.Peer.URL == "" && len(e.InitialCluster) > 0 && e.InitialCluster[e.Name] == nil {
		return fmt.Errorf("etcd's --initial-cluster does not name %q, which is its --name; correct one of the two", e.Name)
	}
	for name, urls := range e.InitialCluster {
		if name == e.Name || len(urls) == 0 {
			continue
		}
		if s.Peer.URL == "" && len(e.InitialCluster) == 2 {
			s.Peer.URL, s.Peer.Name = urls[0], cmp.Or(s.Peer.Name, name)
		}
	}
	if s.Etcd.Endpoint == "" && len(e.AdvertiseClient) > 0 {
		s.Etcd.Endpoint = e.AdvertiseClient[0]
	}
	if s.Peer.Client == "" {
		s.Peer.Client = guessClient(s.Peer.URL, s.Etcd.Endpoint)
	}
	if (s.clientTLS() == creds.Files{}) {
		s.Etcd.CA, s.Etcd.Cert, s.Etcd.Key = e.ClientTLS.CA, e.ClientTLS.Cert, e.ClientTLS.Key
	}
	return s.checkMembers(e)
}

// checkMembers reports what does not make two members, once all is known.
func (s *Settings) checkMembers(e supervise.Etcd) error {
	if len(e.AdvertisePeer) == 0 {
		return errors.New("etcd has no --initial-advertise-peer-urls; name the URL that the peer reaches it at")
	}
	switch {
	case !plainName.MatchString(s.Name):
		return fmt.Errorf("name: %q; write letters, digits, dots and dashes", s.Name)
	case !plainName.MatchString(s.Peer.Name) || s.Peer.Name == s.Name:
		return fmt.Errorf("peer.name: %q; write the other member's name, as in etcd's --initial-cluster, which has to name two", s.Peer.Name)
	case s.Prefer != "" && s.Prefer != s.Name && s.Prefer != s.Peer.Name:
		return fmt.Errorf("prefer: %q; write %s or %s, or leave it out", s.Prefer, s.Name, s.Peer.Name)
	case slices.Contains(e.AdvertisePeer, s.Peer.URL):
		return fmt.Errorf("peer.url: %q is this member's own (--initial-advertise-peer-urls); write the other's", s.Peer.URL)
	case s.Peer.Client == s.Etcd.Endpoint || slices.Contains(e.AdvertiseClient, s.Peer.Client):
		return fmt.Errorf("peer.client: %q is this member's own client URL; write the other's", s.Peer.Client)
	}
	return errors.Join(isURL("peer.url", s.Peer.URL), isURL("peer.client", s.Peer.Client), isURL("etcd.endpoint", s.Etcd.Endpoint), checkTiming(s, e))
}

// checkTiming refuses timers that claim before etcd itself could have elected.
func checkTiming(s *Settings, e supervise.Etcd) error {
	c := s.config()
	if after := c.LostAfter; after < 2*e.ElectionTimeout {
		return fmt.Errorf("lostAfter: %s; write at least %s, twice etcd's election timeout, or etcd has no time to elect by itself", after, 2*e.ElectionTimeout)
	}
	if c.StuckAfter < c.LostAfter {
		return fmt.Errorf("stuckAfter: %s is less than lostAfter: %s; write at least as much, as a peer that can be reached is not lost sooner than one that cannot", c.StuckAfter, c.LostAfter)
	}
	return nil
}

func isURL(name, s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Port() == "" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return fmt.Errorf("%s: %q; write https://HOST:PORT", name, s)
	}
	return nil
}

// guessClient is the peer's client URL where it has the own one's port.
func guessClient(peer, own string) string {
	p, err := url.Parse(peer)
	if err != nil {
		return ""
	}
	o, err := url.Parse(own)
	if err != nil || o.Port() == "" {
		return ""
	}
	host := p.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return o.Scheme + "://" + host + ":" + o.Port()
}

func (s *Settings) clientTLS() creds.Files {
	return creds.Files{CA: s.Etcd.CA, Cert: s.Etcd.Cert, Key: s.Etcd.Key}
}

func (s *Settings) access() etcd.Access {
	return etcd.Access{TLS: s.clientTLS(), Username: s.Etcd.Username, PasswordFile: s.Etcd.PasswordFile}
}
