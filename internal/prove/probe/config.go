package probe

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

// Kind says what a sample asks of its target.
type Kind string

const (
	// KindHTTP is a request, GET unless Target.Request says otherwise, and a code
	// of the expected set.
	KindHTTP Kind = "http"
	// KindConnect is a TCP handshake; with ModeReused and ModeStream a held
	// connection whose peer still acknowledges.
	KindConnect Kind = "connect"
	// KindEcho sends a line over TCP and wants the same line back.
	KindEcho Kind = "echo"
	// KindDatagram sends one datagram and wants one back that begins with what
	// was sent; what follows names who answered ([Sample.By]).
	KindDatagram Kind = "datagram"
	// KindPut is an etcd Put, KindGet a linearizable Range, KindSerializable a
	// Range answered from the member's own store, KindWatch a watch that asks
	// for its progress.
	KindPut          Kind = "put"
	KindGet          Kind = "get"
	KindSerializable Kind = "serializable"
	KindWatch        Kind = "watch"
	// KindWrite is an etcd Put of a key that no other sample writes
	// ([Sample.Key]), so that what was acknowledged can be looked for later.
	KindWrite Kind = "write"
	// KindRoute asks the kernel for the next hops of an address. A sample is good
	// when there is at least one.
	KindRoute Kind = "route"
)

// Defaults of a Config. A client of a cluster notices a second, so an ordinary
// sample may take one; an etcd put across sites needs a round trip and two
// fsyncs, and the server gives up only after 7 s, so it may take two.
const (
	DefaultInterval    = 100 * time.Millisecond
	DefaultTimeout     = time.Second
	DefaultEtcdTimeout = 2 * time.Second
	// defaultHeldTimeout covers one keepalive period of a held TCP connection
	// (1 s, the kernel's smallest) and a lost probe.
	defaultHeldTimeout   = 2 * time.Second
	defaultStreamTimeout = 5 * time.Second
	DefaultSlow          = time.Second
	// DefaultStable is a second of good samples at the default interval.
	DefaultStable = 10
	DefaultPrefix = "/holdfast/probe"
	// ControlPath is the default name of the path to the prober's own loopback.
	ControlPath = "control/loopback"
)

// maxInFlight bounds timeout/interval: beyond it a hanging target would cost
// more sockets than a default file limit (1024) allows.
const maxInFlight = 500

// Config is the file of `holdfast probe --config`. Zero values mean the
// defaults above.
type Config struct {
	// Interval and Timeout hold for targets that set none; a zero Timeout
	// means a default by kind (1 s, etcd 2 s, HTTP streams 5 s).
	Interval time.Duration `yaml:"interval,omitempty"`
	Timeout  time.Duration `yaml:"timeout,omitempty"`
	// Slow is the latency beyond which a good sample counts as slow.
	Slow time.Duration `yaml:"slow,omitempty"`
	// Stable is how many good samples in a row make a recovery.
	Stable int `yaml:"stable,omitempty"`
	// Prefix is where etcd put paths keep their one key each.
	Prefix  string   `yaml:"prefix,omitempty"`
	TLS     TLS      `yaml:"tls,omitempty"`
	Control Control  `yaml:"control,omitempty"`
	Targets []Target `yaml:"targets"`
}

// TLS is the client's side of TLS: PEM files, and the name to verify when it
// differs from the host of the URL. Without CA the roots of the system hold.
type TLS struct {
	CA         string `yaml:"ca,omitempty"`
	Cert       string `yaml:"cert,omitempty"`
	Key        string `yaml:"key,omitempty"`
	ServerName string `yaml:"serverName,omitempty"`
	// InsecureSkipVerify accepts any server certificate.
	InsecureSkipVerify bool `yaml:"insecureSkipVerify,omitempty"`
}

// Control is the path to the prober's own loopback.
type Control struct {
	// Name of the path; probers whose samples are merged need distinct ones.
	Name string `yaml:"name,omitempty"`
	Off  bool   `yaml:"off,omitempty"`
}

