// Package loop runs the body of a level-triggered agent: observe, decide, act,
// again and again.
//
// Guarantees:
//
//   - The body never runs twice at the same time.
//   - After a Nudge the body runs once more, from its beginning; any number of
//     nudges before that run are one. A nudge during a run is not lost.
//   - A failing body is retried with growing delays, for ever; a nudge cuts the
//     wait short, but never below Backoff.Min after a failure, so that a nudging
//     event source cannot turn a failure into a busy loop.
//   - A panic in the body is an error like any other, with the stack in the
//     log. The loop logs when failing starts, changes its text, and ends; it is
//     silent while nothing changes.
//   - Only the end of the context ends the loop. Waits are on the monotonic
//     clock: a step of the wall clock neither delays nor hastens a run.
package loop
