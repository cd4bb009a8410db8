// Package delay carries packets from one side to the other later than they
// came: a wire with latency, jitter, rate and loss in user space, for kernels
// without netem.
//
// Guarantees:
//
//   - Packets of one direction never overtake one another, neither under
//     jitter nor when the delay is changed while packets are under way.
//   - A rate is a serial line: a packet leaves when the one before it has been
//     sent, and is dropped when that would take longer than Backlog.
//   - Memory is bounded: at most MaxPackets are under way per direction.
//   - Queue is pure: time and luck are arguments.
//
// What it costs in accuracy is measured by BenchmarkRTT of package lab.
package delay
