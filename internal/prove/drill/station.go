package drill

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// stationPort is where every machine of the address answers, over UDP and TCP.
const stationPort = 7070

// startStation answers on a machine for whatever addresses it has, with its name.
// It stands for the kernel of that machine, which answers without waiting for a
// processor: so it comes before the other programs of a run.
func startStation(ctx context.Context, node *lab.Node, exe string) error {
	_, err := node.Spawn(ctx, lab.Process{
		Name: "station-" + node.Name(),
		Argv: []string{"nice", "-n", "-15", exe, "probe", "--answer", ":" + strconv.Itoa(stationPort), "--name", node.Name()},
	})
	if err != nil {
		return fmt.Errorf("start station: %w", err)
	}
	return nil
}
