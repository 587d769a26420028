// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// +k8s:deepcopy-gen=package
// +groupName=windows.openshift.io

// Package windows holds the internal types of the windows.openshift.io API: the hub
// that every served version converts through. The fields are documented where users
// meet them, in the served version v1alpha1. Of the values of enumerations only those have
// a constant here that code handles in this version; v1alpha1 has all. It imports
// apimachinery only.
package windows
