package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
	"github.com/holdfast-ha/holdfast/test/caller"
)

// prize is the address that is held.
var prize = netip.MustParseAddr("192.0.2.100")

// arena is a segment with machines that hold the address in turn, a client as
// the last station but one, and as the last a place for what they all use, from
// where all are asked by ARP as well.
type arena struct {
	y        *yard
	dir      string
	segment  *segment.Segment
	machines int
	spawners []*space.Spawner // of all stations
	closers  []io.Closer
	client   *caller.Caller
	adverts  *adverts
	store    *store // nil until it is started
	running  map[int][]*child
	lasting  []*child // until the arena is closed
	begun    int      // counts what was started, for names of files
	rounds   int      // counts them
}

func (y *yard) arena(machines int) (*arena, error) {
	dir, err := os.MkdirTemp(y.dir, "arena-")
	if err != nil {
		return nil, err
	}
	a := &arena{y: y, dir: dir, machines: machines, running: map[int][]*child{}}
	if err := a.build(); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *arena) build() (err error) {
	if a.segment, err = segment.New(a.machines + 2); err != nil {
		return fmt.Errorf("%w; run as root", err)
	}
	for i := 1; i <= a.machines+2; i++ {
		s, err := space.NewSpawner(a.segment.Station(i).Space)
		if err != nil {
			return err
		}
		a.spawners = append(a.spawners, s)
	}
	for i := 1; i <= a.machines; i++ {
		c, err := caller.Answer(a.segment.Station(i), byte(i))
		if err != nil {
			return err
		}
		a.closers = append(a.closers, c)
	}
	client := a.segment.Station(a.machines + 1)
	if a.adverts, err = hearAdverts(client); err != nil {
		return err
	}
	a.client, err = caller.New(client, a.segment.Station(a.machines+2), prize)
	return err
}

// close ends everything. What an arena is made of, it has for itself.
func (a *arena) close() {
	a.stop()
	if a.client != nil {
		a.client.Close()
	}
	if a.adverts != nil {
		a.adverts.close()
	}
	for _, c := range a.closers {
		_ = c.Close()
	}
	if a.store != nil {
		a.store.close()
	}
	for _, c := range a.lasting {
		c.kill()
	}
	for _, s := range a.spawners {
		s.Close()
	}
	if a.segment != nil {
		_ = a.segment.Close()
	}
}

// path is of a file of this arena.
func (a *arena) path(format string, args ...any) string {
	return filepath.Join(a.dir, fmt.Sprintf(format, args...))
}

func (a *arena) write(text, format string, args ...any) (string, error) {
	path := a.path(format, args...)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// launch starts a process on a station. It leads a group of processes.
func (a *arena) launch(i int, name string, argv ...string) (*child, error) {
	return a.spawn(i, name, exec.Command(argv[0], argv[1:]...))
}

func (a *arena) spawn(i int, name string, cmd *exec.Cmd) (*child, error) {
	a.begun++
	log, err := os.Create(a.path("%s-%d-%d.log", name, i, a.begun))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	c := &child{cmd: cmd, path: log.Name(), done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := a.spawners[i-1].Start(c.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = c.cmd.Wait() // how it ended matters to nobody
		close(c.done)
	}()
	return c, nil
}

// enlist launches a process of a machine; the last of one is who holds.
func (a *arena) enlist(i int, name string, argv ...string) error {
	c, err := a.launch(i, name, argv...)
	if err == nil {
		a.running[i] = append(a.running[i], c)
	}
	return err
}

// holder is the process of a machine that holds the address.
func (a *arena) holder(i int) *child { return a.running[i][len(a.running[i])-1] }

// signalAll signals every process of a machine and what they have started.
func (a *arena) signalAll(i int, s syscall.Signal) (all []int) {
	for _, c := range a.running[i] {
		if !c.gone() {
			all = append(all, family(c.pid())...)
		}
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, s) // it may have ended by itself
	}
	return all
}

// stop kills the machines' processes.
func (a *arena) stop() {
	for i := range a.running {
		all := a.signalAll(i, syscall.SIGKILL)
		for _, c := range a.running[i] {
			<-c.done
		}
		for _, pid := range all {
			awaitEnd(pid)
		}
	}
	clear(a.running)
}

// awaitEnd waits for a process that is no child of ours, and whose parent may not
// care: then it stays as a zombie.
func awaitEnd(pid int) {
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
	}
}

// reset makes the machines as new, and the client forget.
func (a *arena) reset() error {
	a.stop()
	for i := 1; i <= a.machines; i++ {
		if err := a.sweep(a.segment.Station(i)); err != nil {
			return fmt.Errorf("reset station %d: %w", i, err)
		}
	}
	client := a.segment.Station(a.machines + 1)
	eth, err := client.Netlink.LinkByName(segment.Interface)
	if err != nil {
		return err
	}
	err = client.Netlink.NeighDel(&netlink.Neigh{LinkIndex: eth.Attrs().Index, IP: prize.AsSlice()})
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	a.adverts.forget()
	return err
}

// sweep removes what a holder of an address may leave behind.
func (a *arena) sweep(s *segment.Station) error {
	if err := s.Rejoin(); err != nil {
		return err
	}
	links, err := s.Netlink.LinkList()
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Type() == "macvlan" {
			if err := s.Netlink.LinkDel(l); err != nil {
				return err
			}
		}
	}
	for _, l := range links {
		for _, address := range []netip.Addr{prize, shared} {
			err := s.Netlink.AddrDel(l, &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(32, 32)}})
			if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENODEV) {
				return err
			}
		}
	}
	return s.Do(func() error {
		for _, name := range []string{"arp_ignore", "arp_announce", "rp_filter"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+segment.Interface+"/"+name, []byte("0"), 0); err != nil {
				return err
			}
		}
		return exec.Command("nft", "flush", "ruleset").Run()
	})
}

// on says whether the address is on a machine.
func (a *arena) on(i int) bool {
	all, err := a.segment.Station(i).Netlink.AddrList(nil, unix.AF_INET)
	if err != nil {
		return true // which no figure wants
	}
	for _, x := range all {
		if x.IP.Equal(prize.AsSlice()) {
			return true
		}
	}
	return false
}

// answered waits until a machine answers the client.
func (a *arena) answered(ctx context.Context, within time.Duration, what string, by func(int) bool) error {
	return until(ctx, within, what, func() (bool, error) { return by(a.client.Last()), nil })
}

// filter puts rules of nftables in force on a station; "" takes them back. Only
// the bench's own table is touched.
func (a *arena) filter(i int, rules string) error {
	text := "add table inet bench; delete table inet bench;\n" + rules
	return a.segment.Station(i).Do(func() error {
		out, err := exec.Command("nft", text).CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
}
