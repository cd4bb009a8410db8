// Package matrix decides which runs of many drills are made side by side, and
// holds them together while they are.
//
// Guarantees:
//
//   - [Waves] is a pure function: the same runs and the same room give the same waves
//     in the same order, and every run is in exactly one.
//   - What needs the whole machine has it: a run that costs as much as there is room,
//     or more, is alone in its wave.
//   - A [Gate] lets nobody through before everybody has come or has given up, so that
//     no lab is built, which takes all cores, while another one is measured.
package matrix
