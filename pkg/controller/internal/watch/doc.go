// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package watch decides which changes of other objects concern a controller, which
// instances they are about, and when a pass that failed is made again. It imports nothing of this project but the API.
package watch
