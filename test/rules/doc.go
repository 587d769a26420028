// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package rules holds the rules of this repository as tests: which package may
// import which, and what every file and every document must have. Each rule is a
// pure function over what was found, with a test of its own that breaks it.
//
// The package has tests only; nothing imports it.
package rules
