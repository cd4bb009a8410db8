package conf

import (
	"slices"
	"strings"
)

// Block is one statement: its words, and the statements inside it.
type Block struct {
	Line   int
	Words  []string
	Blocks []*Block
}

// Has says whether the statement begins with the given words.
func (b *Block) Has(words ...string) bool {
	return len(b.Words) >= len(words) && slices.Equal(b.Words[:len(words)], words)
}

// All lists the statements directly inside b that begin with the given words.
func (b *Block) All(words ...string) []*Block {
	var all []*Block
	for _, c := range b.Blocks {
		if c.Has(words...) {
			all = append(all, c)
		}
	}
	return all
}

// First is the first of All; nil where there is none.
func (b *Block) First(words ...string) *Block {
	for _, c := range b.Blocks {
		if c.Has(words...) {
			return c
		}
	}
	return nil
}

// Word is the word at a place; "" where there are fewer, or no block.
func (b *Block) Word(i int) string {
	if b == nil || i >= len(b.Words) {
		return ""
	}
	return b.Words[i]
}

// After is the word that follows key in the statement; "" where there is none.
func (b *Block) After(key string) string {
	if b == nil {
		return ""
	}
	if i := slices.Index(b.Words, key); i >= 0 {
		return b.Word(i + 1)
	}
	return ""
}

// Text is the statement as one line.
func (b *Block) Text() string { return strings.Join(b.Words, " ") }

// Walk visits b and everything inside it.
func (b *Block) Walk(visit func(*Block)) {
	visit(b)
	for _, c := range b.Blocks {
		c.Walk(visit)
	}
}

// fields splits a line at spaces outside quotes, up to a comment that begins with
// one of the marks.
func fields(line, marks string) []string {
	var all []string
	var word strings.Builder
	var quote rune
	inWord := false
	end := func() {
		if inWord {
			all = append(all, word.String())
			word.Reset()
			inWord = false
		}
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\r':
			end()
		case !inWord && strings.ContainsRune(marks, c):
			return all
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	end()
	return all
}
