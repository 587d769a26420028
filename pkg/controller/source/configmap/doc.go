// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package configmap turns the ConfigMap windows-instances into a WindowsNodePool of
// the same name and one WindowsInstance for each of its entries, in the namespace
// of the ConfigMap. It knows nothing of SSH: whether a host answers is told by the
// instance.
//
// # Format
//
// The key of an entry is the address of a host: an IPv4 address, a DNS name, or an
// IPv6 address. A key cannot hold a colon, so an IPv6 address is written as Windows
// writes it in UNC paths: colons become hyphens and ".ipv6-literal.net" is
// appended, for example fd00--5.ipv6-literal.net for fd00::5. Such a key is never
// looked up in DNS. DNS names are the same in upper and lower case and with or
// without a final dot.
//
// The value has one line of the form username=<user>, and as our extension any of
//
//	port=<TCP port of the SSH server; default 22>
//	name=<name of the WindowsInstance; default: the address>
//	hostKey=<public host key as in known_hosts; may be repeated>
//
// Lines are split at the first "=". Blank lines, spaces around each part, CRLF and
// a final newline are fine; everything else is not: a misspelled line must not
// silently do nothing.
//
// # Each entry stands for itself
//
// An entry that cannot be used is reported by an event on the ConfigMap and by a
// line in the condition SourceSynced of the pool, and the others proceed. Its
// instance, when it has one from before, stays as it is: a typing error removes no
// host. A name that does not resolve is no such error: the instance is made, and
// says itself that it is not reachable.
//
// Two entries that lead to the same address and port are one host. The one whose
// instance is older counts, then IP addresses count before names, then the order
// of the keys decides. The other is reported and gets no instance. When it has one
// already, it keeps it, because a mistake in DNS must not remove a host.
//
// # Removal
//
// Removing an entry deletes its instance. A change that would remove more hosts than a limit
// allows removes none before somebody confirms exactly these with an annotation on the pool, which
// the condition SourceSynced has the command for; see package confirm. The same holds for any removal
// as long as an entry has no instance and gets none: it may be the same host under another key.
package configmap
