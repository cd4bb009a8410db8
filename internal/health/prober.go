package health

import "context"

// Prober checks one server. Probe may be called while another Probe runs.
type Prober interface {
	// Probe makes one check, on a new connection if fresh. It returns soon
	// after ctx ends. On the way it may call Report.
	Probe(ctx context.Context, fresh bool) Result
	// Lost delivers a value when a kept connection has ended between probes
	// without an announcement. It may be nil, and is never closed.
	Lost() <-chan struct{}
	// Close frees what is kept. No Probe may run or follow.
	Close()
}

type reportKey struct{}

// WithReport returns a context in which Report calls f, from the goroutine of
// the probe.
func WithReport(ctx context.Context, f func(Stage)) context.Context {
	return context.WithValue(ctx, reportKey{}, f)
}

// Report tells whoever started the probe of ctx how far it has come. A Prober
// that reports nothing has its Timeout for the whole probe, and its silence on
// a new connection is taken for an unreachable server.
func Report(ctx context.Context, s Stage) {
	if f, ok := ctx.Value(reportKey{}).(func(Stage)); ok {
		f(s)
	}
}
