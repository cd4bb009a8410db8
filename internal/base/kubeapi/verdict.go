package kubeapi

import (
	"context"
	"errors"
	"net/http"
)

// verdict is what the outcome of a request says about the server.
type verdict int

const (
	// nothing: the caller gave up.
	nothing verdict = iota
	// answered: well, or with a refusal that another server would repeat.
	answered
	// silent: the caller's time was over before there was an answer. How long it
	// waits is its own affair, and a commit may take longer.
	silent
	// failing: a 500. The server may have lost its etcd; more often a webhook
	// fails, which it does behind every server.
	failing
	// unable: no connection, no answer within the bound of an attempt, or an
	// answer of one that is shutting down or lags behind. Another might do better.
	unable
)

// judge is about a request that the caller bounded by its context.
func judge(caller context.Context, err error) verdict {
	switch code := Code(err); {
	case err == nil, errors.Is(err, ErrTooLarge):
		return answered
	case code == http.StatusInternalServerError:
		return failing
	case code >= http.StatusBadGateway && code <= http.StatusGatewayTimeout:
		return unable
	case code != 0:
		return answered
	case errors.Is(caller.Err(), context.DeadlineExceeded):
		return silent
	case caller.Err() != nil:
		return nothing
	}
	return unable
}
