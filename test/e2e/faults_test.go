package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// TestFaults puts one lab through what an attacker or a bad night would do.
// Each case has agents and damping of its own (a prefix of its own).
func TestFaults(t *testing.T) {
	c := start(t, "3.6")
	for _, tc := range []struct {
		name string
		run  func(*cluster)
	}{
		{"blocked dialling moves nothing", blockedDialling},
		{"client ports closed between sites", closedClientPorts},
		{"no space", noSpace},
		{"agents killed in the split", killedAgents},
		{"dry run", dryRun},
		{"expired probe certificate moves nothing", wrongPeerCertificate},
		{"auth", withAuth},
	} {
		ok := t.Run(tc.name, func(t *testing.T) {
			sub := &cluster{t: t, lab: c.lab, agents: map[string]*agent{}}
			t.Cleanup(sub.stopAgents)
			t.Cleanup(sub.showLogs)
			sub.lead("a")
			sub.until("etcd is well again", patience, sub.allAnswer)
			tc.run(sub)
			sub.heal()
		})
		if !ok {
			return // the lab may be in any state
		}
	}
}

func (c *cluster) stopAgents() {
	for site, a := range c.agents {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := a.child.Stop(ctx, 5*time.Second); err != nil && !strings.Contains(err.Error(), "signal") {
			c.t.Errorf("stop agent %s: %v", site, err)
		}
		cancel()
	}
}

// stays makes sure that nothing moves for d.
func (c *cluster) stays(site string, d time.Duration) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if n := c.moves(); n != 0 {
				c.t.Errorf("%d moves, want none", n)
			}
			return
		case <-tick.C:
			if err := c.leads(site); errors.Is(err, errElsewhere) {
				c.t.Fatal(err)
			}
		}
	}
}

// blockedDialling: nobody can open connections between a and b, raft lives on
// those it has. Fresh probes fail in both directions.
func blockedDialling(c *cluster) {
	c.runAll("--prefix=/e2e-agents/dial")
	c.settled()
	c.cut(lab.Cut{From: "a", To: "b", State: lab.StateNew, Proto: lab.ProtoTCP})
	c.stays("a", 6*time.Second)
	c.until("raft is well all the time", patience, c.allAnswer)
}

// closedClientPorts: rows can only travel between agents.
func closedClientPorts(c *cluster) {
	c.runAll("--prefix=/e2e-agents/ports")
	c.settled()
	closed := []lab.Cut{}
	for _, pair := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "c"}} {
		closed = append(closed, lab.Cut{From: pair[0], To: pair[1], Proto: lab.ProtoTCP, Ports: []uint16{2379}})
	}
	c.cut(closed...)
	c.cut(lab.Cut{From: "a", To: "b"})
	c.until("every member answers", patience, c.allAnswer)
	if n := c.moves(); n != 1 {
		c.t.Errorf("%d moves, want 1", n)
	}
}

// noSpace: no member takes writes, so neither rows nor the record of the move
// can go through etcd.
func noSpace(c *cluster) {
	c.runAll("--prefix=/e2e-agents/space")
	c.settled()
	cli, err := c.member("b").Client()
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := c.member("b").Status(c.within(2 * time.Second))
	if err != nil {
		c.t.Fatal(err)
	}
	alarm := &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: b.ID, Alarm: etcdserverpb.AlarmType_NOSPACE}
	if _, err := etcdserverpb.NewMaintenanceClient(cli.ActiveConnection()).Alarm(c.within(5*time.Second), alarm); err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		all := &clientv3.AlarmMember{}
		if _, err := cli.AlarmDisarm(c.within(10*time.Second), all); err != nil {
			c.t.Errorf("disarm: %v", err)
		}
	}()
	c.cut(lab.Cut{From: "a", To: "b"})
	c.until("c leads", patience, func() error { return c.leads("c") })
	c.until("b follows", patience, func() error {
		s, err := c.member("b").Status(c.within(2 * time.Second))
		if err == nil && s.Leader == 0 {
			err = fmt.Errorf("b has no leader")
		}
		return err
	})
	c.heal()
}

