package caller

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

const (
	pace = time.Millisecond
	// pry is how often all are asked by ARP.
	pry = 5 * time.Millisecond
	// tail is how old a question must be to count as lost.
	tail = 50 * time.Millisecond
)

// reply is one to ARP.
type reply struct {
	at time.Time
	by int
}

// question is one that was asked.
type question struct {
	at time.Time
	by int // who answered; 0: nobody yet
}

// Caller asks until it is closed.
type Caller struct {
	station, observer *segment.Station

	address netip.Addr
	conn    net.PacketConn
	ears    *os.File // ARP
	latest  atomic.Int64
	hushed  atomic.Bool
	running context.Context
	stop    context.CancelFunc
	all     sync.WaitGroup

	mu      sync.Mutex
	asked   []question // by number
	replies []reply
	taps    []*os.File // of machines told apart by their cables
}

// New asks for an IPv4 address from a station, and by ARP from an observer, which
// is another: a reply to the client would mend what its kernel believes. Machines
// are told apart in ARP by the last byte of the MAC, as segment gives them out.
func New(client, observer *segment.Station, address netip.Addr) (*Caller, error) {
	c := &Caller{station: client, observer: observer, address: address}
	err := client.Do(func() (err error) {
		c.conn, err = net.ListenPacket("udp4", ":0")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	var ears int
	err = observer.Do(func() (err error) {
		ears, err = arpSocket()
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make observer: %w", err), c.conn.Close())
	}
	c.ears = os.NewFile(uintptr(ears), "arp")
	ctx, stop := context.WithCancel(context.Background())
	c.running, c.stop = ctx, stop
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, Port))
	c.all.Go(func() { every(ctx, pace, func() { _, _ = c.conn.WriteTo(c.number(), to) }) })
	c.all.Go(c.hearEchoes)
	ask := announce.ARP{
		To: announce.Broadcast, From: announce.MAC(observer.MAC), Op: announce.Request,
		SenderMAC: announce.MAC(observer.MAC), Sender: observer.Four, Target: address,
	}.Append(nil)
	c.all.Go(func() {
		every(ctx, pry, func() {
			if !c.hushed.Load() {
				_, _ = c.ears.Write(ask)
			}
		})
	})
	c.all.Go(func() { c.hearReplies(c.ears, byMAC) })
	return c, nil
}

// byMAC marks replies that are told apart by their hardware address.
const byMAC = -1

// Trace tells machines apart in ARP by their cables from now on: stations that
// share a virtual hardware address. The first is machine 1.
func (c *Caller) Trace(machines ...*segment.Station) error {
	for i, m := range machines {
		tap, err := m.Tap(unix.ETH_P_ARP)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.taps = append(c.taps, tap)
		c.mu.Unlock()
		c.all.Go(func() { c.hearReplies(tap, i+1) })
	}
	return nil
}

// Close ends the asking.
func (c *Caller) Close() {
	c.stop()
	_ = c.conn.Close()
	_ = c.ears.Close()
	c.mu.Lock()
	for _, t := range c.taps {
		_ = t.Close()
	}
	c.mu.Unlock()
	c.all.Wait()
}

func arpSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0x0608)
	if err != nil {
		return 0, err
	}
	iface, err := net.InterfaceByName(segment.Interface)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0608, Ifindex: iface.Index})
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// number is the next question.
func (c *Caller) number() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, question{at: time.Now()})
	return binary.BigEndian.AppendUint32(nil, uint32(len(c.asked)-1))
}

func (c *Caller) hearEchoes() {
	b := make([]byte, 64)
	for {
		n, _, err := c.conn.ReadFrom(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil || n != 5:
			continue // an ICMP error of nobody there
		}
		by := int(b[4])
		c.latest.Store(int64(by))
		c.mu.Lock()
		c.asked[binary.BigEndian.Uint32(b)].by = by
		c.mu.Unlock()
	}
}

func (c *Caller) hearReplies(from *os.File, by int) {
	b := make([]byte, 256)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		a, err := announce.ParseARP(b[:n])
		// Gratuitous ones go to all: those are announcements, not answers.
		if err != nil || a.Op != announce.Reply || a.Sender != c.address || a.Target != c.observer.Four {
			continue
		}
		c.mu.Lock()
		switch {
		case by != byMAC:
			c.replies = append(c.replies, reply{time.Now(), by})
		case len(c.taps) == 0:
			c.replies = append(c.replies, reply{time.Now(), int(a.SenderMAC[5])})
		}
		c.mu.Unlock()
	}
}

// Hush asks nobody by ARP any more, or again. Where the hardware address moves with
// the address, backups may answer with the same one, and the bridge believes the
// latest: FRR's do, from a macvlan that has no carrier.
func (c *Caller) Hush(on bool) { c.hushed.Store(on) }

// Last is who gave the latest answer; 0: nobody yet.
func (c *Caller) Last() int { return int(c.latest.Load()) }

// Neighbor is the MAC that the client's kernel believes an address to have, of
// either family, "" where it knows none.
func (c *Caller) Neighbor(of netip.Addr) string {
	family := unix.AF_INET
	if of.Is6() {
		family = unix.AF_INET6
	}
	eth, err := c.station.Netlink.LinkByName(segment.Interface)
	if err != nil {
		return err.Error()
	}
	all, err := c.station.Netlink.NeighList(eth.Attrs().Index, family)
	if err != nil {
		return err.Error()
	}
	for _, n := range all {
		if n.IP.Equal(of.AsSlice()) {
			return n.HardwareAddr.String()
		}
	}
	return ""
}

// Also talks to another address, of either family, without asking for answers, so
// that the client's kernel has to believe something of it.
func (c *Caller) Also(address netip.Addr) error {
	var conn net.PacketConn
	err := c.station.Do(func() (err error) {
		conn, err = net.ListenPacket("udp", ":0")
		return err
	})
	if err != nil {
		return fmt.Errorf("talk to %s: %w", address, err)
	}
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, Port))
	c.all.Go(func() {
		defer func() { _ = conn.Close() }()
		every(c.running, pry, func() { _, _ = conn.WriteTo([]byte{0}, to) })
	})
	return nil
}
