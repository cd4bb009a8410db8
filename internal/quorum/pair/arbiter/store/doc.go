// Package store says what a place has to do that keeps the pair's record: it
// holds one object and replaces it by compare-and-swap.
//
// Guarantees a back end gives, each of which package arbiter's tests ask of
// every one of them:
//
//   - A Swap is sent at most once. Whatever lies below repeats no write.
//   - A Swap that failed says whether it may have been made: ErrUnknown if so,
//     anything else if not.
//   - A Read is answered by the place itself, never by a cache.
//   - "There is no object" is only said where the place said so of this very
//     object: a bucket, namespace or server that is not there is an error.
//   - No error contains a secret.
package store
