package drill

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
)

// arpReplyTo is the answer to an ARP question, as a kernel sends it.
func arpReplyTo(question []byte, by net.HardwareAddr) []byte {
	b := bytes.Clone(question)
	copy(b[:6], question[6:12])
	copy(b[6:], by)
	b[21] = arpReply
	copy(b[22:], by)
	copy(b[28:32], question[38:42])
	copy(b[32:38], question[22:28])
	copy(b[38:42], question[28:32])
	return b
}

var (
	testMAC  = net.HardwareAddr{2, 0, 0, 0, 0, 7}
	testHeld = netip.MustParseAddr("10.77.1.100")
)

func TestARPQuestionAndAnswer(t *testing.T) {
	q := arpQuestion(observerMAC, testHeld)
	if len(q) != arpLength || !bytes.Equal(q[28:32], make([]byte, 4)) || !bytes.Equal(q[6:12], observerMAC) {
		t.Fatalf("question % x: want one of nobody's address from %s", q, observerMAC)
	}
	a, err := parseARPAnswer(arpReplyTo(q, testMAC), observerMAC)
	if err != nil || a.mac.String() != testMAC.String() || a.addr != testHeld {
		t.Errorf("answer %+v, %v", a, err)
	}
	gratuitous := arpReplyTo(q, testMAC)
	copy(gratuitous, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	for name, frame := range map[string][]byte{"a question": q, "an announcement to all": gratuitous, "a stub": q[:41], "nothing": nil} {
		if _, err := parseARPAnswer(frame, observerMAC); err == nil {
			t.Errorf("%s was taken for an answer", name)
		}
	}
}

func FuzzParseARPAnswer(f *testing.F) {
	q := arpQuestion(observerMAC, testHeld)
	f.Add(q)
	f.Add(arpReplyTo(q, testMAC))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseARPAnswer(b, observerMAC)
		if err == nil && (len(a.mac) != 6 || !a.addr.Is4()) {
			t.Errorf("answer %+v of % x", a, b)
		}
	})
}
