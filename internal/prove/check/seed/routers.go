package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// What FRR on a machine is asked for, as bundles name it.
const (
	summary = "!vtysh-bgp-summary.json"
	table   = "!vtysh-bgp-ipv4.json"
)

// routes says that a machine runs FRR, whose answers are asked for.
func routes(files map[string][]byte) bool { return files[summary] != nil || files[table] != nil }

// speaker is a machine that speaks BGP.
type speaker struct {
	address netip.Addr
	// bgpd are its settings, announced the addresses that it has for others.
	bgpd      string
	announced []netip.Addr
}

// speakers are the machine of an example, which comes first, and those that it speaks
// with: its own settings and neighbours that take all and give nothing, or a router
// and machines that announce what the router is to have.
func speakers(files map[string][]byte) ([]speaker, error) {
	if settings := files["/etc/frr/frr.conf"]; settings != nil {
		return neighbours(settings)
	}
	if files[table] != nil {
		return announcers(files[table])
	}
	return nil, errors.New("a machine with FRR and neither its settings nor its table")
}

func neighbours(settings []byte) ([]speaker, error) {
	root := conf.FRR(settings).First("router", "bgp")
	own, err := netip.ParseAddr(root.First("bgp", "router-id").Word(2))
	if err != nil {
		return nil, fmt.Errorf("router-id of frr.conf: %w", err)
	}
	first := speaker{address: own, bgpd: string(settings)}
	all := []speaker{first}
	root.Walk(func(b *conf.Block) {
		switch {
		case b.Word(0) == "network":
			if p, err := netip.ParsePrefix(b.Word(1)); err == nil {
				all[0].announced = append(all[0].announced, p.Addr())
			}
		case b.Word(0) == "neighbor" && b.Word(2) == "remote-as":
			if a, err := netip.ParseAddr(b.Word(1)); err == nil {
				all = append(all, speaker{address: a, bgpd: plain(b.Word(3), a, []netip.Addr{own}, root.Word(2), nil)})
			}
		}
	})
	return all, nil
}

// announcersAS is that of machines that announce to the router of an example.
const announcersAS, routerAS = "65001", "65000"

