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

// PendingOf returns how many of the updates that wait a pool wants, those that could not be installed among them. None is wanted with
// [InstallNone], or nothing.
func (s *WindowsUpdatesStatus) PendingOf(install WindowsUpdatesInstall) int {
	switch install {
	case InstallAll:
		return int(s.Pending)
	case InstallSecurity:
		return int(s.Security)
	}
	return 0
}
