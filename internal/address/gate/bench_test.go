package gate

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// BenchmarkChanges times what a holder does at each advert, at a takeover, and
// at a takeover with a deadline.
func BenchmarkChanges(b *testing.B) {
	g, err := segment.New(1)
	if err != nil {
		b.Skip(err)
	}
	defer func() { _ = g.Close() }()
	var gate *Gate
	err = g.Station(1).Do(func() (err error) {
		gate, err = New(Config{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = gate.Close() }()
	for _, vip := range vips {
		if err := gate.Open(vip, segment.Interface, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func() error
	}{
		{"Renew", func() error { return gate.Renew(time.Hour, vips...) }},
		{"Open", func() error { return gate.Open(vips[0], segment.Interface, time.Hour) }},
		{"OpenUntil", func() error { return gate.OpenUntil(vips[0], segment.Interface, time.Now().Add(time.Hour)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.change(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
