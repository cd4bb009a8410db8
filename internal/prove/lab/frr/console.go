package frr

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"
)

// Console talks to the daemons whose settings are in Dir, by vtysh.
type Console struct{ Dir string }

// Ask runs commands and returns what they print.
func (c Console) Ask(ctx context.Context, daemon string, commands ...string) (string, error) {
	args := []string{"--vty_socket", ".", "-d", daemon}
	for _, one := range commands {
		args = append(args, "-c", one)
	}
	cmd := exec.CommandContext(ctx, "vtysh", args...)
	cmd.Dir = c.Dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("ask %s: %w: %s", daemon, err, strings.TrimSpace(errs.String()+string(out)))
	}
	return string(out), nil
}

// JSON runs one command that prints JSON and decodes that into v.
func (c Console) JSON(ctx context.Context, daemon, command string, v any) error {
	out, err := c.Ask(ctx, daemon, command)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), v); err != nil {
		return fmt.Errorf("ask %s: %s: %w", daemon, command, err)
	}
	return nil
}

// Tell changes the configuration of a running daemon.
func (c Console) Tell(ctx context.Context, daemon string, lines ...string) error {
	_, err := c.Ask(ctx, daemon, append([]string{"configure terminal"}, lines...)...)
	return err
}

// Await returns when a daemon answers.
func (c Console) Await(ctx context.Context, daemon string) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := c.Ask(ctx, daemon, "show version")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("await %s: %w: %w", daemon, ctx.Err(), err)
		case <-again.C:
		}
	}
}

// Session is how a neighbor stands.
type Session struct {
	// State is "Established", or another of RFC 4271 section 8.2.2.
	State string
	// Prefixes counts the routes accepted from it.
	Prefixes int
	// BFD is "up", "down" or another state of RFC 5880 section 4.1, "" without a
	// session.
	BFD string
}

// Sessions are the neighbors of bgpd by address.
func (c Console) Sessions(ctx context.Context) (map[netip.Addr]Session, error) {
	var raw map[string]struct {
		BGPState string `json:"bgpState"`
		Families map[string]struct {
			Accepted int `json:"acceptedPrefixCounter"`
		} `json:"addressFamilyInfo"`
		BFD *struct {
			Status string `json:"status"`
		} `json:"peerBfdInfo"`
	}
	if err := c.JSON(ctx, "bgpd", "show bgp neighbors json", &raw); err != nil {
		return nil, err
	}
	all := map[netip.Addr]Session{}
	for text, n := range raw {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("read neighbors of bgpd: %w", err)
		}
		s := Session{State: n.BGPState}
		for _, f := range n.Families {
			s.Prefixes += f.Accepted
		}
		if n.BFD != nil {
			s.BFD = strings.ToLower(n.BFD.Status)
		}
		all[a] = s
	}
	return all, nil
}
