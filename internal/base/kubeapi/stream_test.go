package kubeapi

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzDecoder checks that no stream panics or is read without end, and that
// errors are one line that repeats nothing of it.
func FuzzDecoder(f *testing.F) {
	for _, s := range []string{
		"", event("ADDED", "a", "1") + event("BOOKMARK", "", "2") + event("DELETED", "a", "3"),
		`{"type":"ERROR","object":{"kind":"Status","code":410}}`, `{"type":"ERROR","object":7}`, `{"type":"ADDED","object":[]}`,
		`{"type":"ADDED"}`, `{"type":"SECRETSECRETSECRETSECRET","object":{}}`, `{"type":"ADDED","object":{"metadata":{"name":5}}}`, `[[[[`, `"SECRET`, "null",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		d := newDecoder[object]("watch x", iotest.OneByteReader(strings.NewReader(in)))
		for n := 0; ; n++ {
			_, _, err := d.next()
			if err == nil {
				if n > len(in) {
					t.Fatal("more events than bytes")
				}
				continue
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("not one line: %q", err)
			}
			return
		}
	})
}

func TestErrorsOfAStreamRepeatNothingOfIt(t *testing.T) {
	for _, in := range []string{
		"\"hunter2\"", `{"type":"ADDED","object":"hunter2"}`, `{"type":"ADDED","object":{"metadata":"hunter2"}}`, "hunter2", `{"type":{"hunter2":1}}`,
	} {
		_, _, err := newDecoder[object]("watch x", strings.NewReader(in)).next()
		if err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// endless is a JSON text that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestAnEventIsBounded(t *testing.T) {
	d := newDecoder[object]("watch x", io.MultiReader(strings.NewReader(event("ADDED", "a", "1")+`{"type":"ADDED","object":"`), endless{}))
	if _, _, err := d.next(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.next(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}
