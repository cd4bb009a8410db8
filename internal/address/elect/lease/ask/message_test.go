package ask

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

const group = "kube-system/vip"

var key = []byte("0123456789abcdef")

func sample() Message {
	return Message{
		Kind: Question, Flags: Urgent | Ready, From: "node-a", To: "node-b",
		Nonce: Nonce{0x0102030405060708, 7}, Turn: 3, Duration: 2500 * time.Millisecond,
	}
}

func TestThereAndBack(t *testing.T) {
	question := sample()
	claim := Message{Kind: Claim, Flags: known, From: strings.Repeat("x", maxName), To: strings.Repeat("y", maxName), Duration: MaxDuration}
	for _, m := range []Message{question, question.Reply(Reached, 9), claim, {Kind: Yield, From: "a", To: "b"}} {
		b := m.Append([]byte("before"), group, key)[6:]
		got, err := Parse(b, group, key)
		if err != nil || got != m {
			t.Errorf("%v: %+v, %v", m, got, err)
		}
		if len(b) > MaxLength {
			t.Errorf("%d bytes", len(b))
		}
	}
}

func TestAnAnswerIsNoLongerThanItsQuestion(t *testing.T) {
	question := sample()
	answer := question.Reply(known&^Urgent, 1<<40)
	q, a := question.Append(nil, group, key), answer.Append(nil, group, key)
	if len(a) > len(q) {
		t.Errorf("%d bytes answer %d", len(a), len(q))
	}
	if answer.From != "node-b" || answer.To != "node-a" || answer.Nonce != question.Nonce {
		t.Errorf("%+v", answer)
	}
}

func TestRefusals(t *testing.T) {
	m := sample()
	good := m.Append(nil, group, key)
	tests := []struct {
		name  string
		data  []byte
		group string
		key   []byte
		want  error
	}{
		{"empty", nil, group, key, ErrLength},
		{"short", good[:headLength], group, key, ErrLength},
		{"long", append(bytes.Clone(good), make([]byte, MaxLength)...), group, key, ErrLength},
		{"one byte more", append(bytes.Clone(good), 0), group, key, ErrMAC},
		{"other magic", append([]byte("HFA\x02"), good[4:]...), group, key, ErrVersion},
		{"other group", good, "kube-system/other", key, ErrGroup},
		{"other key", good, group, []byte("another"), ErrMAC},
		{"no key", good, group, nil, ErrMAC},
		{"no sender", (&Message{Kind: Question, To: "b"}).Append(nil, group, key), group, key, ErrContent},
		{"no receiver", (&Message{Kind: Question, From: "b"}).Append(nil, group, key), group, key, ErrContent},
		{"no kind", (&Message{From: "a", To: "b"}).Append(nil, group, key), group, key, ErrContent},
		{"unknown flag", (&Message{Kind: Answer, Flags: 1 << 7, From: "a", To: "b"}).Append(nil, group, key), group, key, ErrContent},
		{"for too long", (&Message{Kind: Question, From: "a", To: "b", Duration: time.Hour}).Append(nil, group, key), group, key, ErrContent},
		{"for less than nothing", (&Message{Kind: Question, From: "a", To: "b", Duration: -1}).Append(nil, group, key), group, key, ErrContent},
	}
	for _, test := range tests {
		if _, err := Parse(test.data, test.group, test.key); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// TestEveryByteIsCovered flips each bit once.
func TestEveryByteIsCovered(t *testing.T) {
	m := sample()
	good := m.Append(nil, group, key)
	for i := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := Parse(bad, group, key); err == nil {
			t.Errorf("bit %d may be changed", i)
		}
	}
}

func TestNamesAreInTheMAC(t *testing.T) {
	// The same bytes of names, split elsewhere.
	a := Message{Kind: Question, From: "ab", To: "c"}
	b := Message{Kind: Question, From: "a", To: "bc"}
	x, y := a.Append(nil, group, key), b.Append(nil, group, key)
	if bytes.Equal(x[len(x)-macLength:], y[len(y)-macLength:]) {
		t.Error("one MAC for both")
	}
}

func FuzzParse(f *testing.F) {
	m := sample()
	f.Add(m.Append(nil, group, key), true)
	f.Add([]byte("HFA\x01"), false)
	f.Add(make([]byte, MaxLength), true)
	f.Fuzz(func(t *testing.T, data []byte, signed bool) {
		if signed && len(data) >= headLength && len(data)+macLength <= MaxLength {
			g := GroupOf(group)
			data = append([]byte(magic), data[4:]...)
			copy(data[8:], g[:])
			data = append(data, sign(data, group, key)...)
		}
		m, err := Parse(data, group, key)
		if err != nil {
			return
		}
		if again := m.Append(nil, group, key); !bytes.Equal(again, data) {
			t.Errorf("%x became %x", data, again)
		}
		if r := m.Reply(0, 0); len(r.Append(nil, group, key)) > len(data) {
			t.Error("an answer is longer than its question")
		}
	})
}
