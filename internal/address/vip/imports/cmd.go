package imports

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// mostInput bounds a file; the largest settings of either program are far below.
const mostInput = 1 << 20

// Command is `holdfast vip import`. load says why the agent would not take what
// came out, such as that there are names to fill in: that is said as well.
func Command(load func(yaml []byte) error) *cobra.Command {
	from := ""
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Print the settings that do what a keepalived.conf or a manifest of kube-vip does",
		Long: "Print YAML for `holdfast vip run --config`. What cannot be carried over, or works differently,\n" +
			"is named on stderr, one line each. Nothing is changed, and no file but FILE is read (\"-\": stdin).",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := input(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			r, err := convert(from, data)
			if err != nil {
				return refuse(cmd.ErrOrStderr(), args[0], err)
			}
			if err := load(r.YAML); err != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("to be mended before it can be run: %v", err))
			}
			for _, n := range r.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), n)
			}
			if _, err := cmd.OutOrStdout().Write(r.YAML); err != nil {
				return fmt.Errorf("write YAML: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "keepalived or kube-vip (default: by what is in the file)")
	return cmd
}

// refuse says each mistake on a line of its own.
func refuse(stderr io.Writer, name string, err error) error {
	mistakes := strings.Split(err.Error(), "\n")
	if len(mistakes) == 1 {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, m := range mistakes {
		fmt.Fprintf(stderr, "%s: %s\n", name, m)
	}
	return fmt.Errorf("%s: has %d mistakes; nothing was printed", name, len(mistakes))
}

func input(stdin io.Reader, name string) ([]byte, error) {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read settings: %w", err)
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, mostInput+1))
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if len(data) > mostInput {
		return nil, fmt.Errorf("%s: larger than %d bytes; is this the right file?", name, mostInput)
	}
	return data, nil
}

func convert(from string, data []byte) (Result, error) {
	switch from {
	case "keepalived":
		return Keepalived(data)
	case "kube-vip":
		return KubeVIP(data)
	case "":
		if manifestLike(data) {
			return KubeVIP(data)
		}
		return Keepalived(data)
	}
	return Result{}, fmt.Errorf("--from %q is not known; use keepalived or kube-vip", from)
}
