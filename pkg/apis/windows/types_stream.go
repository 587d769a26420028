// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceExecOptions are the query parameters of the subresource exec of a
// WindowsInstance. Names and meanings are those of PodExecOptions. At least one of
// stdin, stdout and stderr must be true.
type WindowsInstanceExecOptions struct {
	metav1.TypeMeta

	Command []string
	Stdin   bool
	Stdout  bool
	Stderr  bool
	TTY     bool
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstancePortForwardOptions are the query parameters of the subresource
// portforward of a WindowsInstance. Names and meanings are those of PodPortForwardOptions.
// Each request is one WebSocket, with the protocol v4.channel.k8s.io as of Pods, or
// v5.channel.k8s.io, in which each side can end what it sends and still receive.
type WindowsInstancePortForwardOptions struct {
	metav1.TypeMeta

	Ports []int32
}
