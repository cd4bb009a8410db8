package bgp

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// queue is how many messages may wait for a peer that takes none.
const queue = 512

// farewell is how long a connection is kept after its last message so that it
// gets out.
const farewell = time.Second

// connection moves messages of one line.
type connection struct {
	tcp  *net.TCPConn
	out  chan []byte
	once sync.Once
}

// serve starts a connection. heard is called with what comes, in order, by one
// goroutine; gone when nothing more will; done when the connection is closed.
func serve(tcp *net.TCPConn, heard func(*packet.BGPMessage, *packet.MessageError), gone func(error), done func()) *connection {
	c := &connection{tcp: tcp, out: make(chan []byte, queue)}
	go func() {
		defer done()
		c.write()
	}()
	go func() {
		var buffer [maxLength]byte
		for {
			m, err := read(tcp, &buffer)
			if err == nil {
				heard(m, nil)
				continue
			}
			if bad, ok := errors.AsType[*packet.MessageError](err); ok {
				heard(nil, bad)
				return
			}
			gone(err)
			return
		}
	}()
	return c
}

// send queues a message; false: too many wait, and the line is as good as lost.
func (c *connection) send(m *packet.BGPMessage) bool {
	data, err := m.Serialize()
	if err != nil {
		return false
	}
	select {
	case c.out <- data:
		return true
	default:
		return false
	}
}

func (c *connection) write() {
	for data := range c.out {
		if _, err := c.tcp.Write(data); err != nil {
			break // the reader finds out
		}
	}
	// Hung up, or broken. The peer is to read the last message before it learns
	// of the end; data of its own that nobody reads would make the kernel answer
	// with a reset, which takes that message away (RFC 2525 section 2.17).
	_ = c.tcp.CloseWrite()
	_ = c.tcp.SetReadDeadline(time.Now().Add(farewell))
	_, _ = io.Copy(io.Discard, c.tcp)
	_ = c.tcp.Close()
}

// hangup closes the connection after what was sent.
func (c *connection) hangup() {
	c.once.Do(func() {
		// A peer that takes nothing is not waited for.
		_ = c.tcp.SetWriteDeadline(time.Now().Add(farewell))
		close(c.out)
	})
}

// causeOfEnd is why a connection ended.
func causeOfEnd(err error) Cause {
	c := Cause{Kind: Closed, Text: "by the peer"}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		c.Text = "by the network"
		var op *net.OpError
		if errors.As(err, &op) {
			c.Text = op.Err.Error()
		}
	}
	return c
}
