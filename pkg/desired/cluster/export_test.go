// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

// Wrong is wrong, for tests outside of the package.
func (s *Snapshot) Wrong() []Finding { return s.wrong() }
