// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package agent is the program that runs on a host (windows-node-agent) and
// the protocol it speaks with whoever starts it over SSH.
//
// The program is started anew for every question, but for run. A sub-command never takes
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
//	files    reads a [FilesRequest], prints a [FilesAnswer]: which files are here already
//	commit   reads a [CommitRequest], prints a [CommitAnswer]: gives a file that was sent
//	         its name, if it is what it should be
//	plan     reads a [config.Bundle], prints an [engine.Plan]: what apply would do
//	apply    reads an [engine.Request], prints lines of [Progress] and keeps a transcript
//	         in the directory of the logs
//	cleanup  takes away what apply has made, prints lines of [Progress]
//	run      is the service that keeps the host as it was applied, and rotates logs
//
// [Main] is the whole program. Everything it needs of the operating system comes
// through [Host], so that the same code runs on Windows, on the Unix hosts of
// the test tiers, and inside a stand-in within one process.
//
// The package is imported by the API server too, for the types. It must stay
// small and free of Kubernetes machinery: it imports the standard library and
// its own sub-packages only.
//
// [config.Bundle]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/agent/api/config#Bundle
// [engine.Plan]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/agent/engine#Plan
// [engine.Request]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/agent/engine#Request
package agent
