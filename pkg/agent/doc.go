// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package agent is the program that runs on a host (windows-node-agent).
//
// Each request starts the program again, except run. A sub-command never takes text of a user
// as an argument, because the shell of an SSH server would interpret it: all parameters are
// JSON on standard input.
//
//	version  prints one line of JSON: [api.Version]
//	facts    prints one document of JSON: [api.Facts]
//	inspect  prints the same with details: certificates, recent errors, networks
//	logs     reads one line of JSON, an [api.LogRequest]; prints one line of JSON, an
//	         [api.LogHeader], and then the bytes of the log
//	boot     prints one document of JSON: [api.BootFacts]
//	restart  reads an [api.RestartRequest], prints an [api.RestartAnswer], and then the host
//	         restarts, if it still is in the boot of the request
//	routes   reads an [api.RoutesRequest], prints an [api.RoutesAnswer]
//	files    reads an [api.FilesRequest], prints an [api.FilesAnswer]: which files exist
//	commit   reads an [api.CommitRequest], prints an [api.CommitAnswer]: moves a file that was
//	         sent to its path, if it has the size and digest of the request
//	plan     reads a [config.Bundle], prints an [api.Plan]: what apply would do
//	plan-adoption  reads an [api.AdoptRequest], prints an [api.AdoptionPlan]: what apply would do after it
//	apply    reads an [api.ApplyRequest], prints lines of [api.Progress] and keeps a transcript
//	         in the directory of the logs
//	restart-services  restarts the services of the applied configuration, prints lines of
//	         [api.Progress]
//	cleanup  removes what apply has created, prints lines of [api.Progress]
//	updates  reads an [api.UpdatesRequest], leaves it for the service, prints an [api.UpdatesAnswer]
//	run      is the service that keeps the host at its applied configuration, rotates logs, and
//	         searches for updates of Windows and installs those that are requested
//
// [Main] is the whole program. Everything that it needs of the operating system is in
// [Host], so that the same code runs on Windows and on the hosts of tests.
//
// The types of its requests and answers are in package api, the only one that servers import.
// It imports the standard library and its own sub-packages only.
//
// [config.Bundle]: https://pkg.go.dev/github.com/openshift/windows-instance-api/pkg/agent/api/config#Bundle
package agent
