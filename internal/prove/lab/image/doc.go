// Package image writes a container image that holds one program.
//
// Guarantees:
//
//   - The same name and program give the same bytes, on every machine and at
//     any time: there is no clock and no owner in them.
//   - The archive is what `ctr images import` and `docker load` read: the
//     manifest of Docker's image specification v1.2, one layer.
package image
