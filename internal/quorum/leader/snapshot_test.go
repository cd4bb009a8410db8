package leader

import "testing"

func FuzzParseMemberID(f *testing.F) {
	for _, s := range []string{"0", "a", "8e9e05c52164694d", "ffffffffffffffff", "", "0x1", "g", "-1", "1ffffffffffffffff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseMemberID(s)
		if err != nil {
			return
		}
		text, err := id.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back MemberID
		if err := back.UnmarshalText(text); err != nil || back != id {
			t.Errorf("%q reads as %d, is written %q, and reads back as %d: %v", s, id, text, back, err)
		}
	})
}
