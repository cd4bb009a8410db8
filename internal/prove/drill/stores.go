package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/logstore"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// storesWithin bounds how long collectors may take to have delivered, at the end
// of a run, what waited for the heal. They try once in half a second, over a new
// connection.
const storesWithin = 10 * time.Second

// storeMode is what tells the two runs apart.
func storeMode(remedy bool) string {
	if remedy {
		return logstore.Zoned
	}
	return logstore.Sharded
}

// storeWords say it for people.
func storeWords(remedy bool) string {
	if remedy {
		return "collectors write every line to all of them, and a query asks the one of its site"
	}
	return "a line is in one of them, and a query asks all and fails whole where one does not answer"
}

func planStores(line func(string, ...any), c *scenario.Case) {
	if !c.HasStores() {
		return
	}
	line("  a log store with a collector in %s, which waits %s for another (a fixture of this drill)", strings.Join(c.Stores.Sites, " and "), c.Stores.Patience)
	for _, remedy := range []bool{true, false} {
		line("  %s: %s", c.SideWords(remedy), storeWords(remedy))
	}
}

// startStores starts the fixture in its sites.
func (e *engine) startStores(ctx context.Context) error {
	var peers []string
	for _, site := range e.c.Stores.Sites {
		url, err := e.storeURL(site)
		if err != nil {
			return err
		}
		peers = append(peers, "--peer", site+"="+url)
	}
	for _, site := range e.c.Stores.Sites {
		node, err := e.nodeOf(site)
		if err != nil {
			return err
		}
		argv := append([]string{
			e.exe, "drill", "logstore", "--name", site, "--mode", storeMode(e.agents), "--patience", e.c.Stores.Patience.String(),
		}, peers...)
		child, err := node.Spawn(ctx, lab.Process{Name: "store-" + site, Argv: argv})
		if err != nil {
			return fmt.Errorf("start store: %w", err)
		}
		e.expectLife("store-"+site, child)
	}
	return nil
}

func (e *engine) storeURL(site string) (string, error) {
	node, err := e.nodeOf(site)
	if err != nil {
		return "", err
	}
	return "http://" + net.JoinHostPort(node.IP().String(), strconv.Itoa(logstore.Port)), nil
}

// storeTarget asks the store of the client's site.
func (e *engine) storeTarget(name string, p scenario.Path) probe.Target {
	return probe.Target{
		Name: name, URL: fmt.Sprintf("http://127.0.0.1:%d%s", logstore.Port, logstore.Query),
		Interval: p.Interval, Timeout: p.Timeout, Labels: map[string]string{"site": p.Site},
	}
}

// noteStores writes down what the stores have in the end, once nothing is missing
// or after storesWithin.
func (e *engine) noteStores(ctx context.Context) {
	for _, site := range e.c.Stores.Sites {
		var have map[string]logstore.Tally
		var err error
		until(ctx, storesWithin, func() bool {
			have, err = e.askStore(ctx, site)
			return err == nil && len(have) == len(e.c.Stores.Sites) && whole(have)
		})
		if err != nil {
			e.log.Warn("a store does not answer in the end", "site", site, "error", err)
			continue // the judge misses the event
		}
		for origin, t := range have {
			e.w.Event(record.Event{
				At: e.clock.now(), Source: "store/" + site, Kind: record.KindStored,
				Message: fmt.Sprintf("%d of %d lines of %s are found", t.Lines, t.Last, origin),
				Keys: map[string]string{
					"site": site, "origin": origin,
					"lines": strconv.FormatUint(t.Lines, 10), "last": strconv.FormatUint(t.Last, 10),
				},
			})
		}
	}
}

// whole says whether no line is missing.
func whole(have map[string]logstore.Tally) bool {
	for _, t := range have {
		if t.Lines != t.Last {
			return false
		}
	}
	return true
}

// askStore sends one query from the node of a store.
func (e *engine) askStore(ctx context.Context, site string) (map[string]logstore.Tally, error) {
	ctx, cancel := context.WithTimeout(ctx, storesWithin)
	defer cancel()
	node, err := e.nodeOf(site)
	if err != nil {
		return nil, err
	}
	url, err := e.storeURL(site)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+logstore.Query, nil)
	if err != nil {
		return nil, fmt.Errorf("ask store of %s: %w", site, err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: node.DialContext, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask store of %s: %w", site, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var have map[string]logstore.Tally
	if err := json.NewDecoder(resp.Body).Decode(&have); err != nil {
		return nil, fmt.Errorf("ask store of %s: %s: %w", site, resp.Status, err)
	}
	return have, nil
}
