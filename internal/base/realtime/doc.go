// Package realtime has this process run before every ordinary one of the machine
// (SCHED_RR at the lowest priority): whoever has to be heard every 100 ms must not
// wait for a processor as others do.
//
// Guarantees:
//
//   - All threads have the class, and those that come later within a second. The
//     thread that does the work is not enough: the Go runtime lets it go on only
//     when a processor of its own is free (a P), and those are held by threads that
//     wait for the machine's; a collection of garbage waits for all of them.
//     Measured with BFD at 100 ms and loss, for 4 minutes on two cores with a load
//     of 4 to 18: with one thread in the class packets left late by up to 240 ms, by
//     more than 30 ms up to 12 times in 2 minutes; with all of them by 1 ms, once by
//     11; those of FRR, whose daemon has but one thread, by 6.
//   - A process that computes instead of waiting does not take the machine along: if
//     it uses more than half of a processor for three seconds in a row, it is put
//     back, for good, and the log says so. Until then the kernel leaves a twentieth
//     of each processor to all others (sched_rt_runtime_us).
//   - Programs that are started from here are ordinary (SCHED_FLAG_RESET_ON_FORK).
//   - Without the right to it (CAP_SYS_NICE, or RLIMIT_RTPRIO of at least 1) nothing
//     changes.
package realtime
