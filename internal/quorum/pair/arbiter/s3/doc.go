// Package s3 keeps the pair's record in an S3-compatible bucket, by GET and by PUT
// with If-Match and If-None-Match.
//
// Guarantees, beside those of packages store and rest:
//
//   - Each call is one signed request (Signature Version 4). No library below
//     repeats it, looks for a region, or adds a checksum of its own.
//   - "There is no object" is only believed of the code NoSuchKey. A bucket that
//     is not there, or somebody else's 404, is an error.
//   - Credentials are read again for each request. A file that vanished or is half
//     written leaves the last good ones in force.
//   - A wrong clock of this machine does no harm once the server has answered: requests
//     are signed with the server's own time, carried on by the monotonic clock.
//
// The server has to know conditional PUT. One that ignores it answers just as well;
// the self-test of package arbiter finds it.
package s3
