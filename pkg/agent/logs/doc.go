// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package logs reads, filters, merges and follows the logs of one host: files
// below its log directory, through rotation, and channels of its event log.
//
// [Serve] answers one request of the agent's protocol. A log takes this way through
// the package:
//
//	file segments or events ─▶ source ─▶ merge by time ─▶ output
//	                             ▲                            ▲
//	             time window and pattern           tail, limit, rendering
//
// Output is pulled, not pushed: one goroutine reads from every source what can be read
// now, writes it, and sleeps only when there was nothing. Reading, merging and
// following are therefore the same loop, and a follow costs two system calls per file
// and poll while nothing happens.
//
// It is one package because all parts share one thing, the position in a log: rotation
// moves it from file to file, a cursor saves it, a tail and a filter decide where it begins,
// and the output reports it back when a limit cuts a line.
//
// The package uses the operating system through [Host] alone, and files only through an
// [os.Root], so that no name and no link leads out of the log directory.
//
// The package imports the standard library only; on Windows also golang.org/x/sys.
package logs
