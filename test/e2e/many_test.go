// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux && !race

package e2e

// manyHosts is how many hosts are set up at once.
const manyHosts = 100
