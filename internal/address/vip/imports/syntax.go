package imports

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// statement is one line of keepalived's language, with the block behind it.
type statement struct {
	line  int
	words []string
	block []*statement // nil: no braces
}

func (s *statement) name() string { return s.words[0] }

// word returns word i, or "".
func (s *statement) word(i int) string {
	if i < len(s.words) {
		return s.words[i]
	}
	return ""
}

func (s *statement) where() string { return fmt.Sprintf("line %d: %s", s.line, s.name()) }

// most bounds what variables may grow to, and how deep blocks may be.
const (
	mostBytes = 1 << 20
	mostDepth = 16
)

// token is a word, a brace, or the end of a line ("\n").
type token struct {
	text   string
	quoted bool
	line   int
}

func (t token) is(text string) bool { return t.text == text && !t.quoted }

// parse reads a file of keepalived: words in lines, blocks in braces, comments
// from ! or #, text in quotes, $NAME=value and $NAME.
func parse(data []byte) ([]*statement, error) {
	p := &parser{variables: map[string]string{}}
	for i, line := range joined(string(data)) {
		if line != nil {
			p.tokens = append(p.tokens, p.split(*line, i+1)...)
		}
	}
	all := p.statements(0)
	if p.at < len(p.tokens) && len(p.mistakes) == 0 {
		p.mistakes = append(p.mistakes, fmt.Errorf("line %d: a } too many; remove it", p.tokens[p.at].line))
	}
	return all, errors.Join(p.mistakes...)
}

// joined gives the lines, with those after a backslash (nil) put behind it.
func joined(text string) []*string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	all := make([]*string, len(lines))
	start := -1
	for i := range lines {
		line := lines[i]
		open := strings.HasSuffix(line, `\`)
		line = strings.TrimSuffix(line, `\`)
		if start < 0 {
			all[i] = &line
			start = i
		} else {
			*all[start] += " " + line
		}
		if !open {
			start = -1
		}
	}
	return all
}

type parser struct {
	tokens    []token
	at        int
	variables map[string]string
	spent     int
	mistakes  []error
}

func (p *parser) mistake(line int, format string, args ...any) {
	// One line a mistake, but not a thousand of a file that is something else.
	if len(p.mistakes) < 20 {
		p.mistakes = append(p.mistakes, fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...)))
	}
}

var (
	definition = regexp.MustCompile(`^\s*\$([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$`)
	reference  = regexp.MustCompile(`\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)
)

// split makes tokens of a line.
func (p *parser) split(line string, number int) []token {
	if m := definition.FindStringSubmatch(line); m != nil {
		p.variables[m[1]] = p.expand(m[2], number)
		return nil
	}
	var all []token
	rest := line
	for {
		rest = strings.TrimLeft(rest, " \t\v\f")
		if rest == "" || rest[0] == '#' || rest[0] == '!' {
			break
		}
		switch rest[0] {
		case '{', '}':
			all = append(all, token{rest[:1], false, number})
			rest = rest[1:]
			continue
		case '"', '\'':
			text, after, ok := strings.Cut(rest[1:], rest[:1])
			if !ok {
				p.mistake(number, "a quote is not closed; close it on the same line")
			}
			all = append(all, token{p.expand(text, number), true, number})
			rest = after
			continue
		}
		end := bare(rest)
		all = append(all, token{p.expand(rest[:end], number), false, number})
		rest = rest[end:]
	}
	if len(all) > 0 && strings.HasPrefix(all[0].text, "@") && !all[0].quoted {
		p.mistake(number, "%s: conditions are not followed; write the file as one machine reads it", all[0].text)
		return nil
	}
	return append(all, token{"\n", false, number})
}

// bare is how long a word without quotes is. A brace belongs to a word where it
// is that of a variable.
func bare(text string) int {
	inside := false
	for i, c := range text {
		switch {
		case c == '{' && i > 0 && text[i-1] == '$':
			inside = true
		case c == '}' && inside:
			inside = false
		case strings.ContainsRune(" \t\v\f{}", c):
			return i
		}
	}
	return len(text)
}

func (p *parser) expand(text string, number int) string {
	text = reference.ReplaceAllStringFunc(text, func(m string) string {
		name := strings.Trim(m, "${}")
		value, ok := p.variables[name]
		if !ok {
			p.mistake(number, "%s is not defined above; define it or write its value", m)
		}
		if p.spent += len(value); p.spent > mostBytes {
			return ""
		}
		return value
	})
	return text
}

// statements reads until the end or a closing brace, which stays.
func (p *parser) statements(depth int) []*statement {
	all := []*statement{}
	for p.at < len(p.tokens) {
		t := p.tokens[p.at]
		switch {
		case t.is("\n"):
			p.at++
		case t.is("}"):
			return all
		case t.is("{"):
			p.mistake(t.line, "a block without a name; write what it is before {")
			p.at++
			p.block(t.line, depth)
		default:
			all = append(all, p.statement(depth))
		}
	}
	return all
}

func (p *parser) statement(depth int) *statement {
	s := &statement{line: p.tokens[p.at].line}
	for p.at < len(p.tokens) {
		t := p.tokens[p.at]
		if t.is("{") || t.is("}") || t.is("\n") {
			break
		}
		s.words = append(s.words, t.text)
		p.at++
	}
	if p.opens() {
		s.block = p.block(s.line, depth)
	}
	if strings.HasPrefix(s.words[0], "include") {
		p.mistake(s.line, "%s: other files are not read; put their content here", s.words[0])
	}
	return s
}

// opens says whether a block follows, be it on a line of its own.
func (p *parser) opens() bool {
	for i := p.at; i < len(p.tokens); i++ {
		switch t := p.tokens[i]; {
		case t.is("{"):
			p.at = i + 1
			return true
		case !t.is("\n"):
			return false
		}
	}
	return false
}

// block reads what is between braces; the opening one is behind.
func (p *parser) block(line, depth int) []*statement {
	if depth >= mostDepth {
		p.mistake(line, "blocks are more than %d deep; is this a file of keepalived?", mostDepth)
		p.at = len(p.tokens)
		return nil
	}
	all := p.statements(depth + 1)
	if p.at >= len(p.tokens) {
		p.mistake(line, "a block is not closed; add a }")
		return all
	}
	p.at++
	return all
}
