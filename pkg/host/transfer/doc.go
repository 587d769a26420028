// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package transfer puts files on hosts, over SFTP. A file is written under a temporary name
// beside its final one, has its digest computed on the host, and only then gets its name. So a file
// with its final name is complete, and a wrong digest never has the final name.
//
// What it promises:
//
//   - Only what is missing moves: a file whose digest is on the host is skipped, and one that
//     broke off continues at the byte up to which the host had confirmed it. A later call, which
//     does not know that byte, begins 2 MiB before the end of what it finds. The
//     temporary name contains the digest, so the same content is continued.
//   - It is fast: many requests are in flight for each file, several files move at a time,
//     over more than one connection if the pool is made with [PoolOptions], and content
//     that was compressed once, beforehand, moves compressed.
//   - It stays within bandwidth limits, for each host and for all together.
//   - A full disk is found before anything is sent, if the free space is known, and otherwise
//     named as the cause; the temporary file is removed then.
//
// [Remote] is what has to run on the host for that.
//
// The package knows nothing of Kubernetes, of payloads or of what the files are for.
package transfer
