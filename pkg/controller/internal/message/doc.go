// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package message fits what controllers tell people into conditions and events, and
// tells nobody the same problem twice. It imports nothing of this project.
package message
