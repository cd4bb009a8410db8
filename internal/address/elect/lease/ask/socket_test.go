package ask

import (
	"context"
	"net/netip"
	"testing"
)

func TestSocket(t *testing.T) {
	loopback := netip.MustParseAddrPort("127.0.0.1:0")
	a, err := Listen(loopback)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Listen(loopback)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, s := range []*Socket{a, b} {
		go func() { ended <- s.Serve(ctx) }()
	}
	answers := make(chan Message, 1)
	a.Join(group, func(data []byte, _ netip.AddrPort) {
		if m, err := Parse(data, group, key); err == nil {
			answers <- m
		}
	})
	b.Join(group, func(data []byte, from netip.AddrPort) {
		m, err := Parse(data, group, key)
		if err != nil {
			return
		}
		r := m.Reply(Reached, 1)
		b.Send(r.Append(nil, group, key), from)
	})
	b.Join("another", func([]byte, netip.AddrPort) { t.Error("delivered to another group") })
	b.Join("a third", nil)
	q := sample()
	for _, junk := range [][]byte{{}, make([]byte, 1000), q.Append(nil, group, []byte("bad key"))} {
		a.Send(junk, b.Address())
	}
	a.Send(q.Append(nil, group, key), b.Address())
	if m := <-answers; m.Nonce != q.Nonce || m.From != "node-b" {
		t.Errorf("%+v", m)
	}
	if _, err := Listen(b.Address()); err == nil {
		t.Error("two listen at one address")
	}
	cancel()
	for range 2 {
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	}
}
