// Package kubeapi is a small client of the Kubernetes API: read, write, and
// follow a collection, over net/http and encoding/json. It knows no type of
// the API; callers declare the few fields they need. (client-go's typed scheme
// alone costs about as much memory as a whole node agent may use.)
//
// Guarantees:
//
//   - The server is always verified, name and chain. Settings that would
//     switch this off, send a secret in the clear, or run a program to obtain
//     credentials are refused in one line that names the field.
//   - Follow never ends before its context does. It survives a server that is
//     not there yet, expired versions (410), a server that lags behind the one
//     asked before, streams that fall silent without being closed, and answers
//     that are too large or not JSON; it waits between attempts, with jitter.
//   - In a partition the caller keeps what it was last told, and Report says
//     since which error it has been without news. Nothing is ever reported as
//     removed because it could not be read.
//   - Rotated files take effect without a restart: certificates at the next
//     handshake, tokens at the next request. A token file that vanished or is
//     empty changes nothing; the last good token stays.
//   - Of several servers (Config.Servers, Cluster) the one that answers is asked.
//     A server that does not, or that says it cannot (502, 503, 504), loses its
//     turn at once, for all clients of the Cluster and with its watches; a frozen
//     one costs one attempt (2.5 s). A read is tried once on each; a write is sent
//     once, and goes to the next server only where no connection came about. So a
//     write that failed may have been done: read before repeating.
//   - A caller's own deadline is not held against the server, unless callers
//     together have heard nothing of it for as long as an attempt; nor is a 500,
//     which a webhook causes behind every server, unless it is the third in a row
//     over a second or more.
//     A frozen server whose clients make no requests, but only watch, is left
//     after 90 s.
//   - Events never make a caller wait and never flood: what cannot be written
//     within the bounds is dropped and counted.
//   - Answers are bounded (8 MiB, an event 4 MiB), and no error or log line
//     contains a token, a key or the body of an answer. A list that is larger is
//     read in pages as small as they have to be, up to 250,000 objects; these come
//     from etcd, while one that fits also comes from a server without.
package kubeapi
