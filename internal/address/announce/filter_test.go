package announce

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"
)

func passes(t *testing.T, program []bpf.Instruction, frame []byte) bool {
	t.Helper()
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	n, err := vm.Run(frame)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// many returns n addresses that are not asked for, and the last one that is.
func many(n int, last netip.Addr) []netip.Addr {
	var all []netip.Addr
	for i := range n {
		b := last.AsSlice()
		binary.BigEndian.PutUint32(b[len(b)-4:], 0xcb007100+uint32(i))
		a, _ := netip.AddrFromSlice(b)
		all = append(all, a)
	}
	return append(all, last)
}

func TestFilterPassesWhatConcernsUs(t *testing.T) {
	other4, other6 := netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8:1::10")
	ask := Neighbor{Type: Solicitation, Source: six, Destination: solicitedNode(other6), Target: other6, LinkLayer: rival}
	question := ARP{Op: Request, Sender: other4, Target: four}
	for _, others := range []int{0, 1, 10, maxFiltered - 1, maxFiltered} {
		arp, neighbor := arpFilter(many(others, four)), neighborFilter(many(others, six))
		if len(neighbor) > 4096 {
			t.Errorf("%d addresses: %d instructions, the kernel takes 4096", others+1, len(neighbor))
		}
		all := others+1 > maxFiltered
		for _, c := range []struct {
			name    string
			program []bpf.Instruction
			frame   []byte
			want    bool
		}{
			{"a claim", arp, Gratuitous(four, rival, Reply).Append(nil), true},
			{"a probe", arp, ProbeFor(four, rival).Append(nil), true},
			{"a question", arp, question.Append(nil), true},
			{"another's claim", arp, Gratuitous(other4, rival, Reply).Append(nil), all},
			{"a claim by IPv6", neighbor, Unsolicited(six, rival, false).Append(nil), true},
			{"a probe by IPv6", neighbor, SolicitFor(six, rival).Append(nil), true},
			{"a question from our address", neighbor, ask.Append(nil), true},
			{"another's claim by IPv6", neighbor, Unsolicited(other6, rival, false).Append(nil), all},
			{"a router advertisement", neighbor, changed(Unsolicited(six, rival, false).Append(nil), icmpType, 134), false},
			{"UDP", neighbor, changed(Unsolicited(six, rival, false).Append(nil), ipv6Next, 17), false},
		} {
			if got := passes(t, c.program, c.frame); got != c.want {
				t.Errorf("%d addresses, %s: passes is %v", others+1, c.name, got)
			}
		}
	}
}

func changed(frame []byte, at int, b byte) []byte {
	frame[at] = b
	return frame
}
