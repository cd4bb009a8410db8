package lease

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sampleRecord() Record {
	return Record{
		Holder: "a", Given: true, Turn: 7, Mark: Mark{0xabc, 12}, Duration: 2500 * time.Millisecond,
		Peers: peersOf("a", "b", "c"), Key: []byte("0123456789abcdef"),
	}
}

func TestRecordThereAndBack(t *testing.T) {
	for _, r := range []Record{sampleRecord(), {Fresh: true, Duration: time.Second, Peers: peersOf("x")}, {Duration: MaxDuration}} {
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(data)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: %+v, %v", data, got, err)
		}
	}
}

func TestForeignRecords(t *testing.T) {
	r := sampleRecord()
	good, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"version":1`, `"version":2`},
		{`0000000000000abc.12`, `abc.12`},
		{`0000000000000abc.12`, `0000000000000abc`},
		{`"2.5s"`, `"2.5"`},
		{`"2.5s"`, `"10h"`},
		{`"2.5s"`, `"-1s"`},
		{`"holder":"a"`, `"holder":""`},
		{`"holder":"a"`, `"holder":"a","fresh":true`},
		{`"name":"b"`, `"name":""`},
		{`10.0.0.2:8947`, `10.0.0.2`},
		{`{`, `[`},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Fatalf("%s is not in %s", change[0], good)
		}
		if got, err := Decode([]byte(bad)); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %+v, %v", bad, got, err)
		}
	}
	large := Record{Duration: time.Second, Peers: make([]Peer, 5000)}
	if _, err := large.Encode(); err == nil {
		t.Error("5000 peers fit")
	}
}

func FuzzDecode(f *testing.F) {
	r := sampleRecord()
	good, _ := r.Encode()
	f.Add(good)
	f.Add([]byte(`{"version":1,"mark":"0000000000000000.0","lease":"1s","peers":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrForeign) {
				t.Error(err)
			}
			return
		}
		again, err := r.Encode()
		if err != nil {
			return // escapes can make it longer
		}
		if s, err := Decode(again); err != nil || !reflect.DeepEqual(r, s) {
			t.Errorf("%+v became %+v, %v", r, s, err)
		}
	})
}
