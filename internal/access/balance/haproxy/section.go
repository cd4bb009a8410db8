package haproxy

import (
	"fmt"
	"slices"
)

// section is one of the file: its head and its directives.
type section struct {
	kind, name, from string
	number           int
	lines            []line
}

// proxies are the kinds that carry traffic, defaults included.
var proxies = []string{"defaults", "frontend", "backend", "listen"}

// others are the kinds known to the manual that nothing is taken from.
var others = []string{
	"resolvers", "peers", "mailers", "userlist", "program", "http-errors", "ring", "log-forward", "cache", "fcgi-app", "crt-store", "traces", "acme",
}

// sections cuts the file at its heads.
func sections(lines []line, name string) ([]section, error) {
	var all []section
	for _, l := range lines {
		kind := l.words[0]
		if kind == "global" || slices.Contains(proxies, kind) || slices.Contains(others, kind) {
			s := section{kind: kind, name: l.word(1), number: l.number}
			if i := slices.Index(l.words, "from"); i > 0 && slices.Contains(proxies, kind) {
				s.from = l.word(i + 1)
				if i == 1 {
					s.name = ""
				}
			}
			all = append(all, s)
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%s:%d: %q stands before any section; is this a haproxy.cfg?", name, l.number, clip(kind))
		}
		last := &all[len(all)-1]
		last.lines = append(last.lines, l)
	}
	return all, nil
}

// clip keeps words of a foreign file short in notes.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
