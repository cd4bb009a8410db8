package kubeapi

import (
	"context"
	"net"
	"sync"
	"time"
)

// Cluster is how an agent reaches the API: credentials that are read again
// after a failure, and a list of servers of which the one that answers is asked.
// Its clients share whose turn it is, so that one request that finds a server
// dead moves all of them, watches included. The fields are set before use.
type Cluster struct {
	// Kubeconfig and Context say who asks; an empty Kubeconfig means the pod's
	// service account.
	Kubeconfig, Context string
	// Servers are URLs, the preferred one first; none means the server of the
	// credentials. A certificate for ClusterName is as good as one for the host.
	Servers []string
	// Attempt is Config.Attempt.
	Attempt time.Duration
	// Dial is Config.Dial; where it is set it leads to any server.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	turn   *turn
	client *Client
}

// Connect makes a client of its own, for Follower.Connect.
func (c *Cluster) Connect() (*Client, error) {
	config, err := FindServers(c.Kubeconfig, c.Context, c.Servers)
	if err != nil {
		return nil, err
	}
	config.Attempt = c.Attempt
	if c.Dial != nil {
		config.Dial, config.AnyServer = c.Dial, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == nil {
		c.turn = newTurn(len(config.servers()))
	}
	config.turn = c.turn
	return New(config)
}

// Client returns the client for single requests. It is the same one until a
// request of it fails, then another: so rewritten credentials take effect.
func (c *Cluster) Client() (*Client, error) {
	c.mu.Lock()
	old := c.client
	c.mu.Unlock()
	if old != nil && !old.failed.Load() {
		return old, nil
	}
	fresh, err := c.Connect()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old != nil {
		old.Close()
	}
	c.client = fresh
	return fresh, nil
}
