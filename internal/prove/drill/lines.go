package drill

import "bytes"

// lines is a writer that hands each whole line to each. It is used by one
// goroutine at a time, as the output of one child process.
type lines struct {
	each func([]byte)
	rest []byte
}

// maxRest bounds an endless line; a sample is below 2 kB.
const maxRest = 1 << 20

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		head, tail, found := bytes.Cut(p, []byte{'\n'})
		if !found {
			break
		}
		l.each(append(l.rest, head...))
		l.rest, p = l.rest[:0], tail
	}
	if l.rest = append(l.rest, p...); len(l.rest) > maxRest {
		l.rest = l.rest[:0]
	}
	return n, nil
}
