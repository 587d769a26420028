// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux && race

package e2e

// manyHosts is how many hosts are set up at once. All of them are part of this process, in which
// their cryptography takes many times as long with the race detector.
const manyHosts = 30
