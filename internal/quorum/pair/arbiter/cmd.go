package arbiter

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter/server"
)

// envPrefix is before the name of every flag in the environment.
const envPrefix = "HOLDFAST_PAIR"

// Command is `holdfast pair arbiter`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "arbiter",
		Short: "Serve, test and show the record that decides which member may serve alone",
	}
	cmd.AddCommand(serveCommand())
	return cmd
}

func serveCommand() *cobra.Command {
	s, path := server.DefaultSettings(), ""
	cmd := &cobra.Command{
		Use: "serve", Args: cobra.NoArgs,
		Short: "Be an arbiter: keep records in a directory, for pairs of members elsewhere",
		Long: "Keeps small objects in a directory, read by GET and replaced by PUT with If-Match or\n" +
			"If-None-Match. It belongs on a third machine, in neither of the two sites.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Layer(cmd, envPrefix+"_ARBITER", &path, &s); err != nil {
				return err
			}
			if err := s.Check(); err != nil {
				return err
			}
			return server.Run(cmd.Context(), cmd.ErrOrStderr(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&path, "config", "", "settings file (YAML); see docs/guide/arbiter.md")
	f.StringVar(&s.Listen, "listen", s.Listen, "HOST:PORT to serve at")
	f.StringVar(&s.Dir, "dir", s.Dir, "directory of the objects; made if it is not there")
	f.StringVar(&s.CertFile, "cert-file", "", "certificate of the server")
	f.StringVar(&s.KeyFile, "key-file", "", "its key")
	f.StringVar(&s.ClientCAFile, "client-ca-file", "", "CA of clients, which then must show a certificate")
	f.StringVar(&s.TokenFile, "token-file", "", "file with the tokens that may come, one a line")
	s.Log.AddFlags(f)
	return cmd
}
