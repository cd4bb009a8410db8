package relay

import (
	"io"
	"net"
	"testing"
)

// goroutines is the plain proxy that the loops are compared with: two
// goroutines per connection and io.Copy, which splices.
func goroutines(b *testing.B, to string) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				up, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer up.Close()
				go func() {
					_, _ = io.Copy(up, c)
					_ = up.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(c, up)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
		}
	}()
	return ln.Addr().String()
}

// sides runs a benchmark directly, through the loops and through goroutines.
func sides(b *testing.B, handle func(*net.TCPConn), run func(b *testing.B, address string)) {
	up := backend(b, handle)
	b.Run("direct", func(b *testing.B) { run(b, up.Address) })
	b.Run("goroutines", func(b *testing.B) { run(b, goroutines(b, up.Address)) })
	b.Run("loops", func(b *testing.B) {
		r := newRig(b, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
		r.silent = true
		run(b, r.address)
	})
}

// BenchmarkShort opens a connection, exchanges 200 bytes and closes it.
func BenchmarkShort(b *testing.B) {
	sides(b, echo, func(b *testing.B, address string) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for message := make([]byte, 200); pb.Next(); {
				c, err := net.Dial("tcp", address)
				if err != nil {
					b.Error(err)
					return
				}
				roundTrip(b, c, message)
				c.Close()
			}
		})
	})
}

// BenchmarkKept exchanges 200 bytes over connections that stay open.
func BenchmarkKept(b *testing.B) {
	sides(b, echo, func(b *testing.B, address string) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			c, err := net.Dial("tcp", address)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			for message := make([]byte, 200); pb.Next(); {
				roundTrip(b, c, message)
			}
		})
	})
}

func roundTrip(b *testing.B, c net.Conn, message []byte) {
	if _, err := c.Write(message); err != nil {
		b.Error(err)
		return
	}
	if _, err := io.ReadFull(c, message); err != nil {
		b.Error(err)
	}
}

// BenchmarkBulk reads from a server that writes without end.
func BenchmarkBulk(b *testing.B) {
	pour := func(c *net.TCPConn) {
		for piece := make([]byte, 256<<10); ; {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
	}
	sides(b, pour, func(b *testing.B, address string) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		piece := make([]byte, 256<<10)
		b.SetBytes(int64(len(piece)))
		for b.Loop() {
			if _, err := io.ReadFull(c, piece); err != nil {
				b.Fatal(err)
			}
		}
	})
}
