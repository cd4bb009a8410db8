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
	station *segment.Station
	address netip.Addr
	conn    net.PacketConn
	ears    *os.File // ARP
	latest  atomic.Int64
	stop    context.CancelFunc
	all     sync.WaitGroup

	mu      sync.Mutex
	asked   []question // by number
	replies []reply    // by the machine's MAC
}

// New asks for an IPv4 address from a station. Machines are told apart in ARP by
// the last byte of the MAC, as segment gives them out.
func New(s *segment.Station, address netip.Addr) (*Caller, error) {
	c := &Caller{station: s, address: address}
	var ears int
	err := s.Do(func() (err error) {
		if c.conn, err = net.ListenPacket("udp4", ":0"); err != nil {
			return err
		}
		ears, err = arpSocket()
		return err
	})
	if err != nil {
		if c.conn != nil {
			_ = c.conn.Close()
		}
		return nil, fmt.Errorf("make client: %w", err)
	}
	c.ears = os.NewFile(uintptr(ears), "arp")
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, Port))
	c.all.Go(func() { every(ctx, pace, func() { _, _ = c.conn.WriteTo(c.number(), to) }) })
	c.all.Go(c.hearEchoes)
	ask := announce.ARP{
		To: announce.Broadcast, From: announce.MAC(s.MAC), Op: announce.Request,
		SenderMAC: announce.MAC(s.MAC), Sender: s.Four, Target: address,
	}.Append(nil)
	c.all.Go(func() { every(ctx, pry, func() { _, _ = c.ears.Write(ask) }) })
	c.all.Go(c.hearReplies)
	return c, nil
}

// Close ends the asking.
func (c *Caller) Close() {
	c.stop()
	_ = c.conn.Close()
	_ = c.ears.Close()
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

func (c *Caller) hearReplies() {
	b := make([]byte, 256)
	for {
		n, err := c.ears.Read(b)
		if err != nil {
			return
		}
		a, err := announce.ParseARP(b[:n])
		// Gratuitous ones go to all: those are announcements, not answers.
		if err != nil || a.Op != announce.Reply || a.Sender != c.address || a.Target != c.station.Four {
			continue
		}
		c.mu.Lock()
		c.replies = append(c.replies, reply{time.Now(), int(a.SenderMAC[5])})
		c.mu.Unlock()
	}
}

// Last is who gave the latest answer; 0: nobody yet.
func (c *Caller) Last() int { return int(c.latest.Load()) }

// Neighbor is the MAC that the client's kernel believes the address to have, ""
// where it knows none.
func (c *Caller) Neighbor() string {
	eth, err := c.station.Netlink.LinkByName(segment.Interface)
	if err != nil {
		return err.Error()
	}
	all, err := c.station.Netlink.NeighList(eth.Attrs().Index, unix.AF_INET)
	if err != nil {
		return err.Error()
	}
	for _, n := range all {
		if n.IP.Equal(c.address.AsSlice()) {
			return n.HardwareAddr.String()
		}
	}
	return ""
}
