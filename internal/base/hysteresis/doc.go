// Package hysteresis turns noisy observations into verdicts that hold.
//
// Guarantees:
//   - Filter changes its verdict only after a run of equal observations (fall
//     failures, rise successes); one contrary observation restarts the run.
//   - A verdict of a fresh Filter is none at all: a restart cannot turn a
//     healthy thing into a failed one.
//   - Decay is a function of elapsed monotonic time only. A caller that
//     forgets when a penalty began and starts over can only lengthen it.
//
// Everything here is a pure value; time comes in as an argument.
package hysteresis
