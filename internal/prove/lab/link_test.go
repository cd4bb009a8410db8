package lab

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestLinks checks what links do to time, rate and packets, and that they can
// be changed while connections are open.
func TestLinks(t *testing.T) {
	spec := mustDefault(t, "rtt")
	spec.Etcd = nil
	spec.Links[1].Delay = 0 // a–c starts as a veth pair
	l := startLab(t, spec)
	ctx := deadline(t, time.Minute)
	if m := l.links[1]; m.Delay != 0 || !l.netem && l.wires[1].method() != methodVeth {
		t.Fatalf("a-c is made by %s", l.wires[1].method())
	}
	p50, p99 := roundTrips(ctx, t, l, "a1", "b1", 100)
	t.Logf("a-b: 30 ms asked, p50 %v, p99 %v", p50, p99)
	if p50 < 30*time.Millisecond || p50 > 45*time.Millisecond {
		t.Errorf("round trip a-b: %v, 30 ms asked", p50)
	}
	rate := throughput(ctx, t, l, "a1", "b1", time.Second)
	t.Logf("a-b: 100 Mbit/s asked, %.1f measured", rate/1e6)
	// A busy machine carries less; more would be a broken limit.
	if rate < 5e6 || rate > 110e6 {
		t.Errorf("rate a-b: %.1f Mbit/s, 100 asked", rate/1e6)
	}
	for _, to := range []Link{
		{A: "a", B: "c", Delay: 20 * time.Millisecond},
		{A: "c", B: "a", Delay: 5 * time.Millisecond, Jitter: time.Millisecond, Rate: 10e6},
		{A: "a", B: "c", Loss: 0.1},
	} {
		if err := l.Delay(ctx, to); err != nil {
			t.Fatalf("%s: %v", describe(to), err)
		}
		if p50, _ := roundTrips(ctx, t, l, "a1", "c1", 20); p50 < 2*to.Delay || p50 > 2*(to.Delay+to.Jitter)+20*time.Millisecond {
			t.Errorf("%s: round trip %v", describe(to), p50)
		}
	}
	lost := lossOf(ctx, t, l, "a1", "c1", 2000)
	t.Logf("a-c: 10 %% loss asked, %.1f %% measured one way", lost*100)
	if lost < 0.06 || lost > 0.15 {
		t.Errorf("loss a-c: %.3f, 0.1 asked", lost)
	}
}

// TestVethLoss checks losses made by nftables.
func TestVethLoss(t *testing.T) {
	spec := mustDefault(t, "lan")
	spec.Etcd = nil
	spec.Links[0].Loss = 0.2
	l := startLab(t, spec)
	ctx := deadline(t, time.Minute)
	if lost := lossOf(ctx, t, l, "a1", "b1", 2000); lost < 0.14 || lost > 0.27 {
		t.Errorf("loss a-b: %.3f, 0.2 asked", lost)
	}
	rate := throughput(ctx, t, l, "b1", "c1", 300*time.Millisecond)
	if rate < 110e6 {
		t.Errorf("unlimited link carries %.1f Mbit/s", rate/1e6)
	}
}

