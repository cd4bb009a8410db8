package services

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// troubles are what does not work with the API. A line is logged when one comes
// and when it goes.
type troubles struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[string]error
}

// set returns what notes the outcome of requests for something.
func (t *troubles) set(what string) func(error) {
	return func(err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		was := t.all[what]
		switch {
		case err == nil && was != nil:
			t.log.Info("the API answers again", "about", what)
			delete(t.all, what)
		case err != nil:
			if was == nil {
				t.log.Warn("the API does not answer; what was known stays in force", "about", what, keyError, explain(err))
			}
			t.all[what] = err
		}
	}
}

// explain says what a person should do about a refusal.
func explain(err error) error {
	if kubeapi.Code(err) == http.StatusForbidden {
		return fmt.Errorf("%w; apply the rights of `holdfast vip manifest rbac`", err)
	}
	return err
}

func (t *troubles) list() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(t.all)) {
		all = append(all, fmt.Sprintf("%s: %v", what, explain(t.all[what])))
	}
	return all
}
