package conf

import "strings"

// NGINX reads nginx.conf: statements end with a semicolon, wherever lines do, and
// blocks are in braces. What an include names is not read.
func NGINX(data []byte) *Block {
	root := &Block{}
	stack := []*Block{root}
	var words []string
	line := 0
	end := func() *Block {
		b := &Block{Line: line, Words: words}
		if len(words) > 0 {
			top := stack[len(stack)-1]
			top.Blocks = append(top.Blocks, b)
		}
		words = nil
		return b
	}
	for i, text := range strings.Split(string(data), "\n") {
		for _, w := range fields(spread(text, "{};"), "#") {
			switch w {
			case ";":
				end()
			case "{":
				if b := end(); len(stack) < maxDepth {
					stack = append(stack, b)
				}
			case "}":
				end()
				if len(stack) > 1 {
					stack = stack[:len(stack)-1]
				}
			default:
				if len(words) == 0 {
					line = i + 1
				}
				words = append(words, w)
			}
		}
	}
	end()
	return root
}
