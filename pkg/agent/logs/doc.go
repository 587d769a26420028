// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package logs reads, filters, merges and follows the logs of one host: files
// below its log directory, through rotation, and channels of its event log.
//
// [Serve] answers one request of the agent's protocol. The way of a log through
// the package is
//
//	file segments or events ─▶ source ─▶ merge by time ─▶ output
//	                             ▲                            ▲
//	             time window and pattern           tail, limit, rendering
//
// and it is pulled, not pushed: one goroutine asks every source for what is
// readable now, writes it, and sleeps only when nothing was. Reading, merging
// and following are therefore the same loop, and a follow costs two system calls
// per file and poll while nothing happens.
//
// The operating system is seen through [Host] alone, and files only through an
// [os.Root], so that no name and no link leads out of the log directory.
//
// The package imports the standard library only; on Windows also golang.org/x/sys.
package logs
