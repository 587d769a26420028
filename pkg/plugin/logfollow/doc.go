// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package logfollow follows a log of a host for as long as its reader wants, through
// lost connections and restarts of servers, without a gap and without a line twice.
//
// A stream that ends in good order says in its last line where to continue: at its
// cursor. One that breaks off does not, so the follower always knows an anchor, a cursor
// of its own from which everything since then can be read again:
//
//   - The first request is for a single byte. It ends at once, and its cursor is the
//     anchor at which the log of the user begins, which "the last ten lines" is not.
//   - Later requests end by themselves after some mebibytes, which moves the anchor on.
//   - After a stream broke off, the log is read again from the anchor, and the lines
//     that were delivered since are recognized and left out.
//
// The package knows neither Kubernetes nor HTTP: requests are made by a function that it
// is given.
package logfollow
