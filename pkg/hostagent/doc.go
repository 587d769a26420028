// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package hostagent is the program that runs on a host (windows-node-agent) and
// the protocol it speaks with whoever starts it over SSH.
//
// The program is started anew for every question. A sub-command never takes
// text of a user as an argument, because the shell of an SSH server would see
// it: whatever varies travels as JSON on standard input.
//
//	version  prints one line of JSON: [Version]
//	facts    prints one document of JSON: [Facts]
//	inspect  prints the same with more in it: certificates, recent errors, networks
//	logs     reads one line of JSON, a [LogRequest]; prints one line of JSON, a
//	         [LogHeader], and then the bytes of the log
//	boot     prints one document of JSON: [BootFacts]
//	restart  reads a [RestartRequest], prints a [RestartAnswer], and then the host
//	         goes down, if it still is in the boot that the request names
//	routes   reads a [RoutesRequest], prints a [RoutesAnswer]
//
// [Main] is the whole program. Everything it needs of the operating system comes
// through [Host], so that the same code runs on Windows, on the Unix hosts of
// the test tiers, and inside a stand-in within one process.
//
// The package is imported by the API server too, for the types. It must stay
// small and free of Kubernetes machinery: it imports the standard library and
// its own sub-packages only.
package hostagent
