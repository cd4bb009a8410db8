package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// zone is a resolver with answers by name; a name without one does not exist.
type zone struct {
	mu    sync.Mutex
	ips   map[string][]string
	srv   map[string][]*net.SRV
	err   error // instead of any answer
	hang  bool
	asked int
}

func (z *zone) change(f func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f()
}

func (z *zone) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked++
	if z.hang {
		z.mu.Unlock()
		<-ctx.Done()
		z.mu.Lock()
		return nil, &net.DNSError{Err: "timeout", IsTimeout: true, Server: "10.0.0.53:53"}
	}
	if z.err != nil {
		return nil, z.err
	}
	var all []netip.Addr
	for _, text := range z.ips[host] {
		if ip := netip.MustParseAddr(text); network == "ip" || ip.Is4() == (network == "ip4") {
			all = append(all, ip)
		}
	}
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return all, nil
}

func (z *zone) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.err != nil {
		return "", nil, z.err
	}
	if len(z.srv[name]) == 0 {
		return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return name, z.srv[name], nil
}

// looked runs d and returns what it publishes, each list as one text.
func looked(t *testing.T, z *zone, d *DNS) (got *[]string) {
	t.Helper()
	got = new([]string)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Run(ctx, func(list []Backend) {
			var all []string
			for _, b := range list {
				text := b.Address
				if b.Weight > 0 {
					text += fmt.Sprint("*", b.Weight)
				}
				if b.Backup {
					text += " backup"
				}
				all = append(all, text)
			}
			z.mu.Lock()
			defer z.mu.Unlock()
			*got = append(*got, strings.Join(all, ", "))
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return got
}

func TestDNSKeepsTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{ips: map[string][]string{"api.example.org.": {"10.0.0.1", "fd00::1", "::ffff:10.0.0.2"}}}
		d := NewDNS(DNSOptions{Name: "api.example.org", Port: 6443, Resolver: z})
		got := looked(t, z, d)
		if want := []string{"10.0.0.1:6443, [fd00::1]:6443, 10.0.0.2:6443"}; !slices.Equal(*got, want) || !d.Status().OK {
			t.Errorf("%q, %+v", *got, d.Status())
		}
		for _, c := range []struct {
			broken func()
			want   string
		}{
			{func() { z.err = errors.New("server misbehaving") }, "look up api.example.org: server misbehaving"},
			{func() { z.err, z.ips = nil, nil }, "look up api.example.org: no such name or no address; the last answer stays"},
			{func() { z.hang = true }, "look up api.example.org: no answer from 10.0.0.53:53; the last answer stays"},
		} {
			z.change(func() { c.broken(); *got = nil })
			time.Sleep(time.Minute)
			synctest.Wait()
			if s := d.Status(); len(*got) > 0 || s.OK || s.Error != c.want {
				t.Errorf("published %q, %+v", *got, s)
			}
		}
		z.change(func() { z.hang, z.ips = false, map[string][]string{"api.example.org.": {"10.0.0.3"}} })
		time.Sleep(2 * (lookupEvery + lookupTimeout))
		synctest.Wait()
		if s := d.Status(); !slices.Contains(*got, "10.0.0.3:6443") || !s.OK {
			t.Errorf("%q, %+v", *got, s)
		}
	})
}

func TestDNSPeriodAndFamily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{ips: map[string][]string{"api": {"10.0.0.1", "fd00::1"}}}
		got := looked(t, z, NewDNS(DNSOptions{Name: "api", Port: 1, Family: "ip6", Every: time.Minute, Resolver: z}))
		time.Sleep(time.Hour)
		synctest.Wait()
		if z.asked < 54 || z.asked > 61 || (*got)[0] != "[fd00::1]:1" {
			t.Errorf("asked %d times in an hour; %q", z.asked, (*got)[0])
		}
	})
}

func TestDNSServiceRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "_https._tcp.example.org"
		z := &zone{
			ips: map[string][]string{"a.": {"10.0.0.1"}, "b.": {"10.0.0.2", "10.0.0.3"}, "c.": {"10.0.0.4"}},
			srv: map[string][]*net.SRV{name + ".": {{Target: "a.", Port: 6443, Priority: 1, Weight: 5}, {Target: "b.", Port: 443, Priority: 1}, {Target: "c.", Port: 1, Priority: 9, Weight: 1}}},
		}
		d := NewDNS(DNSOptions{Name: name, SRV: true, Resolver: z})
		got := looked(t, z, d)
		const all = "10.0.0.1:6443*5, 10.0.0.2:443*1, 10.0.0.3:443*1, 10.0.0.4:1*1 backup"
		if !slices.Equal(*got, []string{all}) {
			t.Errorf("%q", *got)
		}
		z.change(func() { delete(z.ips, "b."); *got = nil }) // one target fails: it keeps its addresses
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := d.Status(); len(*got) == 0 || (*got)[0] != all || s.OK || !strings.Contains(s.Error, "look up b.: no such name") {
			t.Errorf("%q, %+v", *got, s)
		}
		z.change(func() { z.srv[name+"."] = []*net.SRV{{Target: "c.", Port: 1, Priority: 9}}; *got = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := d.Status(); len(*got) == 0 || (*got)[0] != "10.0.0.4:1" || !s.OK {
			t.Errorf("%q, %+v", *got, s)
		}
	})
}
