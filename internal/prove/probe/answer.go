package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/net/ipv4"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

// answerAs is `holdfast probe --answer`: what udp:// and echo targets ask.
func answerAs(ctx context.Context, listen, name string) error {
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return exit.With(exit.Unknown, fmt.Errorf("find this machine's name: %w; give --name", err))
		}
	}
	return answer(ctx, listen, name)
}

// answer serves until ctx ends.
func answer(ctx context.Context, listen, name string) error {
	packets, err := net.ListenPacket("udp4", listen)
	if err != nil {
		return exit.With(exit.Unknown, fmt.Errorf("listen: %w", err))
	}
	defer func() { _ = packets.Close() }()
	lines, err := net.Listen("tcp4", packets.LocalAddr().String())
	if err != nil {
		return exit.With(exit.Unknown, fmt.Errorf("listen: %w", err))
	}
	defer func() { _ = lines.Close() }()
	conn := ipv4.NewPacketConn(packets)
	if err := conn.SetControlMessage(ipv4.FlagDst, true); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	go answerPackets(conn, name)
	go answerLines(lines)
	<-ctx.Done()
	return nil
}

// answerPackets sends back what comes, with a name, from the address that was
// asked.
func answerPackets(conn *ipv4.PacketConn, name string) {
	b := make([]byte, maxAnswer)
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

// answerLines sends lines back until each connection ends.
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
