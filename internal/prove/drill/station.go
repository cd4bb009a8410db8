package drill

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"golang.org/x/net/ipv4"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// stationPort is where every machine of the address answers, over UDP and TCP.
const stationPort = 7070

// station answers on a machine for whatever addresses it has, and says its name.
type station struct{ closers []io.Closer }

func newStation(node *lab.Node) (*station, error) {
	var packets net.PacketConn
	var listener net.Listener
	err := node.Do(func() (err error) {
		if packets, err = net.ListenPacket("udp4", ":"+strconv.Itoa(stationPort)); err != nil {
			return err
		}
		listener, err = net.Listen("tcp4", ":"+strconv.Itoa(stationPort))
		return err
	})
	s := &station{}
	if packets != nil {
		s.closers = append(s.closers, packets)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("listen on %s: %w", node.Name(), err)
	}
	s.closers = append(s.closers, listener)
	conn := ipv4.NewPacketConn(packets)
	if err := conn.SetControlMessage(ipv4.FlagDst, true); err != nil {
		s.close()
		return nil, fmt.Errorf("listen on %s: %w", node.Name(), err)
	}
	go answerPackets(conn, node.Name())
	go answerLines(listener)
	return s, nil
}

func (s *station) close() {
	for _, c := range s.closers {
		_ = c.Close()
	}
}

// answerPackets sends back what comes, with a name, from the address that was
// asked.
func answerPackets(conn *ipv4.PacketConn, name string) {
	b := make([]byte, 512)
	for {
		n, cm, from, err := conn.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && cm != nil {
			_, _ = conn.WriteTo(append(b[:n:n], " "+name...), &ipv4.ControlMessage{Src: cm.Dst}, from)
		}
	}
}

// answerLines sends lines back until the connection ends.
func answerLines(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				if _, err := conn.Write(append(lines.Bytes(), '\n')); err != nil {
					return
				}
			}
		}()
	}
}
