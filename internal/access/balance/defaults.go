package balance

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/balance/choose"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// Where things are unless settings say otherwise. 7445 is the port of
// KubePrism and extractedprism: kubelets pointed there need no change.
const (
	defaultListen    = "127.0.0.1:7445"
	defaultTelemetry = "127.0.0.1:9445"
	defaultControl   = "/run/holdfast/balance.sock"
	defaultStateDir  = "/var/lib/holdfast/balance"
	defaultName      = "kube-apiserver"
)

// noState as Backends.State keeps no list.
const noState = "none"

// defaultSettings is what an empty file means.
func defaultSettings() Settings {
	return Settings{
		Profile: profileDefault,
		// As long as a kubelet's own default grace for pods.
		Drain:     30 * time.Second,
		Telemetry: telemetry.Settings{Listen: defaultTelemetry},
		Control:   defaultControl,
		Log:       telemetry.Log{Level: "info", Format: "text"},
	}
}

// The profiles of timers.
const (
	profileDefault = "default"
	profileSeed    = "seed"    // /readyz every 5 s with 3 s of patience
	profileAnchors = "anchors" // TCP connects every 20 s with 15 s, nothing reset
)

func profileTimers(name string) (health.Timers, bool) {
	switch name {
	case profileDefault:
		return health.Default(), true
	case profileSeed:
		return health.Seed(), true
	case profileAnchors:
		return health.Anchors(), true
	}
	return health.Timers{}, false
}

// fill gives a frontend the defaults of what it leaves out.
func (f *Frontend) fill(s *Settings) {
	if len(f.Listen) == 0 {
		f.Listen = []string{defaultListen}
	}
	if f.Name == "" {
		f.Name = defaultName
	}
	if s.Profile == profileAnchors {
		// They dial one backend, for 15 s, and send a client nowhere else.
		orElse(&f.Connect.Budget, 15*time.Second)
		orElse(&f.Connect.Stagger, f.Connect.Budget)
		orElse(&f.Connect.FirstByte, f.Connect.Budget)
	}
	orElse(&f.Queue.Length, 1000)
	orElse(&f.Queue.Timeout, 5*time.Second)
	// A kubelet gives up a request after 10 s and more; a person at kubectl
	// sees no difference below 5.
	orElse(&f.Connect.Budget, 5*time.Second)
	// Three round trips between sites that are 100 ms apart.
	orElse(&f.Connect.Stagger, 300*time.Millisecond)
	// An apiserver under load answers a hello in a few ms, one whose check is
	// late (250 ms) is suspect.
	orElse(&f.Connect.FirstByte, 500*time.Millisecond)
	orElse(&f.HelloTimeout, 5*time.Second)
	orElse(&f.KeepAlive.Idle, 15*time.Second)
	orElse(&f.KeepAlive.Interval, 5*time.Second)
	orElse(&f.KeepAlive.Count, 3)
	orElse(&f.UserTimeout, 30*time.Second)
	f.Pool.fill(s)
	for i := range f.Routes {
		f.Routes[i].Pool.fill(s)
	}
}

func (p *Pool) fill(s *Settings) {
	orElse(&p.Zone, s.Zone)
	orElse(&p.Policy, choose.LeastConn)
	orElse(&p.SlowStart, 10*time.Second)
	fail, shutdown := Reset, Drain
	if s.Profile == profileAnchors {
		fail, shutdown = Keep, Keep
	}
	orElse(&p.OnFail, fail)
	orElse(&p.OnShutdown, shutdown)
	orElse(&p.OnRemove, fail)
	// A kube-apiserver that shuts down finishes short requests within seconds;
	// the kubelet gives it 30 s in all.
	orElse(&p.DrainTimeout, 15*time.Second)
	orElse(&p.Spread, 300*time.Millisecond)
	kind, path := "https", "/readyz"
	if s.Profile == profileAnchors {
		kind, path = "tcp", ""
	}
	orElse(&p.Check.Kind, kind)
	if p.Check.Kind == "https" || p.Check.Kind == "http" {
		orElse(&p.Check.Path, path)
	}
	timers, _ := profileTimers(s.Profile)
	orElse(&p.Check.Period, timers.Period)
	// A person who asks for a shorter period means the rest, too.
	orElse(&p.Check.Timeout, min(timers.Timeout, p.Check.Period))
	orElse(&p.Check.Suspect, min(timers.Suspect, p.Check.Timeout/4))
	orElse(&p.Check.Rise, timers.Rise)
	orElse(&p.Check.Fall, timers.Fall)
	if e := p.Backends.EndpointSlices; e != nil {
		orElse(&e.Namespace, "default")
		orElse(&e.Service, "kubernetes")
	}
}

// timers are those of the check on top of the profile's.
func (c Check) timers(profile string) health.Timers {
	t, _ := profileTimers(profile)
	t.Period, t.Timeout, t.Suspect, t.Rise, t.Fall = c.Period, c.Timeout, c.Suspect, c.Rise, c.Fall
	return t
}

func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
