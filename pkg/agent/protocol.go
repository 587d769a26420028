// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent
