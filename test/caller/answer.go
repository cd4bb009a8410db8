package caller

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/net/ipv4"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// Port is where machines answer.
const Port = 7

// Answer answers datagrams to any IPv4 address of a station with its number,
// from the address that was asked, until it is closed.
func Answer(s *segment.Station, number byte) (io.Closer, error) {
	var conn net.PacketConn
	err := s.Do(func() (err error) {
		conn, err = net.ListenPacket("udp4", fmt.Sprintf("0.0.0.0:%d", Port))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on station %d: %w", number, err)
	}
	p := ipv4.NewPacketConn(conn)
	if err := p.SetControlMessage(ipv4.FlagDst, true); err != nil {
		return nil, errors.Join(fmt.Errorf("ask for addresses of packets: %w", err), conn.Close())
	}
	go answer(p, number)
	return conn, nil
}

func answer(p *ipv4.PacketConn, number byte) {
	b := make([]byte, 64)
	for {
		n, cm, from, err := p.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		_, _ = p.WriteTo(append(b[:n:n], number), &ipv4.ControlMessage{Src: cm.Dst}, from)
	}
}