// roundTrips measures n echoes over UDP, one after the other, and returns the
// median and the 99th percentile. A lost one does not count.
func roundTrips(ctx context.Context, tb testing.TB, l *Lab, from, to string, n int) (p50, p99 time.Duration) {
	tb.Helper()
	x, y := mustNode(tb, l, from), mustNode(tb, l, to)
	conn, err := x.DialContext(ctx, "udp4", echoAddr(y.ip4))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var took []time.Duration
	buf := make([]byte, 64)
	for range n {
		want, start := newNonce(), time.Now()
		_ = conn.SetDeadline(start.Add(500 * time.Millisecond))
		if _, err := conn.Write(want[:]); err != nil {
			tb.Fatal(err)
		}
		for {
			got, err := conn.Read(buf)
			if err != nil {
				break
			}
			if got == len(want) && nonce(buf[:got]) == want {
				took = append(took, time.Since(start))
				break
			}
		}
	}
	if len(took) < n/2 {
		tb.Fatalf("%d of %d echoes came back", len(took), n)
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// throughput sends TCP for a while and returns bits per second as received.
func throughput(ctx context.Context, tb testing.TB, l *Lab, from, to string, d time.Duration) float64 {
	tb.Helper()
	x, y := mustNode(tb, l, from), mustNode(tb, l, to)
	addr := netip.AddrPortFrom(y.ip4, 5001).String()
	var listener net.Listener
	if err := y.Do(func() (err error) { listener, err = net.Listen("tcp4", addr); return err }); err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	received := make(chan float64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- 0
			return
		}
		start := time.Now()
		n, _ := io.Copy(io.Discard, conn)
		received <- float64(n) * 8 / time.Since(start).Seconds()
	}()
	conn, err := x.DialContext(ctx, "tcp4", addr)
	if err != nil {
		tb.Fatal(err)
	}
	_ = conn.SetWriteDeadline(time.Now().Add(d))
	chunk := make([]byte, 64<<10)
	for err == nil {
		_, err = conn.Write(chunk)
	}
	_ = conn.Close()
	return <-received
}

// lossOf sends n datagrams and returns the share that did not arrive.
func lossOf(ctx context.Context, tb testing.TB, l *Lab, from, to string, n int) float64 {
	tb.Helper()
	x, y := mustNode(tb, l, from), mustNode(tb, l, to)
	addr := netip.AddrPortFrom(y.ip4, 5002)
	var server *net.UDPConn
	if err := y.Do(func() (err error) {
		server, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	conn, err := x.DialContext(ctx, "udp4", addr.String())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	got, buf := 0, make([]byte, 16)
	for range n {
		if _, err := conn.Write([]byte("datagram")); err != nil {
			tb.Fatal(err)
		}
		// Take what has come, so that no socket buffer overflows.
		_ = server.SetReadDeadline(time.Now().Add(100 * time.Microsecond))
		if _, err := server.Read(buf); err == nil {
			got++
		}
	}
	_ = server.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	for {
		if _, err := server.Read(buf); err != nil {
			return 1 - float64(got)/float64(n)
		}
		got++
	}
}

func mustNode(tb testing.TB, l *Lab, name string) *Node {
	tb.Helper()
	n, err := l.Node(name)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// BenchmarkRTT reports by how much a round trip over a delayed link exceeds
// what was asked, on idle links and beside a full one. The round trip over a
// veth pair, which no user-space code touches, says how much of that is the
// machine's own.
func BenchmarkRTT(b *testing.B) {
	const samples = 300
	lan, rtt := benchLab(b, "lan"), benchLab(b, "rtt")
	report := func(l *Lab, name string, asked float64) {
		p50, p99 := roundTrips(b.Context(), b, l, "a1", "c1", samples)
		b.ReportMetric(ms(p50)-asked, name+"-p50-ms")
		b.ReportMetric(ms(p99)-asked, name+"-p99-ms")
	}
	for b.Loop() {
		report(lan, "veth", 0)
		report(rtt, "idle", 23)
		before, start := cpu(), time.Now()
		done := make(chan float64)
		go func() { done <- throughput(b.Context(), b, rtt, "a1", "b1", 8*time.Second) }()
		report(rtt, "busy", 23)
		b.ReportMetric(<-done/1e6, "Mbit/s")
		b.ReportMetric(100*(cpu()-before).Seconds()/time.Since(start).Seconds(), "%core")
	}
}

func benchLab(b *testing.B, preset string) *Lab {
	b.Helper()
	if err := Preflight(); err != nil {
		b.Skip(err)
	}
	spec, err := Default(preset)
	if err != nil {
		b.Fatal(err)
	}
	spec.Etcd, spec.Dir = nil, b.TempDir()
	l, err := Start(b.Context(), spec, quiet())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
