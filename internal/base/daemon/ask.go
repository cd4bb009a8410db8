package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Ask reads the status of an agent at base, such as http://127.0.0.1:9384, where
// the scheme may be left out. program is the command that starts one, version
// that of the document, which stands in its key version.
func Ask[S any](ctx context.Context, base, program string, version int) (s S, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/status", nil)
	if err != nil {
		return s, fmt.Errorf("--agent %q: %w", base, err)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return s, fmt.Errorf("no agent answers at %s: start one with `%s`, or name it with --agent", base, program)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if resp.StatusCode == http.StatusServiceUnavailable && err == nil {
		return s, errors.New(strings.TrimSpace(string(data)))
	}
	var head struct {
		Version int `json:"version"`
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d", resp.StatusCode)
	} else if err == nil {
		err = json.Unmarshal(data, &head)
	}
	if err != nil {
		return s, fmt.Errorf("what answers at %s is no agent (%w): name the telemetry address of one with --agent", base, err)
	}
	if head.Version != version {
		return s, fmt.Errorf("agent %s speaks status version %d, this program %d: use the program of the agent", base, head.Version, version)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read status of agent %s: %w", base, err)
	}
	return s, nil
}
