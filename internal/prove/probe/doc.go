// Package probe measures from where the client stands: it samples paths to
// https, http, tcp and etcd targets on an open-loop clock and brackets every
// outage it sees.
//
// Guarantees:
//
//   - The clock is open-loop: a tick never waits for an earlier sample, so a
//     hanging target cannot slow the measurement of its own hanging
//     (coordinated omission).
//   - One sample is one attempt. Nothing below it retries, fails over or backs
//     off behind its back, and a redial is the business of a sample.
//   - A sample in flight is never cancelled by a stop; it ends by its answer or
//     its own timeout, and the stop waits for it.
//   - The samples of one path are delivered in the order of Seq. A gap in Seq
//     is a tick that the prober itself could not serve.
//   - A sample has failed when no good answer came within its timeout. A target
//     that freezes for less shows slow samples, not failed ones.
//   - An outage is an interval [lower, upper], never a single figure: lower runs
//     from the first failed send to the last, upper from the last good send to
//     the first good one after.
//   - A path to the prober's own loopback and the lag of every sample tell a
//     starved prober from a broken path.
//   - In-flight samples per path are bounded by timeout/interval, summaries and
//     the live view by constants; a prober may run for months.
//   - Wall-clock times come from one reading at the start plus the monotonic
//     clock, so a stepped clock cannot invent or hide an outage.
//
// New, reused and stream are separate paths because they break apart: a cut of
// new connections leaves established ones, a lost conntrack entry does the
// reverse.
//
// Usage:
//
//	p, err := probe.New(cfg)
//	err = p.Run(ctx, func(s probe.Sample) { … }) // until ctx is done
//
// What it sends to etcd is bounded too: a put path rewrites one key,
// <prefix>/<path>, and the others read or watch.
package probe
