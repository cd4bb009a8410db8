package relay

import (
	"bytes"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// clientHello returns what crypto/tls says first.
func clientHello(t testing.TB, name string) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		_ = tls.Client(near, &tls.Config{ServerName: name}).Handshake()
		near.Close()
	}()
	header := make([]byte, recordHeader)
	if _, err := io.ReadFull(far, header); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(header[3])<<8|int(header[4]))
	if _, err := io.ReadFull(far, body); err != nil {
		t.Fatal(err)
	}
	return append(header, body...)
}

// respread cuts the message of one record into records of at most n bytes.
func respread(b []byte, n int) []byte {
	var out []byte
	for message := b[recordHeader:]; len(message) > 0; {
		part := message[:min(n, len(message))]
		out = append(out, b[0], b[1], b[2], byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
		message = message[len(part):]
	}
	return out
}

func TestClassOf(t *testing.T) {
	whole := clientHello(t, "api.example")
	for n := range len(whole) {
		want := helloPart
		if n == 0 {
			want = unsaid
		}
		if got := classOf(whole[:n]); got != want {
			t.Fatalf("%d of %d bytes: class %d, want %d", n, len(whole), got, want)
		}
	}
	bigger := bytes.Clone(whole)
	bigger[6] = 1 // the message would have 64 kB more
	second := append(bytes.Clone(whole), whole...)
	other := bytes.Clone(whole)
	other[5] = 2 // a ServerHello
	for name, c := range map[string]struct {
		b    []byte
		want class
	}{
		"whole":              {whole, hello},
		"in pieces":          {respread(whole, 7), hello},
		"in pieces of one":   {respread(whole, 1), hello},
		"something after it": {append(bytes.Clone(whole), 20), foreign},
		"twice":              {second, foreign},
		"another message":    {other, foreign},
		"too large":          {bigger, foreign},
		"http":               {[]byte("GET / HTTP/1.1"), foreign},
		"empty record":       {[]byte{22, 3, 1, 0, 0}, foreign},
		"application data":   {[]byte{23, 3, 3, 0, 1, 0}, foreign},
		"SSL 2":              {[]byte{0x80, 0x2e, 1, 0, 2}, foreign},
	} {
		if got := classOf(c.b); got != c.want {
			t.Errorf("%s: class %d, want %d", name, got, c.want)
		}
	}
}

func TestServerName(t *testing.T) {
	whole := clientHello(t, "api.example")
	if got := serverName(whole, hello); got != "api.example" {
		t.Errorf("name %q", got)
	}
	if got := serverName(respread(whole, 11), hello); got != "api.example" {
		t.Errorf("name over records %q", got)
	}
	if got := serverName([]byte("GET /"), foreign); got != "" {
		t.Errorf("name of no hello %q", got)
	}
}

// FuzzClassOf wants: no panic, and what is said of a beginning agrees with
// what is said of the whole.
func FuzzClassOf(f *testing.F) {
	whole := clientHello(f, "api.example")
	f.Add(whole, 5)
	f.Add(respread(whole, 50), 60)
	f.Add([]byte("GET / HTTP/1.1\r\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		c := classOf(b)
		if cut < 0 || cut >= len(b) {
			return
		}
		part := classOf(b[:cut])
		switch {
		case part == foreign && c != foreign:
			t.Fatalf("%d bytes are foreign, all %d are class %d", cut, len(b), c)
		case part == hello && c != foreign:
			t.Fatalf("%d bytes are a hello, all %d are class %d", cut, len(b), c)
		case c == hello && cut > 0 && part != helloPart:
			t.Fatalf("%d bytes of a hello are class %d", cut, part)
		}
		if c == hello {
			_ = serverName(b, c)
		}
	})
}

func TestRoutes(t *testing.T) {
	named := func(string) *queue { return &queue{} }
	exact, below, deeper, all := &order{}, &order{}, &order{}, &order{}
	s := newSettings(Frontend{Picker: all, Routes: map[string]Picker{
		"API.example": exact, "*.example": below, "*.deep.example": deeper,
	}}, named)
	for name, want := range map[string]Picker{
		"api.example": exact, "Api.Example": exact, "api.example.": exact, "b.example": below, "a.b.example": below,
		"x.deep.example": deeper, "deep.example": below, "example": all, "": all, ".example": all, "other": all,
	} {
		if got := s.route(name).picker; got != want {
			t.Errorf("%q goes to the wrong route", name)
		}
	}
}

// TestClassOfRandomCuts feeds hellos spread over records at random.
func TestClassOfRandomCuts(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	whole := clientHello(t, "api.example")
	for range 200 {
		b := respread(whole, 1+random.IntN(len(whole)))
		cut := 1 + random.IntN(len(b)-1)
		if classOf(b) != hello || classOf(b[:cut]) != helloPart {
			t.Fatalf("seed %d: %d of %d bytes: class %d, all: %d", seed, cut, len(b), classOf(b[:cut]), classOf(b))
		}
	}
}
