package svg

import (
	"strings"
	"unicode"
)

// Width estimates how wide text is at a font size, in the same unit. It follows
// the advance widths of DejaVu Sans, the widest of the usual system fonts, so that
// text laid out with it does not overlap in another one.
func Width(text string, size float64) float64 {
	var em float64
	for _, r := range text {
		em += advance(r)
	}
	return em * size
}

func advance(r rune) float64 {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case strings.ContainsRune("iljI|", r):
		return .29
	case strings.ContainsRune(" .,:;'!()[]/ftr·", r):
		return .39
	case strings.ContainsRune("mMwW%@—", r):
		return .93
	case r >= 'a' && r <= 'z':
		return .61
	case r >= '0' && r <= '9':
		return .636
	case r < 0x250: // capitals, signs, accented Latin
		return .68
	case r >= 0x2000 && r < 0x2200: // dashes, arrows, primes
		return .6
	case r < 0x1100: // Greek, Cyrillic, …
		return .7
	}
	return 1.05 // wide scripts, emoji, unknown
}

// Fit cuts text so that it is at most width wide, the last character an ellipsis
// when something was cut.
func Fit(text string, size, width float64) string {
	if Width(text, size) <= width {
		return text
	}
	room := width - Width("…", size)
	var used float64
	for i, r := range text {
		used += advance(r) * size
		if used > room {
			return strings.TrimSpace(text[:i]) + "…"
		}
	}
	return text
}

// Wrap breaks text between words into lines of at most width. A longer word is
// cut.
func Wrap(text string, size, width float64) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		word = Fit(word, size, width)
		if line != "" && Width(line+" "+word, size) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
