package lab

import "testing"

func TestServes(t *testing.T) {
	for line, want := range map[string]bool{
		"/pod\x00serve\x00-port\x008080\x00": true,
		"/pod\x00pause\x00":                  false,
		"/pod\x00":                           false,
		"/bin/pod\x00serve\x00":              false,
		"":                                   false,
	} {
		if got := serves([]byte(line)); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
}
