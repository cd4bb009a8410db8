package drill

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

func compareCommand() *cobra.Command {
	var asJSON bool
	var page string
	cmd := &cobra.Command{
		Use:   "compare EARLIER LATER",
		Short: "Set two drills side by side: which path was out for longer, and by how much",
		Long: `Set two drills side by side: which path was out for longer, and by how much.

EARLIER and LATER are directories of reports. Outages are known between two
bounds, and so is their difference: where the bounds of both overlap, none is
shown. What else differs, such as versions and the kernel, is told as well.

Exit code 0, whatever differs: each drill has its own verdict. 2: a report
cannot be read.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := report.Directory{Path: args[0]}.Read()
			if err != nil {
				return err
			}
			after, err := report.Directory{Path: args[1]}.Read()
			if err != nil {
				return err
			}
			c := report.Compare(before, after)
			if page != "" {
				if err := writePage(page, c); err != nil {
					return err
				}
			}
			if asJSON {
				return c.Encode(cmd.OutOrStdout())
			}
			return c.Text(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON")
	cmd.Flags().StringVar(&page, "html", "", "write the comparison as one page into this file too")
	return cmd
}

func writePage(name string, c *report.Comparison) error {
	var b bytes.Buffer
	if err := c.HTML(&b); err != nil {
		return err
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}
