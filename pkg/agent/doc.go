// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package agent is the program that runs on a host (windows-node-agent).
//
// Each request starts the program again, except run. A sub-command never takes text of a user
// as an argument, because the shell of an SSH server would interpret it: all parameters are
// JSON on standard input. The constants of package api whose names begin with Command say what each takes and answers.
//
// [Main] is the whole program. Everything that it needs of the operating system is in
// [Host], so that the same code runs on Windows and on the hosts of tests.
//
// The types of its requests and answers are in package api, the only one that servers import.
// It imports the standard library and its own sub-packages only.
package agent
