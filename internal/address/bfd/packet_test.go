package bfd

import (
	"encoding/hex"
	"errors"
	"testing"
	"time"
)

// up is a packet as FRR's bfdd sends it at 300 ms and 3.
func up() Packet {
	return Packet{
		State: Up, DetectMult: 3, MyDiscr: 0x11223344, YourDiscr: 0xaabbccdd,
		DesiredMinTx: 300 * time.Millisecond, RequiredMinRx: 300 * time.Millisecond, RequiredMinEchoRx: 50 * time.Millisecond,
	}
}

func TestAppendWritesTheBytesOfTheRFC(t *testing.T) {
	p := up()
	p.Diag, p.Poll = DiagNeighborDown, true
	const want = "23e0031811223344aabbccdd000493e0000493e00000c350"
	if got := hex.EncodeToString(p.Append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := p.Append([]byte("ab")); string(got[:2]) != "ab" || len(got) != 2+size {
		t.Errorf("did not append: %x", got)
	}
}

func TestParseReadsWhatAppendWrote(t *testing.T) {
	for _, change := range []func(*Packet){
		func(p *Packet) {},
		func(p *Packet) { p.Poll = true },
		func(p *Packet) { p.Final = true },
		func(p *Packet) { p.ControlIndependent, p.Demand = true, true },
		func(p *Packet) { p.State, p.YourDiscr, p.Diag = AdminDown, 0, DiagAdminDown },
		func(p *Packet) { p.State, p.YourDiscr, p.RequiredMinRx = Down, 0, 0 },
		func(p *Packet) { p.DesiredMinTx = longest },
	} {
		want := up()
		change(&want)
		got, err := Parse(want.Append(nil))
		if err != nil || got != want {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
}

func TestIntervalsThatTheWireCannotCarry(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		-time.Second:        0,
		time.Nanosecond:     1,
		1001:                2,
		2 * time.Hour:       0xffffffff,
		time.Second:         1_000_000,
		longest - 1:         0xffffffff,
		longest + time.Hour: 0xffffffff,
	} {
		if got := micros(d); got != want {
			t.Errorf("%v: got %d µs, want %d", d, got, want)
		}
	}
}

func TestParseDiscards(t *testing.T) {
	cases := map[string]struct {
		spoil  func([]byte) []byte
		reason Reason
	}{
		"empty":                  {func(b []byte) []byte { return nil }, ReasonLength},
		"cut short":              {func(b []byte) []byte { return b[:23] }, ReasonLength},
		"version 0":              {func(b []byte) []byte { b[0] = 0x03; return b }, ReasonVersion},
		"version 2":              {func(b []byte) []byte { b[0] = 0x43; return b }, ReasonVersion},
		"length too small":       {func(b []byte) []byte { b[3] = 23; return b }, ReasonLength},
		"length beyond payload":  {func(b []byte) []byte { b[3] = 25; return b }, ReasonLength},
		"multiplier 0":           {func(b []byte) []byte { b[2] = 0; return b }, ReasonDetectMult},
		"multipoint":             {func(b []byte) []byte { b[1] |= 1; return b }, ReasonMultipoint},
		"authenticated":          {func(b []byte) []byte { b[1] |= 4; return b }, ReasonAuthentication},
		"my discriminator 0":     {func(b []byte) []byte { clear(b[4:8]); return b }, ReasonDiscriminator},
		"Up without yours":       {func(b []byte) []byte { clear(b[8:12]); return b }, ReasonState},
		"Init without yours":     {func(b []byte) []byte { clear(b[8:12]); b[1] = 0x80; return b }, ReasonState},
		"a datagram of one byte": {func(b []byte) []byte { return b[:1] }, ReasonLength},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := up()
			_, err := Parse(c.spoil(p.Append(nil)))
			var bad *MalformedError
			if !errors.As(err, &bad) || bad.Reason != c.reason {
				t.Errorf("got %v, want reason %s", err, c.reason)
			}
		})
	}
	p := up()
	if _, err := Parse(append(p.Append(nil), 0, 0)); err != nil {
		t.Errorf("padding behind the packet: %v", err)
	}
}

func TestNamesOfStatesAndDiagnostics(t *testing.T) {
	for got, want := range map[string]string{
		AdminDown.String(): "AdminDown", Down.String(): "Down", Init.String(): "Init", Up.String(): "Up",
		State(9).String(): "State(9)", DiagPathDown.String(): "path down", Diag(31).String(): "diagnostic 31",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	p := up()
	f.Add(p.Append(nil))
	p.Poll, p.State, p.YourDiscr = true, Down, 0
	f.Add(p.Append(nil))
	f.Add([]byte{0x20})
	f.Add(append(p.Append(nil), 1, 2, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		var bad *MalformedError
		if err != nil {
			if !errors.As(err, &bad) || bad.Reason == "" || bad.Error() == "" {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		again, err := Parse(p.Append(nil))
		if err != nil || again != p {
			t.Fatalf("got %+v, %v\nwant %+v", again, err, p)
		}
	})
}
