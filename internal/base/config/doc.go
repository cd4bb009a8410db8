// Package config reads settings: strict YAML, HOLDFAST_* environment over it,
// flags over both.
//
// Guarantees:
//
//   - Nothing is silently ignored. An unknown key, a key given twice, a value
//     of the wrong type or a second document is an error of one line that
//     names file, line, field, value and remedy.
//   - Precedence is fixed: defaults < file < environment < flags given on the
//     command line. An environment variable set to nothing counts as unset.
//   - A duration carries its unit ("3s"); a plain number is refused, because
//     nobody can tell seconds from milliseconds by looking at it.
//   - A file over 1 MiB is refused before it is parsed.
//
// A settings struct holds its defaults, is bound to flags by pointer, and has
// yaml tags where the key differs from the lower-cased field name:
//
//	cfg := defaults()
//	cmd.Flags().DurationVar(&cfg.Settle, "settle", cfg.Settle, "…")
//	// in RunE:
//	err := config.Layer(cmd, "HOLDFAST_LEADER", &path, &cfg)
package config