// Target is one server and the ways to reach it; it becomes one path per kind
// and mode, named "<name>/<kind>/<mode>".
type Target struct {
	Name string `yaml:"name"`
	// URL is https://…, http://…, tcp://HOST:PORT, udp://HOST:PORT,
	// etcd://HOST:PORT (TLS) or etcd+insecure://HOST:PORT (plain), the latter
	// four with ?kind=…, or route://ADDRESS.
	URL string `yaml:"url"`
	// Kinds defaults to those in the URL, then to http, connect or get.
	Kinds []Kind `yaml:"kinds,omitempty"`
	// Modes defaults to new and reused (stream for a watch). A kind takes part
	// in the modes it knows.
	Modes    []Mode        `yaml:"modes,omitempty"`
	Interval time.Duration `yaml:"interval,omitempty"`
	Timeout  time.Duration `yaml:"timeout,omitempty"`
	// TLS replaces Config.TLS for this target.
	TLS *TLS `yaml:"tls,omitempty"`
	// Request is what an HTTP sample sends instead of a bare GET.
	Request *Request `yaml:"request,omitempty"`
	// Expect lists the good HTTP codes: "200-399" (the default), "200,401", "any".
	Expect string `yaml:"expect,omitempty"`
	// Labels are carried into the summary: site, zone, …
	Labels map[string]string `yaml:"labels,omitempty"`
}

// LoadConfig reads a Config from a YAML file; an unknown key is an error that
// names its line. It does not validate.
func LoadConfig(path string) (*Config, error) {
	c := &Config{}
	if err := config.Load(path, c); err != nil {
		return nil, err
	}
	return c, nil
}

// Validate returns what is wrong with c, one line naming field, value and remedy.
func (c *Config) Validate() error {
	_, err := c.Paths()
	return err
}

// Paths resolves c to its paths, in file order. The control path is not among them.
func (c *Config) Paths() ([]Path, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var paths []Path
	seen := map[string]int{}
	for i := range c.Targets {
		t := &c.Targets[i]
		field := fmt.Sprintf("targets[%d]", i)
		if t.Name == "" {
			return nil, fmt.Errorf("%s.name: missing; name the target, such as b/etcd", field)
		}
		if first, ok := seen[t.Name]; ok {
			return nil, fmt.Errorf("%s.name: %q is also the name of targets[%d]; give each target its own", field, t.Name, first)
		}
		seen[t.Name] = i
		resolved, err := c.resolve(t)
		if err != nil {
			return nil, fmt.Errorf("%s (%s).%w", field, t.Name, err)
		}
		paths = append(paths, resolved...)
	}
	return paths, uniquePaths(paths, c.controlName())
}

func (c *Config) check() error {
	switch {
	case len(c.Targets) == 0:
		return errors.New("targets: none given; name at least one target, such as https://10.0.0.1:6443/readyz")
	case c.Interval < 0 || c.Timeout < 0 || c.Slow < 0:
		return errors.New("interval, timeout, slow: negative; write a duration such as 100ms")
	case c.Stable < 0:
		return fmt.Errorf("stable: %d is negative; write how many good samples in a row make a recovery", c.Stable)
	case c.Prefix != "" && c.Prefix[0] != '/':
		return fmt.Errorf("prefix: %q does not start with a slash; write %q", c.Prefix, "/"+c.Prefix)
	}
	return c.TLS.check("tls")
}

func uniquePaths(paths []Path, control string) error {
	names := []string{control}
	for _, p := range paths {
		if slices.Contains(names, p.Name) {
			return fmt.Errorf("targets: two paths are named %q; rename one target", p.Name)
		}
		names = append(names, p.Name)
	}
	return nil
}

func (c *Config) controlName() string { return or(c.Control.Name, ControlPath) }

// or returns the first of its arguments that is not zero.
func or[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}
