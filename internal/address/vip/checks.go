package vip

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/bfd"
	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// Kinds of check besides those of package health.
const (
	kindProcess = "process"
	kindFile    = "file"
	kindCarrier = "carrier"
	kindBFD     = "bfd"
)

// local says that the check looks at this machine itself, by package local.
func (h *HealthSettings) local() bool {
	return h.Kind == kindProcess || h.Kind == kindFile || h.Kind == kindCarrier
}

// complete checks one entry of health. weighs says that there is a priority.
func (h *HealthSettings) complete(weighs bool) error {
	h.Name = cmp.Or(h.Name, h.Kind)
	h.fill()
	switch {
	case !word.MatchString(strings.ToLower(h.Name)):
		return fmt.Errorf("name: %q; write letters, digits, dots and dashes", h.Name)
	case h.Weight != 0 && !weighs:
		return fmt.Errorf("weight: %d without vrrp, and there is no priority; leave it out", h.Weight)
	case h.Weight < -253 || h.Weight > 253:
		return fmt.Errorf("weight: %d; write -253 to 253, or 0 for giving up", h.Weight)
	}
	if h.Kind == kindBFD {
		return h.checkBFD()
	}
	if h.Interval != 0 || h.Multiplier != 0 {
		return fmt.Errorf("interval: %s and multiplier: %d are those of kind bfd; write period, rise and fall", h.Interval, h.Multiplier)
	}
	if err := h.timers().Validate(); err != nil {
		return err
	}
	if err := h.checkSubject(); err != nil {
		return err
	}
	if h.local() {
		return nil
	}
	if _, err := h.check().Open(); err != nil {
		// Files that are not there yet are no mistake of the settings.
		if h.check().TLS == (creds.Files{}) && h.TokenFile == "" {
			return err
		}
	}
	return nil
}

func (h *HealthSettings) fill() {
	if h.Kind == kindBFD {
		return
	}
	t := health.Default()
	if h.Kind == kindProcess || h.Kind == kindFile || h.Kind == kindCarrier {
		// Looking costs next to nothing.
		t.Period, t.Timeout, t.Rise, t.Fall = 200*time.Millisecond, 200*time.Millisecond, 1, 1
	}
	h.Period = cmp.Or(h.Period, t.Period)
	h.Timeout = cmp.Or(h.Timeout, min(t.Timeout, h.Period))
	h.Rise, h.Fall = cmp.Or(h.Rise, t.Rise), cmp.Or(h.Fall, t.Fall)
}

func (h *HealthSettings) checkSubject() error {
	networked := []health.Kind{health.HTTPS, health.HTTP, health.TCP, health.Etcd}
	switch {
	case h.Kind == kindProcess && (h.Process == "" || len(h.Process) > 15):
		return fmt.Errorf("process: %q; write the name as /proc/PID/comm has it, at most 15 characters", h.Process)
	case h.Kind == kindFile && !filepath.IsAbs(h.Path):
		return fmt.Errorf("path: %q; write the absolute path of the file", h.Path)
	case h.Kind == kindCarrier && h.Interface == "":
		return errors.New("interface: not set; write the one whose carrier counts")
	case h.local() || health.Kind(h.Kind) == health.Exec:
		return nil
	case !slices.Contains(networked, health.Kind(h.Kind)):
		return fmt.Errorf("kind: %q; write https, http, tcp, etcd, exec, process, file, carrier or bfd", h.Kind)
	}
	if _, _, err := net.SplitHostPort(h.Address); err != nil {
		return fmt.Errorf("address: %q; write HOST:PORT", h.Address)
	}
	return nil
}

// checkBFD checks an entry of kind bfd; checkTogether compares it with others.
func (h *HealthSettings) checkBFD() error {
	a, err := netip.ParseAddr(h.Address)
	if err != nil {
		return fmt.Errorf("address: %q; write the neighbor's IP address, without a port", h.Address)
	}
	if h.Period != 0 || h.Timeout != 0 || h.Rise != 0 || h.Fall != 0 {
		return errors.New("period, timeout, rise, fall: bfd has none; write interval and multiplier")
	}
	c := bfd.SessionConfig{Peer: a, Interface: h.Interface, Timers: h.session()}
	switch err := c.Validate(); {
	case h.Interval != 0 && (h.Interval < 10*time.Millisecond || h.Interval > time.Minute):
		return fmt.Errorf("interval: %v is out of range; use 10ms to 1m", h.Interval)
	case h.Multiplier < 0 || h.Multiplier > 255:
		return fmt.Errorf("multiplier: %d is out of range; use 1 to 255", h.Multiplier)
	case err != nil:
		return fmt.Errorf("address: %w", err)
	}
	return nil
}

// Timers of a session of BFD that a check alone wants.
const (
	defaultBFDInterval   = 100 * time.Millisecond
	defaultBFDMultiplier = 3
)

func (h *HealthSettings) session() bfd.Timers {
	every := cmp.Or(h.Interval, defaultBFDInterval)
	return bfd.Timers{DesiredMinTx: every, RequiredMinRx: every, DetectMult: uint8(cmp.Or(h.Multiplier, defaultBFDMultiplier))}
}

func (h *HealthSettings) neighbor() neighbor {
	a, _ := netip.ParseAddr(h.Address)
	return newNeighbor(a, h.Interface)
}

func (h *HealthSettings) timers() health.Timers {
	t := health.Default()
	t.Period, t.Timeout, t.Rise, t.Fall = h.Period, h.Timeout, h.Rise, h.Fall
	t.Suspect = min(t.Suspect, t.Timeout/4)
	t.DownPeriod, t.Recheck = min(t.DownPeriod, t.Period), min(t.Recheck, t.Period)
	if h.local() || health.Kind(h.Kind) == health.Exec {
		t.Suspect = 0 // no program is run twice to be sure
	}
	return t
}

func (h *HealthSettings) check() health.Check {
	c := health.Check{
		Kind: health.Kind(h.Kind), ServerName: h.ServerName,
		TLS: creds.Files{CA: h.CA, Cert: h.Cert, Key: h.Key}, TokenFile: h.TokenFile, Command: h.Command,
	}
	if c.Kind == health.HTTP || c.Kind == health.HTTPS {
		c.Path = h.Path
	}
	return c
}

// prober makes what asks. Its error may pass: a file that is not there yet.
func (h *HealthSettings) prober() (health.Prober, error) {
	if h.local() {
		return newLook(h), nil
	}
	m, err := h.check().Open()
	if err != nil {
		return nil, err
	}
	return m.Prober("tcp", h.Address)
}

// complete checks one entry of hooks.
func (h *HookSettings) complete() error {
	h.Timeout = cmp.Or(h.Timeout, defaultHook)
	switch {
	case len(h.Command) == 0:
		return errors.New("command: none; write the program and its arguments as a list")
	case !filepath.IsAbs(h.Command[0]):
		return fmt.Errorf("command: %q is no absolute path; write one", h.Command[0])
	case h.Timeout < time.Millisecond || h.Timeout > time.Hour:
		return fmt.Errorf("timeout: %s; write 1ms to 1h", h.Timeout)
	}
	for i, s := range h.On {
		if !slices.Contains(states, s) {
			return fmt.Errorf("on[%d]: %q; write %s", i, s, strings.Join(states, ", "))
		}
	}
	return nil
}

// states are what hooks may ask for and status shows.
var states = []string{stateInitialize, stateBackup, stateActive, stateYielding}

const (
	stateInitialize = "initialize"
	stateBackup     = "backup"
	stateActive     = "active"
	stateYielding   = "yielding"
)
