package slices

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	stdslices "slices"
	"strconv"
	"strings"
	"time"
)

const (
	// tryEvery is how often other ways to the API are tried, trySoon the same
	// while there is none.
	tryEvery = time.Minute
	trySoon  = 10 * time.Second
	// fewTries are so many without any before a person hears of it: at boot a
	// balancer may come after the agent.
	fewTries = 3
)

// seekWays tries now and then whether there is a way to the API beside the own
// apiserver. Without one an agent whose apiserver is unwell cannot say so, and
// nobody would know before that day.
func (a *agent) seekWays(ctx context.Context) {
	failed := 0
	for wait := trySoon; pause(ctx, wait); {
		others := otherWays(a.settings.API.Servers, a.ownDoors())
		wait, failed = tryEvery, failed+1
		if anyAnswers(ctx, others) {
			failed = 0
		} else {
			wait = trySoon
		}
		text := ""
		if failed >= fewTries {
			text = noOtherWay(others)
		}
		if failed == 0 || failed >= fewTries {
			a.problems.set(codeAlone, a.settings.Node, text)
		}
	}
}

func noOtherWay(others []string) string {
	who := "none is named"
	if len(others) > 0 {
		who = "tried " + strings.Join(others, ", ")
	}
	return fmt.Sprintf("no server but the own apiserver answers (%s): when that one is unwell this agent cannot withdraw its endpoint; run a balancer on this node or name the other apiservers in api.servers", who)
}

// ownDoors are the addresses at which the own apiserver is reached.
func (a *agent) ownDoors() []netip.AddrPort {
	var all []netip.AddrPort
	add := func(host string, port int) {
		if ip, err := netip.ParseAddr(host); err == nil {
			all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
		}
	}
	if host, text, err := net.SplitHostPort(a.dialer.own); err == nil {
		if port, err := strconv.ParseUint(text, 10, 16); err == nil {
			add(host, int(port))
			for _, loopback := range []string{"127.0.0.1", "::1"} {
				add(loopback, int(port))
			}
		}
	}
	for _, each := range a.me().Addresses {
		add(each.IP, a.settings.Port)
	}
	return all
}

// otherWays are the hosts and ports of servers that are not among own.
func otherWays(servers []string, own []netip.AddrPort) []string {
	var all []string
	for _, server := range servers {
		u, err := url.Parse(server)
		if err != nil {
			continue
		}
		host := u.Hostname()
		if host == "localhost" {
			host = "127.0.0.1"
		}
		way := net.JoinHostPort(host, cmp.Or(u.Port(), "443"))
		ap, err := netip.ParseAddrPort(way)
		if err == nil && stdslices.Contains(own, netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())) {
			continue
		}
		all = append(all, way)
	}
	return all
}

// anyAnswers says that one of them accepts connections.
func anyAnswers(ctx context.Context, ways []string) bool {
	for _, way := range ways {
		if _, ok := connectTime(ctx, way, measureTimeout); ok {
			return true
		}
	}
	return false
}
