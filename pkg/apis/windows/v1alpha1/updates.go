// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

// FailedOf returns the updates which could not be installed of those that a pool wants. None is wanted with [InstallNone], or nothing.
func (s *WindowsUpdatesStatus) FailedOf(install WindowsUpdatesInstall) []FailedUpdate {
	var list []FailedUpdate
	for _, f := range s.Failed {
		if install == InstallAll || install == InstallSecurity && f.Security {
			list = append(list, f)
		}
	}
	return list
}
