package logstore

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Modes of a store.
const (
	Sharded = "sharded"
	Zoned   = "zoned"
)

// Port is where stores serve in drills.
const Port = 9428

// peer is a store of one zone.
type peer struct{ name, url string }

// options are those of the command.
type options struct {
	listen, name, mode string
	patience           time.Duration
	peers              []peer
}

func (o options) sharded() bool { return o.mode == Sharded }

// Command is `holdfast drill logstore`, which drills start and people do not.
func Command() *cobra.Command {
	var o options
	var peers []string
	cmd := &cobra.Command{
		Use:    "logstore",
		Short:  "The store of log lines that the drill sharded-store cuts in half; nothing to keep logs in",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.peers, err = parsePeers(peers); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", fmt.Sprintf(":%d", Port), "where to serve")
	f.StringVar(&o.name, "name", "", "zone of this store, one of the peers")
	f.StringVar(&o.mode, "mode", Sharded, "sharded: a line goes to one store, a query asks all; zoned: a line goes to all, a query asks its own")
	f.DurationVar(&o.patience, "patience", 30*time.Second, "how long a query waits for a shard")
	f.StringArrayVar(&peers, "peer", nil, "store of a zone, as ZONE=http://HOST:PORT; once for each, this one too")
	return cmd
}

func parsePeers(given []string) ([]peer, error) {
	var out []peer
	for _, s := range given {
		name, at, ok := strings.Cut(s, "=")
		u, err := url.Parse(at)
		if !ok || name == "" || err != nil || u.Scheme != "http" || u.Host == "" || u.Path != "" {
			return nil, fmt.Errorf("--peer: %q is no store; write ZONE=http://HOST:PORT", s)
		}
		out = append(out, peer{name, at})
	}
	return out, nil
}

func (o options) check() error {
	switch {
	case o.mode != Sharded && o.mode != Zoned:
		return fmt.Errorf("--mode: %q is unknown; choose %s or %s", o.mode, Sharded, Zoned)
	case o.patience <= 0:
		return fmt.Errorf("--patience: %s is no time to wait; choose one such as 30s", o.patience)
	case !slices.ContainsFunc(o.peers, func(p peer) bool { return p.name == o.name }):
		return fmt.Errorf("--name: %q is none of the peers; add --peer %s=http://HOST:PORT", o.name, o.name)
	}
	return nil
}
