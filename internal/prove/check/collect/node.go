package collect

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// Command is one that only prints, whose output rules may look at.
type Command struct {
	// Name is that of its file in a bundle; rules find it as "!NAME".
	Name string
	Args []string
}

// Commands are all that is run on a machine. None of them changes anything.
var Commands = []Command{
	{"ip-address.json", []string{"ip", "-json", "address"}},
	{"ip-route.json", []string{"ip", "-json", "route", "show", "table", "all"}},
	{"vtysh-bgp-summary.json", []string{"vtysh", "-c", "show bgp summary json"}},
	{"vtysh-bgp-ipv4.json", []string{"vtysh", "-c", "show bgp ipv4 unicast json"}},
	{"vtysh-bgp-ipv6.json", []string{"vtysh", "-c", "show bgp ipv6 unicast json"}},
	{"vtysh-bgp-neighbors.json", []string{"vtysh", "-c", "show bgp neighbors json"}},
	{"vtysh-bfd-peers.json", []string{"vtysh", "-c", "show bfd peers json"}},
	{"vtysh-route-map.json", []string{"vtysh", "-c", "show route-map json"}},
	{"units-enabled.txt", []string{"systemctl", "is-enabled", "apt-daily-upgrade.timer", "unattended-upgrades.service", "keepalived", "haproxy", "frr", "kubelet", "systemd-networkd"}},
}

const (
	commandTimeout = 5 * time.Second
	commandOutput  = 1 << 20
)

// Node hands a machine's settings to sink, and what Commands print where its file
// system begins at /. It returns what the bundle says of them.
func Node(ctx context.Context, root string, sink Sink) (states map[string]source.Stated, err error) {
	node, states, err := source.NodeTo(root, source.DefaultLimits(), sink.File)
	if err != nil || root != "/" {
		return states, err
	}
	for _, c := range Commands {
		out, err := c.run(ctx)
		key := "files/" + node + "!" + c.Name
		switch {
		case ctx.Err() != nil:
			return states, context.Cause(ctx)
		case errors.Is(err, exec.ErrNotFound):
			states[key] = source.Stated{State: fact.Absent.String()}
			continue
		case len(out) == 0:
			// The program is there and has nothing to say: no daemon runs.
			states[key] = source.Stated{State: fact.Absent.String()}
			continue
		case len(out) >= commandOutput:
			states[key] = source.Stated{State: fact.Unknown.String(), Why: "prints more than a megabyte"}
			continue
		}
		if err := sink.File("nodes/"+node+"/commands/"+c.Name, source.Redact(out)); err != nil {
			return states, err
		}
	}
	return states, nil
}

// run returns what a command prints on its standard output, whatever its code.
func (c Command) run(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.WaitDelay = time.Second
	var out bounded
	cmd.Stdout = &out
	err := cmd.Run()
	return out.Bytes(), err
}

// bounded keeps the first megabyte and lets the rest go by.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := commandOutput - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
