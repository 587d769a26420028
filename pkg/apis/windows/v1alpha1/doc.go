// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.openshift.windows-instance-api.pkg.apis.windows.v1alpha1
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/openshift/windows-instance-api/pkg/apis/windows
// +k8s:defaulter-gen=TypeMeta
// +k8s:validation-gen=TypesWithField=TypeMeta
// +groupName=windows.openshift.io

// Package v1alpha1 is the served version of the windows.openshift.io API:
// Windows Server hosts (WindowsInstance) and sets of hosts (WindowsNodePool).
// The comments on its fields are the user documentation that `kubectl explain`
// shows. It must not import any other package of this project but the internal
// version it converts to and from.
package v1alpha1
