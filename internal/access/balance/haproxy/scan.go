package haproxy

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxSize bounds the file, as for the balancer's own settings.
const maxSize = 1 << 20

// line is one directive.
type line struct {
	number int
	words  []string
	// env says that a word stands for an environment variable.
	env bool
}

func (l line) String() string { return strings.Join(l.words, " ") }

// word returns the i-th word, or "".
func (l line) word(i int) string {
	if i < len(l.words) {
		return l.words[i]
	}
	return ""
}

// scan splits a file into directives (manual, section 2.2).
func scan(r io.Reader, name string) ([]line, error) {
	var lines []line
	in := bufio.NewScanner(io.LimitReader(r, maxSize+1))
	in.Buffer(nil, maxSize+2)
	size := 0
	for n := 1; in.Scan(); n++ {
		if size += len(in.Bytes()) + 1; size > maxSize {
			return nil, fmt.Errorf("%s: larger than %d bytes; is this the right file?", name, maxSize)
		}
		l, err := split(in.Text())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if l.number = n; len(l.words) > 0 {
			lines = append(lines, l)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return lines, nil
}

// splitter collects the words of one line.
type splitter struct {
	line
	word  strings.Builder
	began bool // a word, maybe an empty one in quotes
}

func (s *splitter) put(c byte) { s.began = true; s.word.WriteByte(c) }

func (s *splitter) end() {
	if s.began {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.began = false
}

// split reads one line: words between blanks; \ takes a character as it is;
// '…' takes all as it is; "…" all but \ and $; # begins a comment.
func split(text string) (line, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return line{}, fmt.Errorf("not text in UTF-8; is this a haproxy.cfg?")
	}
	var s splitter
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && quote != '\'':
			if i++; i == len(text) {
				return line{}, fmt.Errorf("\\ at the end of the line; remove it")
			}
			s.put(unescape(text[i]))
		case quote == 0 && (c == '"' || c == '\''):
			quote, s.began = c, true
		case c == quote && quote != 0:
			quote = 0
		case quote == 0 && c == '#':
			s.end()
			return s.line, nil
		case quote == 0 && (c == ' ' || c == '\t' || c == '\r'):
			s.end()
		default:
			s.env = s.env || quote == '"' && c == '$'
			s.put(c)
		}
	}
	if quote != 0 {
		return line{}, fmt.Errorf("a quote %c is not closed; close it on the same line", quote)
	}
	s.end()
	return s.line, nil
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}