func announcers(data []byte) ([]speaker, error) {
	var t struct {
		Routes map[netip.Prefix][]struct {
			Nexthops []struct {
				IP netip.Addr `json:"ip"`
			} `json:"nexthops"`
		} `json:"routes"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	by := map[netip.Addr][]netip.Addr{}
	for prefix, paths := range t.Routes {
		for _, path := range paths {
			for _, hop := range path.Nexthops {
				by[hop.IP] = append(by[hop.IP], prefix.Addr())
			}
		}
	}
	router := netip.MustParseAddr("10.0.0.1")
	hops := slices.SortedFunc(maps.Keys(by), netip.Addr.Compare)
	all := []speaker{{address: router, bgpd: plain(routerAS, router, hops, announcersAS, nil)}}
	for _, hop := range hops {
		all = append(all, speaker{address: hop, announced: by[hop], bgpd: plain(announcersAS, hop, []netip.Addr{router}, routerAS, by[hop])})
	}
	return all, nil
}

// plain are settings of bgpd without any policy, and without BFD: a busy machine would
// end sessions by it.
func plain(as string, own netip.Addr, peers []netip.Addr, peersAS string, announced []netip.Addr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router bgp %s\n bgp router-id %s\n no bgp ebgp-requires-policy\n", as, own)
	for _, p := range peers {
		fmt.Fprintf(&b, " neighbor %s remote-as %s\n", p, peersAS)
	}
	b.WriteString(" address-family ipv4 unicast\n  maximum-paths 8\n")
	for _, a := range announced {
		fmt.Fprintf(&b, "  network %s/32\n", a)
	}
	b.WriteString(" exit-address-family\n")
	return b.String()
}

// routers are speakers that run, each on a machine of its own on one segment.
type routers struct {
	segment  *segment.Segment
	spawners []*space.Spawner
	running  []*exec.Cmd
	dir      string
}

// routers starts the machine of an example and who it speaks with. What is to be ended
// is returned with an error, too.
func startRouters(ctx context.Context, files map[string][]byte, dir string) (*routers, error) {
	r := &routers{dir: dir}
	if err := frr.Preflight(); err != nil {
		return r, err
	}
	all, err := speakers(files)
	if err != nil {
		return r, err
	}
	if r.segment, err = segment.New(len(all)); err != nil {
		return r, err
	}
	for i := range all {
		by, err := space.NewSpawner(r.segment.Station(i + 1).Space)
		if err != nil {
			return r, err
		}
		r.spawners = append(r.spawners, by)
	}
	// The machine itself comes last: whom it calls is there, and it need not wait for
	// two minutes to call again.
	for i, s := range slices.Backward(all) {
		if err := r.speak(ctx, i, s); err != nil {
			return r, err
		}
	}
	for name, want := range files {
		if err := await(ctx, func() error { return r.says(ctx, name, want) }); err != nil {
			return r, fmt.Errorf("await routes: %w", err)
		}
	}
	return r, nil
}

// speak gives a station its addresses and starts its daemons.
func (r *routers) speak(ctx context.Context, i int, s speaker) error {
	station := r.segment.Station(i + 1)
	add := func(ifname string, p netip.Prefix) error {
		link, err := station.Netlink.LinkByName(ifname)
		if err != nil {
			return fmt.Errorf("find interface: %w", err)
		}
		one := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
		return station.Netlink.AddrAdd(link, &netlink.Addr{IPNet: one})
	}
	if err := add(segment.Interface, netip.PrefixFrom(s.address, 24)); err != nil {
		return fmt.Errorf("add %s: %w", s.address, err)
	}
	for _, a := range s.announced {
		if err := add("lo", netip.PrefixFrom(a, 32)); err != nil {
			return fmt.Errorf("add %s: %w", a, err)
		}
	}
	for _, d := range []struct{ name, settings string }{{"zebra", ""}, {"bfdd", ""}, {"bgpd", s.bgpd}} {
		cmd, err := frr.Command(r.sockets(i), d.name, d.settings)
		if err != nil {
			return err
		}
		if err := r.spawners[i].Start(cmd); err != nil {
			return fmt.Errorf("start %s: %w", d.name, err)
		}
		r.running = append(r.running, cmd)
		waitCtx, cancel := context.WithTimeout(ctx, patience)
		err = frr.Console{Dir: r.sockets(i)}.Await(waitCtx, d.name)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *routers) sockets(i int) string { return filepath.Join(r.dir, fmt.Sprint("frr-", i)) }

// says reports that the machine does not say yet what the example has it say.
func (r *routers) says(ctx context.Context, command string, want []byte) error {
	console := frr.Console{Dir: r.sockets(0)}
	switch command {
	case summary:
		type families map[string]struct {
			Peers map[string]struct {
				State    string `json:"state"`
				Received int    `json:"pfxRcd"`
				Sent     int    `json:"pfxSnt"`
			} `json:"peers"`
		}
		return same[families](ctx, console, "show bgp summary json", want)
	case table:
		type paths struct {
			Routes map[string][]struct {
				Valid bool `json:"valid"`
			} `json:"routes"`
		}
		return same[paths](ctx, console, "show bgp ipv4 unicast json", want)
	}
	return nil
}

// same reports that a machine's answer differs from the one wanted by what T has.
func same[T any](ctx context.Context, console frr.Console, command string, want []byte) error {
	var is, wanted T
	if err := json.Unmarshal(want, &wanted); err != nil {
		return err
	}
	if err := console.JSON(ctx, "bgpd", command, &is); err != nil {
		return err
	}
	if a, b := fmt.Sprint(is), fmt.Sprint(wanted); a != b {
		return fmt.Errorf("%s: %s, want %s", command, a, b)
	}
	return nil
}

// inside is what a shell does with mounts of its own: it makes a directory the root of
// a machine whose FRR is asked by its sockets, and runs the program there.
const inside = `set -e
root=$1 sockets=$2 out=$3 program=$4
shift 4
mount --make-rprivate /
for d in usr bin sbin lib lib64 proc dev; do
	[ -d /$d ] || continue
	mkdir -p "$root/$d"
	mount --rbind "/$d" "$root/$d"
done
mkdir -p "$root/run/frr" "$root/out" "$root/tmp" "$root/var"
ln -s ../run "$root/var/run"
cp -r /etc/passwd /etc/group /etc/pam.d "$root/etc/" # vtysh asks who calls it
mount --bind "$sockets" "$root/run/frr"
mount --bind "$out" "$root/out"
: > "$root/holdfast"
mount --bind "$program" "$root/holdfast"
exec chroot "$root" /holdfast "$@"`

// collect makes the bundle of the machine, whose root has its files, in its directory
// and returns its path.
func (r *routers) collect(o Options, root, node string) (string, error) {
	out := filepath.Join(r.dir, "out")
	if err := os.MkdirAll(out, 0o700); err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	args := []string{"-c", inside, "sh", root, r.sockets(0), out}
	args = append(append(args, o.Program...), "check", "collect", "--node", "-o", "/out/"+node+".tgz")
	cmd := exec.Command("/bin/sh", args...)
	cmd.Env = append(os.Environ(), o.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := r.spawners[0].Start(cmd); err != nil {
		return "", fmt.Errorf("start machine %s: %w", node, err)
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("collect machine %s: %w: %s", node, err, said.String())
	}
	return filepath.Join(out, node+".tgz"), nil
}

func (r *routers) end() error {
	for _, cmd := range r.running {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
	for _, by := range r.spawners {
		by.Close()
	}
	if r.segment == nil {
		return nil
	}
	return r.segment.Close()
}
