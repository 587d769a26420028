// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:conversion-gen:explicit-from=net/url.Values
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceExecOptions are the query parameters of the subresource exec of a
// WindowsInstance. Names and meanings are those of PodExecOptions. At least one of
// stdin, stdout and stderr must be true.
type WindowsInstanceExecOptions struct {
	metav1.TypeMeta `json:",inline"`

	// The program to run and its arguments, one parameter each. They are quoted for
	// the shell that the host runs commands with, so that the program gets them as
	// they are. Empty: an interactive shell.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// Whether the input of the client goes to the program. Default false.
	// +optional
	Stdin bool `json:"stdin,omitempty"`
	// Whether the output of the program goes to the client. Default false.
	// +optional
	Stdout bool `json:"stdout,omitempty"`
	// Whether the errors of the program go to the client. With tty there is no
	// such stream: a terminal has one output. Default false.
	// +optional
	Stderr bool `json:"stderr,omitempty"`
	// Whether the program gets a terminal. Default false.
	// +optional
	TTY bool `json:"tty,omitempty"`
}

// +k8s:conversion-gen:explicit-from=net/url.Values
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstancePortForwardOptions are the query parameters of the subresource
// portforward of a WindowsInstance. Names and meanings are those of PodPortForwardOptions.
type WindowsInstancePortForwardOptions struct {
	metav1.TypeMeta `json:",inline"`

	// Ports of the host that the client means to connect to; a port that is not
	// allowed is then refused before the stream starts. Empty: each connection names its own.
	// +optional
	// +listType=atomic
	Ports []int32 `json:"ports,omitempty"`
}
