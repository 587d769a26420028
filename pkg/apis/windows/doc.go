// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// +k8s:deepcopy-gen=package
// +groupName=windows.openshift.io

// Package windows holds the internal types of the windows.openshift.io API: the hub
// that every served version converts through. The fields are documented where users
// meet them, in the served version v1alpha1. It imports apimachinery only.
package windows
