// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package winhost makes stand-ins for Windows hosts, for tests, benchmarks and the demo.
// There are three tiers behind one interface, and a test uses the cheapest one that can
// express what it is about:
//
//   - [TierInProcess]: an SSH server in this process over a directory that looks like a
//     Windows drive. The agent runs in process, too. Every fault, hundreds of hosts.
//   - [TierOpenSSH]: Debian's own sshd in namespaces of its own, with a drive C, and the
//     agent as a process: the truth about the SSH protocol. Needs root.
//   - [TierWine]: Windows programs, unmodified, under Wine: services, the registry, files
//     as Windows locks them, a machine that loses power and boots. One to twenty at a time,
//     each with a network of its own if it is to become a Node.
//
// What stands between a stand-in and a real host is listed with each tier's source, so
// that nobody takes a green test for more than it is.
//
// It is one package because the tiers are interchangeable: a test names one in [Options]
// and gets a [Host], and they share addresses, keys, drives, power and restarts. What one
// tier alone needs and can be separated is in packages below it.
//
// Hosts listen on loopback addresses and in network namespaces of their own only. Every
// process that is started here is ended by its ID, at the latest when this process ends,
// however it ends. The package is imported by tests and the demo only, never by the product.
package winhost
