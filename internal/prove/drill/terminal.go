package drill

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// terminalOf tells the text report how wide the output is and whether it may
// be coloured (https://no-color.org).
func terminalOf(out io.Writer) report.Terminal {
	f, ok := out.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return report.Terminal{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	return report.Terminal{Width: width, Color: os.Getenv("NO_COLOR") == ""}
}