// killedAgents: the agents die in the split; etcd is as it was; new ones end it.
func killedAgents(c *cluster) {
	c.runAll("--prefix=/e2e-agents/kill")
	c.settled()
	c.cut(lab.Cut{From: "a", To: "b"})
	for _, site := range sites {
		if err := c.agents[site].child.Signal(syscall.SIGKILL); err != nil {
			c.t.Fatal(err)
		}
		<-c.agents[site].child.Done()
	}
	c.until("a still leads", patience, func() error { return c.leads("a") })
	c.runAll("--prefix=/e2e-agents/kill")
	c.until("every member answers", 2*patience, c.allAnswer)
}

func dryRun(c *cluster) {
	c.runAll("--prefix=/e2e-agents/dry", "--dry-run")
	c.settled()
	c.cut(lab.Cut{From: "a", To: "b"})
	c.until("the agent says what it would do", patience, func() error {
		if !strings.Contains(c.agents["a"].log.String(), "would move leadership") {
			return fmt.Errorf("nothing said yet")
		}
		return nil
	})
	c.stays("a", 2*time.Second)
}

// wrongPeerCertificate: every peer refuses the probes of a's agent (an expired
// certificate looks the same from there), while raft is well.
func wrongPeerCertificate(c *cluster) {
	other := c.member("c").PKI() // valid, but not for the address of a
	c.run("a", "--prefix=/e2e-agents/cert", "--peer-cert="+other.PeerCert, "--peer-key="+other.PeerKey)
	c.run("b", "--prefix=/e2e-agents/cert")
	c.run("c", "--prefix=/e2e-agents/cert")
	c.until("a's agent takes its links for down", patience, func() error {
		if n := strings.Count(c.agents["a"].log.String(), `"to":"down"`); n < 2 {
			return fmt.Errorf("%d links down", n)
		}
		return nil
	})
	c.stays("a", 4*time.Second)
	c.until("raft is well all the time", patience, c.allAnswer)
}

// withAuth: an agent without credentials says so in one line and goes on; with
// them the split is ended.
func withAuth(c *cluster) {
	disable := c.enableAuth()
	defer disable()
	c.run("b", "--prefix=/e2e-agents/auth")
	c.until("the agent says what is missing", patience, func() error {
		if !strings.Contains(c.agents["b"].log.String(), "root role") {
			return fmt.Errorf("nothing said yet")
		}
		return nil
	})
	c.stopAgents()
	secret := filepath.Join(c.t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.runAll("--prefix=/e2e-agents/auth", "--username=root", "--password-file="+secret)
	c.settled()
	c.cut(lab.Cut{From: "a", To: "b"})
	c.until("c leads", patience, func() error { return c.leads("c") })
	c.heal()
}

// enableAuth switches authentication on, with one user, and returns how to
// switch it off again.
func (c *cluster) enableAuth() (disable func()) {
	c.t.Helper()
	cli, err := c.member("a").Client()
	if err != nil {
		c.t.Fatal(err)
	}
	ctx := c.within(20 * time.Second)
	for _, step := range []func() error{
		func() error { _, err := cli.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := cli.RoleAdd(ctx, "root"); return err },
		func() error { _, err := cli.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := cli.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			c.t.Fatal(err)
		}
	}
	return func() {
		token, err := cli.Auth.Authenticate(c.within(10*time.Second), "root", "secret")
		if err != nil {
			c.t.Errorf("authenticate: %v", err)
			return
		}
		ctx := metadata.AppendToOutgoingContext(c.within(10*time.Second), "token", token.Token)
		if _, err := etcdserverpb.NewAuthClient(cli.ActiveConnection()).AuthDisable(ctx, &etcdserverpb.AuthDisableRequest{}); err != nil {
			c.t.Errorf("disable auth: %v", err)
		}
	}
}
