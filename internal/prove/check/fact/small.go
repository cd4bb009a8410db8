package fact

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func itoa(i int) string { return strconv.Itoa(i) }

// matches is how certificates name hosts: whole names, and one leading label may
// be a star (RFC 9525, section 6.3).
func matches(pattern, host string) bool {
	if rest, ok := strings.CutPrefix(pattern, "*."); ok {
		_, after, found := strings.Cut(host, ".")
		return found && strings.EqualFold(rest, after)
	}
	return strings.EqualFold(pattern, host)
}

// below is the place of a field taken as a document of its own, so that paths
// begin there.
func (l Location) below(path ...string) Location {
	n := l.yaml
	if n == nil {
		return l
	}
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	for _, key := range path {
		at, value := child(n, key)
		if value == nil {
			return l.Field(path...)
		}
		l.Line, n = at, value
	}
	l.yaml = n
	return l
}
