// Package logstore is a fixture: a store of log lines, just large enough for a
// drill to cut it in half. Nobody should keep logs in it.
//
// Guarantees:
//
//   - A query never answers with part of what it was asked for: where a shard
//     does not answer within the patience, the query fails whole.
//   - A line is stored once, however often it is sent.
//   - A collector keeps what it cannot deliver, up to a bound, and delivers it
//     when the way is free again.
//
// One process per zone is shard, reader and collector. Sharded, a line goes to
// one shard and a query asks all of them; zoned, a line goes to every store and
// a query asks its own alone. Everything is in memory and goes with the process.
package logstore
