package drill

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// electionProgram holds an address while client-go's leader election says that it
// leads: what address holders do that rest on a Lease (see test/peers).
const electionProgram = "leaderelection"

// inPlaceCommand is the command line of what people use in the place of an agent.
func (e *engine) inPlaceCommand(p scenario.Process) ([]string, error) {
	switch {
	case p.Kind() == scenario.AgentFront:
		return e.haproxyCommand(p)
	case e.anycast():
		return e.frrCommand(p)
	case e.c.VIP.ByElection():
		return e.electionCommand(p)
	}
	return e.keepalivedCommand(p)
}

// electionCommand contends by the apiserver of the machine's site, as with a
// kubeconfig that kubeadm has written.
func (e *engine) electionCommand(p scenario.Process) ([]string, error) {
	program, err := lab.FindPeer(electionProgram)
	if err != nil {
		return nil, err
	}
	node, err := e.lab.Node(p.Node)
	if err != nil {
		return nil, err
	}
	pki, _ := e.lab.KubernetesPKI(p.Node) // every node has one where there are apiservers
	t := e.c.VIP.ElectionTimers()
	return []string{
		program, "--kubeconfig", pki.AdminConf, "--lease", vipGroup, "--identity", p.Node,
		"--interface", node.Interface(), "--address", e.heldAddress().String(), "--announce", t.Announce.String(),
		"--duration", t.Duration.String(), "--renew", t.Renew.String(), "--retry", t.Retry.String(),
	}, nil
}

// electionLine reads a line of its log.
func electionLine(line string) (state string, ok bool) {
	_, held, ok := strings.Cut(line, "holds the address: ")
	if !ok {
		return "", false
	}
	if strings.TrimSpace(held) == "true" {
		return stateActive, true
	}
	return stateBackup, true
}

// peerLine turns a line of its log into an event when it is one.
func (e *engine) peerLine(p scenario.Process, line []byte) {
	program, read := keepalivedProgram, keepalivedLine
	if e.c.VIP.ByElection() {
		program, read = electionProgram, electionLine
	}
	state, ok := read(string(line))
	if !ok || p.Kind() != scenario.AgentVIP {
		return
	}
	e.mu.Lock()
	e.peerStates[p] = state
	e.mu.Unlock()
	e.w.Event(record.Event{
		At: e.clock.now(), Source: program + "/" + p.Node, Kind: record.KindHolds,
		Keys: map[string]string{"state": state}, Message: fmt.Sprintf("%s is %s", program, state),
	})
}
