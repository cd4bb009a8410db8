package conf

import "strings"

// haproxySections are the words that begin a section of haproxy.cfg.
var haproxySections = map[string]bool{
	"global": true, "defaults": true, "frontend": true, "backend": true, "listen": true, "resolvers": true,
	"peers": true, "userlist": true, "program": true, "cache": true, "ring": true, "mailers": true, "http-errors": true,
}

// HAProxy reads haproxy.cfg: sections, and their statements inside them.
func HAProxy(data []byte) *Block {
	root := &Block{}
	at := root
	for i, line := range strings.Split(string(data), "\n") {
		words := fields(line, "#")
		if len(words) == 0 {
			continue
		}
		b := &Block{Line: i + 1, Words: words}
		if haproxySections[words[0]] {
			root.Blocks, at = append(root.Blocks, b), b
			continue
		}
		at.Blocks = append(at.Blocks, b)
	}
	return root
}

// maxDepth is deeper than any of these programs nests.
const maxDepth = 32

// Keepalived reads keepalived.conf: blocks in braces.
func Keepalived(data []byte) *Block {
	root := &Block{}
	stack := []*Block{root}
	for i, line := range strings.Split(string(data), "\n") {
		var words []string
		flush := func() {
			if len(words) > 0 {
				top := stack[len(stack)-1]
				top.Blocks = append(top.Blocks, &Block{Line: i + 1, Words: words})
				words = nil
			}
		}
		for _, w := range fields(spread(line, "{}"), "#!") {
			switch w {
			case "{":
				if len(words) == 0 { // the brace may stand on a line of its own
					if top := stack[len(stack)-1]; len(top.Blocks) > 0 && len(stack) < maxDepth {
						stack = append(stack, top.Blocks[len(top.Blocks)-1])
					}
					continue
				}
				flush()
				if top := stack[len(stack)-1]; len(stack) < maxDepth {
					stack = append(stack, top.Blocks[len(top.Blocks)-1])
				}
			case "}":
				flush()
				if len(stack) > 1 {
					stack = stack[:len(stack)-1]
				}
			default:
				words = append(words, w)
			}
		}
		flush()
	}
	return root
}

// spread puts spaces around marks outside quotes.
func spread(line, marks string) string {
	if !strings.ContainsAny(line, marks) {
		return line
	}
	var b strings.Builder
	quoted := false
	for _, c := range line {
		if c == '"' {
			quoted = !quoted
		}
		if !quoted && strings.ContainsRune(marks, c) {
			b.WriteString(" " + string(c) + " ")
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// FRR reads frr.conf: a statement that is indented belongs to the one above that
// is less so. "!" and "exit" end a block of the outermost level.
func FRR(data []byte) *Block {
	root := &Block{}
	type level struct {
		indent int
		block  *Block
	}
	stack := []level{{-1, root}}
	for i, line := range strings.Split(string(data), "\n") {
		words := fields(line, "#")
		if len(words) == 0 || strings.HasPrefix(words[0], "!") {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		for indent <= stack[len(stack)-1].indent {
			stack = stack[:len(stack)-1]
		}
		b := &Block{Line: i + 1, Words: words}
		top := stack[len(stack)-1].block
		top.Blocks = append(top.Blocks, b)
		if len(stack) < maxDepth {
			stack = append(stack, level{indent, b})
		}
	}
	return root
}

// Assignments reads files of KEY=value and "Key value" lines with sections in
// brackets as systemd, needrestart, apt and sysctl have them: a section's
// statements are inside it. Marks begin comments.
func Assignments(data []byte, marks string) *Block {
	root := &Block{}
	at := root
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.ContainsRune(marks, rune(line[0])) {
			continue
		}
		b := &Block{Line: i + 1}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			b.Words = []string{line[1 : len(line)-1]}
			root.Blocks, at = append(root.Blocks, b), b
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if ok {
			b.Words = []string{strings.TrimSpace(key), strings.TrimSpace(value)}
		} else {
			b.Words = strings.Fields(line)
		}
		at.Blocks = append(at.Blocks, b)
	}
	return root
}

// Lines reads files of one statement a line, such as /etc/hosts and resolv.conf.
// Marks begin comments, also behind a statement.
func Lines(data []byte, marks string) *Block {
	root := &Block{}
	for i, line := range strings.Split(string(data), "\n") {
		if words := fields(line, marks); len(words) > 0 {
			root.Blocks = append(root.Blocks, &Block{Line: i + 1, Words: words})
		}
	}
	return root
}
