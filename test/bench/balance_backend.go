package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// backendPort is where every stand-in listens, each on its own address.
const backendPort = 16443

// addressOf is the address of backend n.
func addressOf(n int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, byte(10 + n)}) }

// backend is a stand-in for an apiserver, in a process of its own.
type backend struct {
	*child
	g       *ground
	kind    string
	number  int
	address string
	state   string // file
}

// backends starts n stand-ins.
func (g *ground) backends(ctx context.Context, kind string, n int) ([]*backend, error) {
	var all []*backend
	for i := range n {
		b := &backend{g: g, kind: kind, number: i + 1}
		b.address = net.JoinHostPort(addressOf(b.number).String(), strconv.Itoa(backendPort))
		b.state = filepath.Join(g.dir, "state-"+strconv.Itoa(b.number))
		all = append(all, b)
		if err := b.start(ctx); err != nil {
			end(all)
			return nil, err
		}
	}
	return all, nil
}

func end(all []*backend) {
	for _, b := range all {
		b.kill()
	}
}

func addresses(all []*backend) []string {
	var s []string
	for _, b := range all {
		s = append(s, b.address)
	}
	return s
}

// start returns when the stand-in accepts.
func (b *backend) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := b.say("ok"); err != nil {
		return err
	}
	b.child, err = b.g.spawn("backend", self, backendRole, "--kind", b.kind, "--address", b.address,
		"--number", strconv.Itoa(b.number), "--state", b.state, "--cert", b.g.pki.ServerCert, "--key", b.g.pki.ServerKey)
	if err != nil {
		return err
	}
	return until(ctx, 10*time.Second, "backend "+b.address, func() (bool, error) {
		if b.gone() {
			return false, fmt.Errorf("backend ended: %s", b.tail())
		}
		c, err := net.DialTimeout("tcp", b.address, time.Second)
		if err != nil {
			return false, nil
		}
		return true, c.Close()
	})
}

// say sets how /readyz answers: "ok", "fail", or a delay such as "800ms".
func (b *backend) say(state string) error { return os.WriteFile(b.state, []byte(state), 0o644) }

// runBackend is the process of a stand-in.
func runBackend(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(backendRole, flag.ContinueOnError)
	kind := flags.String("kind", "tls", "tls: HTTPS with /readyz; fast: few connections, much work; idle: many connections, no work")
	address := flags.String("address", "", "where to listen")
	number := flags.Int("number", 0, "which backend this is")
	state := flags.String("state", "", "file that says how /readyz answers")
	cert := flags.String("cert", "", "certificate")
	key := flags.String("key", "", "key")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	l, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	switch *kind {
	case "tls":
		pair, err := tls.LoadX509KeyPair(*cert, *key)
		if err != nil {
			return err
		}
		return serveTLS(l, pair, *state, *number)
	case "fast":
		return serveFast(l)
	case "idle":
		return serveIdle(l)
	}
	return fmt.Errorf("--kind %q: no such kind", *kind)
}

// numberHeader says which backend has answered.
const numberHeader = "Backend"

func serveTLS(l net.Listener, pair tls.Certificate, state string, number int) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		b, _ := os.ReadFile(state)
		switch s := strings.TrimSpace(string(b)); s {
		case "ok":
		case "fail":
			http.Error(w, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed", http.StatusInternalServerError)
			return
		default:
			d, _ := time.ParseDuration(s)
			time.Sleep(d)
		}
		_, _ = io.WriteString(w, "ok")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(numberHeader, strconv.Itoa(number))
		_, _ = io.WriteString(w, "hello")
	})
	s := &http.Server{
		Handler: mux, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	return s.ServeTLS(l, "", "")
}

// The protocol of the plain stand-ins: a request has 200 bytes, of which the
// first says what is wanted.
const (
	messageSize = 200
	wantReply   = 'r' // 200 bytes back, as often as asked
	wantStream  = 's' // bytes without end
	chunk       = 256 << 10
)

// serveFast answers from threads that block in system calls: the cheapest a
// server can be, so that the balancer is what is measured.
func serveFast(l net.Listener) error {
	const threads = 64
	runtime.GOMAXPROCS(threads) // each returns from the kernel to a processor of its own
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // also keeps the collector from closing it
	fd := int(f.Fd())                // blocking from here on
	failed := make(chan error, threads)
	for range threads {
		go func() {
			buffer := make([]byte, chunk)
			for {
				c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
				if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ECONNABORTED) {
					continue
				}
				if err != nil {
					failed <- err
					return
				}
				_ = unix.SetsockoptInt(c, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
				answer(raw(c), buffer)
				_ = unix.Close(c)
			}
		}()
	}
	return <-failed
}

func serveIdle(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = c.Close() }()
			answer(c, make([]byte, messageSize))
		}()
	}
}

// answer serves one connection until its end.
func answer(c io.ReadWriter, buffer []byte) {
	for {
		if _, err := io.ReadFull(c, buffer[:messageSize]); err != nil {
			return
		}
		if buffer[0] == wantReply {
			if _, err := c.Write(buffer[:messageSize]); err != nil {
				return
			}
			continue
		}
		for {
			if _, err := c.Write(buffer); err != nil {
				return
			}
		}
	}
}
