package vrrp

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// plain is a configuration without anything special.
func plain() Config {
	return Config{
		VRID: 51, Version: 3, Family: IPv4, Priority: 100, Interval: 100 * time.Millisecond,
		Address: ip("192.0.2.2"), Addresses: ips("192.0.2.100"),
	}
}

func TestMistakesAreOneLine(t *testing.T) {
	tests := []struct {
		change func(*Config)
		says   string
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.VRID = 0 }, "vrid 0: set 1 to 255"},
		{func(c *Config) { c.Version = 4 }, "version 4: set 3"},
		{func(c *Config) { c.Family = 0 }, "family 0: set 4 or 6"},
		{func(c *Config) { c.Version, c.Family = 2, IPv6 }, "set version 3 for IPv6"},
		{func(c *Config) { c.Priority = 0 }, "priority 0: set 1 to 254"},
		{func(c *Config) { c.Priority = 255 }, "priority 255: is the owner's"},
		{func(c *Config) { c.Owner = true }, "owner: has priority 255, not 100"},
		{func(c *Config) { c.Owner, c.Priority = true, 255 }, "owner without preempt"},
		{func(c *Config) { c.Owner, c.Priority, c.Preempt = true, 255, true }, ""},
		{func(c *Config) { c.Interval = 10 * time.Millisecond }, ""},
		{func(c *Config) { c.Interval = 40950 * time.Millisecond }, ""},
		{func(c *Config) { c.Interval = 5 * time.Millisecond }, "interval 5ms: VRRPv3 carries 10ms to 40.95s"},
		{func(c *Config) { c.Interval = time.Minute }, "interval 1m0s: VRRPv3 carries 10ms to 40.95s"},
		{func(c *Config) { c.Interval = 125 * time.Millisecond }, "interval 125ms: VRRPv3 carries whole multiples of 10ms; set 130ms"},
		{func(c *Config) { c.Version = 2 }, "interval 100ms: VRRPv2 carries 1s to 4m15s"},
		{func(c *Config) { c.Version, c.Interval = 2, time.Second }, ""},
		{func(c *Config) { c.PreemptDelay = -1 }, "preemptDelay -1ns: set 0s to 1h"},
		{func(c *Config) { c.StartDelay = 2 * time.Hour }, "startDelay 2h0m0s"},
		{func(c *Config) { c.Linger = -time.Second }, "linger -1s"},
		{func(c *Config) { c.Addresses = nil }, "addresses: 0 of them"},
		{func(c *Config) { c.Addresses = ips("2001:db8::1") }, "2001:db8::1 cannot be held as an IPv4 address"},
		{func(c *Config) { c.Addresses = ips("224.0.0.1") }, "224.0.0.1 cannot be held"},
		{func(c *Config) { c.Addresses = ips("192.0.2.100", "192.0.2.100") }, "192.0.2.100 is listed twice"},
		{func(c *Config) { c.Family = IPv6 }, "192.0.2.100 cannot be held as an IPv6 address"},
		{func(c *Config) { c.Family, c.Addresses = IPv6, ips("fe80::1%eth0") }, "without a zone"},
		{func(c *Config) { c.Address = ip("fe80::1") }, "address fe80::1: adverts are sent over IPv4"},
	}
	for i, test := range tests {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c := plain()
			test.change(&c)
			err := c.Validate()
			if test.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("says %v, want %q", err, test.says)
			}
		})
	}
}

func TestLinger(t *testing.T) {
	for _, test := range []struct{ linger, interval, want time.Duration }{
		{0, 10 * time.Millisecond, time.Second},
		{0, time.Second, 1250 * time.Millisecond},
		{0, 40 * time.Second, 50 * time.Second},
		{200 * time.Millisecond, time.Second, 200 * time.Millisecond},
	} {
		c := Config{Linger: test.linger, Interval: test.interval}
		if got := c.linger(); got != test.want {
			t.Errorf("linger %s, interval %s: %s, want %s", test.linger, test.interval, got, test.want)
		}
	}
}

func TestTimers(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		version    int
		priority   uint8
		interval   time.Duration
		skew, down time.Duration
	}{
		// As keepalived and FRR have them.
		{3, 200, 100 * ms, 21875 * time.Microsecond, 321875 * time.Microsecond},
		{3, 100, time.Second, 609375 * time.Microsecond, 3609375 * time.Microsecond},
		{3, 254, 10 * ms, 78125 * time.Nanosecond, 30078125 * time.Nanosecond},
		{3, 1, 40950 * ms, 40790039062 * time.Nanosecond, 163640039062 * time.Nanosecond},
		{2, 100, time.Second, 609375 * time.Microsecond, 3609375 * time.Microsecond},
		{2, 100, 10 * time.Second, 609375 * time.Microsecond, 30609375 * time.Microsecond},
	} {
		if got := skew(test.version, test.priority, test.interval); got != test.skew {
			t.Errorf("skew of %+v: %s", test, got)
		}
		if got := down(test.version, test.priority, test.interval); got != test.down {
			t.Errorf("down of %+v: %s", test, got)
		}
	}
}
