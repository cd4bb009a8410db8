package telemetry

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// Log says how an agent logs. The zero value is text from level info up.
type Log struct {
	// Format is "text" or "json".
	Format string `yaml:"format"`
	// Level is "debug", "info", "warn" or "error".
	Level string `yaml:"level"`
}

// AddFlags adds --log-format and --log-level.
func (l *Log) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.Format, "log-format", orElse(l.Format, "text"), "form of log lines: text or json")
	flags.StringVar(&l.Level, "log-level", orElse(l.Level, "info"), "lowest level logged: debug, info, warn or error")
}

// New returns a logger that writes to w.
func (l *Log) New(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(orElse(l.Level, "info"))); err != nil {
		return nil, fmt.Errorf("log-level: %q is not a level; write debug, info, warn or error", l.Level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch orElse(l.Format, "text") {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log-format: %q is not a format; write text or json", l.Format)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
