// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package watch decides which changes of other objects concern a controller, and which
// instances they are about. It imports nothing of this project but the API.
package watch
