// Package svg writes SVG elements: escaping, number formatting and nesting, and
// no opinion about what is drawn.
//
// Guarantees: the output is well-formed XML whatever strings are passed in, and
// is the same on every machine (coordinates are rounded to hundredths, so that
// fused multiply-add on some processors cannot show).
package svg
