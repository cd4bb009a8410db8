package svg

import (
	"bytes"
	"encoding/xml"
	"math"
	"strconv"
)

// Attr is one attribute of an element.
type Attr struct {
	Name  string
	Value string
}

// A is an attribute with a text value.
func A(name, value string) Attr { return Attr{name, value} }

// N is an attribute with a number, see [Num].
func N(name string, value float64) Attr { return Attr{name, Num(value)} }

// Class is the class attribute.
func Class(names string) Attr { return Attr{"class", names} }

// Num prints v with at most two decimals. NaN and infinities, which SVG does not
// know, become 0.
func Num(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	v = math.Round(v*100) / 100
	if v == 0 { // also drops the sign of -0
		v = 0
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Canvas collects elements. The zero value is ready for use.
type Canvas struct {
	buf  bytes.Buffer
	open []string
}

// Open starts an element that stays open until the matching [Canvas.Close].
func (c *Canvas) Open(name string, attrs ...Attr) {
	c.start(name, attrs)
	c.buf.WriteString(">\n")
	c.open = append(c.open, name)
}

// Close ends the innermost open element; without one it does nothing.
func (c *Canvas) Close() {
	if len(c.open) == 0 {
		return
	}
	last := len(c.open) - 1
	c.buf.WriteString("</" + c.open[last] + ">\n")
	c.open = c.open[:last]
}

// Empty writes an element without content.
func (c *Canvas) Empty(name string, attrs ...Attr) {
	c.start(name, attrs)
	c.buf.WriteString("/>\n")
}

// Leaf writes an element whose content is text.
func (c *Canvas) Leaf(name, text string, attrs ...Attr) {
	c.start(name, attrs)
	c.buf.WriteByte('>')
	escape(&c.buf, text)
	c.buf.WriteString("</" + name + ">\n")
}

// Titled writes an element that shows title when pointed at.
func (c *Canvas) Titled(name, title string, attrs ...Attr) {
	c.start(name, attrs)
	c.buf.WriteString("><title>")
	escape(&c.buf, title)
	c.buf.WriteString("</title></" + name + ">\n")
}

// Text writes text with its baseline starting at x, y.
func (c *Canvas) Text(x, y float64, class, text string, attrs ...Attr) {
	c.Leaf("text", text, append([]Attr{N("x", x), N("y", y), Class(class)}, attrs...)...)
}

// Rect writes a rectangle.
func (c *Canvas) Rect(x, y, w, h float64, class string, attrs ...Attr) {
	c.Empty("rect", append(Box(x, y, w, h), append([]Attr{Class(class)}, attrs...)...)...)
}

// Line writes a straight line.
func (c *Canvas) Line(x1, y1, x2, y2 float64, class string, attrs ...Attr) {
	ends := []Attr{N("x1", x1), N("y1", y1), N("x2", x2), N("y2", y2), Class(class)}
	c.Empty("line", append(ends, attrs...)...)
}

// Circle writes a circle.
func (c *Canvas) Circle(x, y, r float64, class string, attrs ...Attr) {
	c.Empty("circle", append([]Attr{N("cx", x), N("cy", y), N("r", r), Class(class)}, attrs...)...)
}

// Path writes a path with the given data.
func (c *Canvas) Path(d, class string, attrs ...Attr) {
	c.Empty("path", append([]Attr{A("d", d), Class(class)}, attrs...)...)
}

// Raw writes markup that the caller vouches for, such as a style sheet.
func (c *Canvas) Raw(markup string) { c.buf.WriteString(markup) }

// Bytes closes what is still open and returns the markup.
func (c *Canvas) Bytes() []byte {
	for len(c.open) > 0 {
		c.Close()
	}
	return c.buf.Bytes()
}

// Box is the position and size of a rectangle. Negative sizes, which SVG calls
// an error, become 0.
func Box(x, y, w, h float64) []Attr {
	return []Attr{N("x", x), N("y", y), N("width", math.Max(0, w)), N("height", math.Max(0, h))}
}

func (c *Canvas) start(name string, attrs []Attr) {
	c.buf.WriteString("<" + name)
	for _, a := range attrs {
		c.buf.WriteString(" " + a.Name + `="`)
		escape(&c.buf, a.Value)
		c.buf.WriteByte('"')
	}
}

// escape writes s for use in text or in a quoted attribute. Characters that XML
// cannot hold become U+FFFD.
func escape(buf *bytes.Buffer, s string) {
	_ = xml.EscapeText(buf, []byte(s)) // a bytes.Buffer does not fail
}
