package relay

import (
	"io"
	"testing"
)

func TestCarriesBytesBothWays(t *testing.T) {
	up := backend(t, echo)
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	c := r.dial()
	exchange(t, c, "first")
	exchange(t, c, "second")
	c.Close()
	r.await(Closed, 1)
}

func TestTriesTheNextWhenRefused(t *testing.T) {
	dead, up := refusing(t), backend(t, echo)
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{dead, up}}}, Options{})
	exchange(t, r.dial(), "hello")
	if r.count(DialFailed, dead) != 1 || r.count(Connected, up) != 1 {
		t.Fatalf("events %v", r.events)
	}
}

func TestRefusesWhenNobodyIsLeft(t *testing.T) {
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{refusing(t), refusing(t)}}}, Options{})
	r.wantRefused()
	r.await(Refused, 1)
}

func TestHalfClose(t *testing.T) {
	up := backend(t, echo)
	r := newRig(t, Frontend{Picker: &order{targets: []*Target{up}}}, Options{})
	c := r.dial()
	if _, err := io.WriteString(c, "all there is"); err != nil {
		t.Fatal(err)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "all there is" {
		t.Fatalf("got %q, %v", got, err)
	}
}
