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
	remade time.Time // when client was last made in the place of another
}

// remakeEvery bounds how often credentials are read again: in an outage every
// request fails, and each would read files and begin a TLS session of its own.
const remakeEvery = time.Second

// Connect makes a client of its own, for Follower.Connect.
func (c *Cluster) Connect() (*Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connect()
}

// connect is Connect; mu is held.
func (c *Cluster) connect() (*Client, error) {
	config, err := FindServers(c.Kubeconfig, c.Context, c.Servers)
	if err != nil {
		return nil, err
	}
	config.Attempt = c.Attempt
	if c.Dial != nil {
		config.Dial, config.AnyServer = c.Dial, true
	}
	if c.turn == nil {
		c.turn = newTurn(len(config.servers()))
	}
	config.turn = c.turn
	return New(config)
}

// Client returns the client for single requests. It is the same one until a
// request of it fails, then another, once a second at most: so rewritten
// credentials take effect.
func (c *Cluster) Client() (*Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.client
	if old != nil && (!old.failed.Load() || time.Since(c.remade) < remakeEvery) {
		return old, nil
	}
	fresh, err := c.connect()
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.Close()
		c.remade = time.Now()
	}
	c.client = fresh
	return fresh, nil
}
