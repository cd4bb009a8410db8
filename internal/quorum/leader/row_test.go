package leader

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sampleRow() Row {
	return Row{
		Member: 0xa, Cluster: 0xcafe, Name: "a", Zone: "za", Boot: "0123", Seq: 7, Reachable: true, Leader: 0xc, Term: 3,
		Applied: 40, Index: 41, Alarms: []string{"NOSPACE"}, Version: "3.6.16", Fsync: 4 * time.Millisecond,
		Links: map[MemberID]Link{
			0xb: {State: Down, Since: 1500 * time.Millisecond, Loss: 0.5},
			0xc: {State: Up, Since: time.Hour, RTT: 23 * time.Millisecond},
		},
		Penalty: Penalty{Seq: 2, Value: 1.5, From: 0xa, To: 0xc, Term: 2},
	}
}

func TestRowRoundTrip(t *testing.T) {
	want := sampleRow()
	b, err := encodeRow(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeRow(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestRowRefusesWhatItCannotUnderstand(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":        `{`,
		"another version": `{"version":2,"member":"a","boot":"x","cluster":"1","leader":"0"}`,
		"no member":       `{"version":1,"member":"0","boot":"x","cluster":"1","leader":"0"}`,
		"no boot":         `{"version":1,"member":"a","cluster":"1","leader":"0"}`,
		"bad id":          `{"version":1,"member":"xyz","boot":"x","cluster":"1","leader":"0"}`,
		"bad link":        `{"version":1,"member":"a","boot":"x","cluster":"1","leader":"0","links":{"?":{}}}`,
	} {
		if r, err := decodeRow([]byte(text)); err == nil {
			t.Errorf("%s: accepted as %+v", name, r)
		}
	}
}

// Numbers from elsewhere must never make a row look younger, a link better or
// damping lighter than it can be.
func TestRowBoundsForeignNumbers(t *testing.T) {
	text := `{"version":1,"member":"a","boot":"x","cluster":"1","leader":"0","leaderless_ms":-5,"age_ms":-1,
		"links":{"b":{"state":"sideways","since_ms":99999999999999,"rtt_ms":-3,"loss":7}},
		"penalty":{"seq":1,"penalty":1e300}}`
	r, err := decodeRow([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if r.Age != maxAge || r.LeaderlessFor != maxAge {
		t.Errorf("age %v, leaderless %v: want the largest age for nonsense", r.Age, r.LeaderlessFor)
	}
	if l := r.Links[0xb]; l.State != Unknown || l.RTT != 0 || l.Loss != 1 || l.Since != maxAge {
		t.Errorf("link %+v", l)
	}
	if r.Penalty.Value != maxPenalty {
		t.Errorf("penalty %v, want %v", r.Penalty.Value, float64(maxPenalty))
	}
	if p := (wirePenalty{Value: math.NaN()}).penalty(); p.Value != maxPenalty {
		t.Errorf("NaN became %v", p.Value)
	}
}

// One row that others wrote must not fill the memory of its readers, push the
// others out of an answer, or paint on a terminal.
func TestRowIsBounded(t *testing.T) {
	links := map[string]wireLink{}
	for i := range 1000 {
		links[MemberID(i+1).String()] = wireLink{State: "up"}
	}
	for name, change := range map[string]func(*wireRow){
		"too many links": func(w *wireRow) { w.Links = links },
		"last seq":       func(w *wireRow) { w.Seq = math.MaxUint64 },
		"huge":           func(w *wireRow) { w.Name = strings.Repeat("x", 1<<20) },
	} {
		w := wire(sampleRow())
		change(&w)
		b, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := decodeRow(b); err == nil {
			t.Errorf("%s: accepted with %d links, seq %d", name, len(r.Links), r.Seq)
		}
	}
	w := wire(sampleRow())
	w.Zone, w.Etcd, w.Alarms = "a\x1b[2J\nb", strings.Repeat("é", 1000), make([]string, 500)
	r, err := w.row()
	if err != nil {
		t.Fatal(err)
	}
	if r.Zone != "a?[2J?b" || len(r.Version) > maxText || len(r.Alarms) > maxAlarms {
		t.Errorf("zone %q, version of %d bytes, %d alarms", r.Zone, len(r.Version), len(r.Alarms))
	}
}

// A record that nothing can follow must not end damping for ever: 1 more than
// the last number is 0, and older than everything.
func TestLastSeqIsNoRecord(t *testing.T) {
	poison := []byte(`{"seq":18446744073709551615,"penalty":0,"from":"0","to":"0","term":0}`)
	if p, err := decodePenalty(poison); err == nil {
		t.Errorf("taken for %+v", p)
	}
	r, err := decodeRow([]byte(`{"version":1,"member":"a","boot":"x","cluster":"1","leader":"0","penalty":` + string(poison) + `}`))
	if err != nil || r.Penalty != (Penalty{Value: maxPenalty}) {
		t.Errorf("row repeats %+v, %v", r.Penalty, err)
	}
	g := newRegistry()
	g.heardPenalty(r.Penalty)
	g.heardPenalty(Penalty{Seq: 1, Value: 1})
	if p := g.newest(); p.Seq != 1 {
		t.Errorf("a sound record does not replace it: %+v", p)
	}
}

func FuzzRow(f *testing.F) {
	b, _ := encodeRow(sampleRow())
	f.Add(b)
	f.Add([]byte(`{"version":1,"member":"a","boot":"x","cluster":"1","leader":"0","links":{"b":{"state":"up"}}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRow(data)
		if err != nil {
			return
		}
		if r.Age < 0 || r.Age > maxAge || r.Member == 0 || r.Penalty.Value < 0 || r.Penalty.Value > maxPenalty {
			t.Fatalf("unsafe row %+v", r)
		}
		again, err := encodeRow(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeRow(again); err != nil {
			t.Fatalf("own output refused: %v", err)
		}
	})
}

func FuzzMeshRows(f *testing.F) {
	row, _ := encodeRow(sampleRow())
	b, _ := json.Marshal(meshRows{Version: 1, Rows: []json.RawMessage{row}})
	f.Add(b)
	f.Add([]byte(`{"rows":[{}]}`))
	f.Add([]byte(`{"version":1,"rows":[{"seq":-1},7,null,` + string(row) + `]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := decodeMeshRows(data)
		for _, r := range rows {
			if err != nil || r.Member == 0 {
				t.Fatalf("row %+v with error %v", r, err)
			}
		}
	})
}
