// Package file reads the files that settings name: certificates, tokens, lists
// that outlive a restart.
//
// Guarantees: a read ends. A FIFO, a device or a directory in the place of a
// file is an error at once instead of a process that hangs at its start, and a
// file larger than the caller can mean is not read whole.
package file
