// Package report renders the result of a drill for every reader it has: people
// at a terminal, at a browser and on paper, pull requests, CI, and dashboards.
//
// Guarantees:
//
//   - Everything is a function of a [Report] alone: the same report gives the
//     same bytes, on any machine. No rendering asks the clock or the network.
//   - report.html and timeline.svg are self-contained. They refer to nothing
//     outside themselves, so they can be opened years later or offline.
//   - Names and error texts come from the systems under test and are treated as
//     hostile: every rendering escapes them for its own format, and control and
//     direction-changing characters never reach a reader.
//   - Colour is never the only carrier of meaning. A class of failure has its
//     own pattern and a verdict its own sign, so that a grey print says the same.
//   - A drill that proved nothing is never green: JUnit gets an error for an
//     inconclusive run, beside the skipped cases.
//   - [Directory.Write] replaces whole files. A reader, or a crash, finds the old
//     file or the new one, never half of one.
//   - [Read] accepts exactly one schema version and says so when it meets another.
//
// [Render] writes one format, [Directory] names and writes the files of a run.
package report
