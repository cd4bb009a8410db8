// Package telemetry is what an agent tells the outside: log lines, metrics,
// and the answers to "alive?" and "ready?".
//
// Guarantees:
//
//   - /healthz and /readyz answer from memory, never from a dependency, so
//     they answer at once however broken the network is.
//   - An agent is not ready until every named condition has been reported
//     good at least once, and says for each one that is not, why not.
//   - Alive and ready are apart: a lasting failure outside the process makes
//     it unready, never dead, since a restart would not mend it.
//   - When the context ends, requests in flight get 5 s to finish.
//   - A taken port is reported by Listen, before anything else has started.
//
// Metrics live in a registry of their own, with the process and Go collectors;
// nothing that a linked library registers globally leaks out.
package telemetry
