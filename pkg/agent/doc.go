// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package agent is the program that runs on a host (windows-node-agent).
//
// The program is started again for every question, but for run. A sub-command never takes
// text of a user as an argument, because the shell of an SSH server would see
// it: whatever varies travels as JSON on standard input.
//
//	version  prints one line of JSON: [api.Version]
//	facts    prints one document of JSON: [api.Facts]
//	inspect  prints the same with more in it: certificates, recent errors, networks
//	logs     reads one line of JSON, a [api.LogRequest]; prints one line of JSON, a
//	         [api.LogHeader], and then the bytes of the log
//	boot     prints one document of JSON: [api.BootFacts]
//	restart  reads a [api.RestartRequest], prints a [api.RestartAnswer], and then the host
//	         goes down, if it still is in the boot that the request names
//	routes   reads a [api.RoutesRequest], prints a [api.RoutesAnswer]
//	files    reads a [api.FilesRequest], prints a [api.FilesAnswer]: which files are here already
//	commit   reads a [api.CommitRequest], prints a [api.CommitAnswer]: gives a file that was sent
//	         its name, if it is what it should be
//	plan     reads a [config.Bundle], prints an [api.Plan]: what apply would do
//	apply    reads an [api.ApplyRequest], prints lines of [api.Progress] and keeps a transcript
//	         in the directory of the logs
//	cleanup  removes what apply has made, prints lines of [api.Progress]
//	run      is the service that keeps the host as it was applied, and rotates logs
//
// [Main] is the whole program. Everything it needs of the operating system comes
// through [Host], so that the same code runs on Windows and on the hosts of tests.
//
// What it says to servers, and they to it, is in package api, which is all that they
// import of it. It imports the standard library and its own sub-packages only.
//
// [config.Bundle]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/agent/api/config#Bundle
package agent
