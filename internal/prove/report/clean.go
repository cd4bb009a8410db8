package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes a string from the systems under test fit to be shown on one line:
// no control characters (terminal escapes, line breaks), no formatting characters
// (a right-to-left override can make "fail" read as something else), valid UTF-8.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, unicode.In(r, unicode.Co, unicode.Cs):
			return '\uFFFD'
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s))
}

// brief is clean cut to at most limit characters, the last one an ellipsis when
// something was cut.
func brief(s string, limit int) string {
	s = clean(s)
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:max(0, limit-1)])) + "…"
}
