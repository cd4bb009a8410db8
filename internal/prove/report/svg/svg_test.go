package svg

import (
	"encoding/xml"
	"math"
	"strings"
	"testing"
)

func TestNum(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", -.001: "0", 1.005: "1", 2.346: "2.35", -7.5: "-7.5", math.Inf(1): "0",
	} {
		if got := Num(v); got != want {
			t.Errorf("Num(%v) = %q, want %q", v, got, want)
		}
	}
	if got := Num(math.NaN()); got != "0" {
		t.Errorf("Num(NaN) = %q", got)
	}
}

func TestCanvasEscapesAndCloses(t *testing.T) {
	const bad = "<a href=\"x\">&'\x00\x1b"
	var c Canvas
	c.Open("svg", A("aria-label", bad))
	c.Open("g")
	c.Text(1, 2, bad, bad)
	c.Titled("rect", bad, Box(0, 0, -5, 3)...)
	out := string(c.Bytes())
	if strings.Contains(out, "<a") || strings.Contains(out, `width="-`) {
		t.Errorf("not escaped: %s", out)
	}
	if err := xml.Unmarshal([]byte(out), new(struct{})); err != nil {
		t.Errorf("not well-formed: %v\n%s", err, out)
	}
}

func TestFit(t *testing.T) {
	const text = "a rather long label"
	if got := Fit(text, 12, 1000); got != text {
		t.Errorf("cut without need: %q", got)
	}
	for width := 20.0; width < 140; width += 7 {
		got := Fit(text, 12, width)
		if w := Width(got, 12); w > width {
			t.Errorf("%q is %.1f wide, want at most %.1f", got, w, width)
		}
	}
}

func TestWrap(t *testing.T) {
	const text = "With the agents, every path answered again 3.2 s after the fault"
	lines := Wrap(text, 13, 150)
	if len(lines) < 3 || strings.Join(lines, " ") != text {
		t.Errorf("wrapped into %q", lines)
	}
	for _, line := range lines {
		if w := Width(line, 13); w > 150 {
			t.Errorf("%q is %.1f wide", line, w)
		}
	}
}
