// Package record keeps what a drill run saw, so that it can be judged again.
//
// Guarantees:
//
//   - A directory written by [Writer] and read by [Load] gives the judge the
//     same input as the run itself had: judging offline gives the same report.
//   - Samples and events are on disk within a second of being seen. After a
//     crash of the drill the directory still loads: a truncated last line, or
//     a truncated last block of samples, costs only what it held.
//   - run.json appears last, by rename. A directory without it is a run that
//     did not finish, and [Load] says so.
package record
