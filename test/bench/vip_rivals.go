package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// rival is a way to hold the address, one of those that are compared.
type rival struct {
	name string
	// interval is between adverts; 0: it sends none.
	interval time.Duration
	// settle is how long after the others were started they are the holder's
	// backups for certain.
	settle time.Duration
	// start starts the programs of a machine; the lower the number, the better.
	start func(a *arena, i int) error
	// virtual says that the hardware address moves with the address.
	virtual bool
	// spread says that all machines have another address, announced to a router.
	spread bool
}

const (
	vrid = 51
	// virtualMAC is that of RFC 9568 section 7.3 for the VRID.
	virtualMAC = "00:00:5e:00:01:33"
)

// priorityOf a machine: the first backup has 200, which makes the skew of RFC
// 9568 section 6.1 the same 22 % of an interval for all.
func priorityOf(i int) int { return 220 - 10*i }

// settling is how long backups need at an interval: keepalived and FRR wait for
// three adverts and the skew before they are sure of their state.
func settling(interval time.Duration) time.Duration { return 4*interval + 1500*time.Millisecond }

// ourVRRP is ours; extra are lines below its group.
func ourVRRP(interval time.Duration, extra string) rival {
	return rival{name: "holdfast", interval: interval, settle: settling(interval), start: func(a *arena, i int) error {
		return a.ours(i, fmt.Sprintf("    vrrp: {vrid: %d, priority: %d, interval: %s}\n%s", vrid, priorityOf(i), interval, extra))
	}}
}

// ours starts our agent with one group; election are lines of it.
func (a *arena) ours(i int, election string) error {
	path, err := a.write(fmt.Sprintf(`
groups:
  - name: api
    addresses: ["%s"]
    interface: %s
%s
control: %s
telemetry: {listen: "%s:9389"}
`, prize, segment.Interface, election, a.socket(i), a.segment.Station(i).Four), "vip-%d.yaml", i)
	if err != nil {
		return err
	}
	return a.enlist(i, "holdfast", a.y.binary, "vip", "run", "--config", path)
}

func (a *arena) socket(i int) string { return a.path("vip-%d.sock", i) }

// keepalivedName is Debian's, see scripts/setup.
const keepalivedName = "keepalived 2.2"

// keepalived is the peer; script are lines before its instance, and tracks lines
// in it.
func keepalived(interval time.Duration, script, tracks string) rival {
	return rival{name: keepalivedName, interval: interval, settle: settling(interval), start: func(a *arena, i int) error {
		conf, err := a.write(fmt.Sprintf(`global_defs {
  vrrp_version 3
  script_user root
}
%s
vrrp_instance api {
  state BACKUP
  interface %s
  virtual_router_id %d
  priority %d
  advert_int %g
%s
  virtual_ipaddress {
    %s/32
  }
}
`, script, segment.Interface, vrid, priorityOf(i), interval.Seconds(), tracks, prize), "keepalived-%d.conf", i)
		if err != nil {
			return err
		}
		return a.enlist(i, "keepalived", "keepalived", "--dont-fork", "--log-console", "--vrrp", "--use-file", conf,
			"--pid", a.path("keepalived-%d-%d.pid", i, a.begun), "--vrrp_pid", a.path("keepalived-%d-%d-vrrp.pid", i, a.begun))
	}}
}

const frrName = "FRR vrrpd 8.4"

// vrrpd is the other peer. It answers on a macvlan with the virtual MAC that has to
// be there before it starts.
func vrrpd(interval time.Duration) rival {
	return rival{name: frrName, interval: interval, settle: settling(interval), virtual: true, start: func(a *arena, i int) error {
		if err := a.macvlan(i); err != nil {
			return err
		}
		if err := a.zebra(i); err != nil {
			return err
		}
		return a.daemon(i, "vrrpd", fmt.Sprintf("interface %[1]s\n vrrp %[2]d version 3\n vrrp %[2]d priority %[3]d\n vrrp %[2]d advertisement-interval %[4]d\n vrrp %[2]d ip %[5]s\n",
			segment.Interface, vrid, priorityOf(i), interval.Milliseconds(), prize))
	}}
}

// macvlan makes the interface that vrrpd looks for, as its manual says.
func (a *arena) macvlan(i int) error {
	s := a.segment.Station(i)
	eth, err := s.Netlink.LinkByName(segment.Interface)
	if err != nil {
		return err
	}
	mac, err := net.ParseMAC(virtualMAC)
	if err != nil {
		return err
	}
	l := &netlink.Macvlan{
		LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("vrrp4-%d", vrid), ParentIndex: eth.Attrs().Index, HardwareAddr: mac},
		Mode:      netlink.MACVLAN_MODE_BRIDGE,
	}
	if err := s.Netlink.LinkAdd(l); err != nil {
		return fmt.Errorf("add macvlan: %w", err)
	}
	if err := s.Netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: prize.AsSlice(), Mask: net.CIDRMask(32, 32)}}); err != nil {
		return fmt.Errorf("add address: %w", err)
	}
	// Its parent has to leave questions about the address to it.
	err = s.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv4/conf/"+segment.Interface+"/arp_ignore", []byte("1"), 0)
	})
	if err != nil {
		return err
	}
	return s.Netlink.LinkSetUp(l)
}

// zebra starts it and waits: the others come back only after 10 s where they do not
// find it at once.
func (a *arena) zebra(i int) error {
	if err := a.daemon(i, "zebra", ""); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return frr.Console{Dir: a.path("frr-%d", i)}.Await(ctx, "zebra")
}

// daemon starts one of FRR on a station.
func (a *arena) daemon(i int, name, settings string) error {
	cmd, err := frr.Command(a.path("frr-%d", i), name, settings)
	if err != nil {
		return err
	}
	c, err := a.spawn(i, name, cmd)
	if err == nil {
		a.running[i] = append(a.running[i], c)
	}
	return err
}

// believes says what the client's kernel should believe of the address while a
// machine answers.
func (r rival) believes(a *arena, i int) string {
	if r.virtual {
		return virtualMAC
	}
	return a.segment.Station(i).MAC.String()
}
