// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package version knows which release this is. It imports nothing.
package version

// Version is the release, set by the linker:
//
//	-ldflags "-X github.com/openshift/windows-instance-api/pkg/version.Version=v1.2.3"
//
// It is not that of Kubernetes: the libraries take theirs from component-base.
var Version = "v0.0.0-unreleased"
