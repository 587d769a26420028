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
// Each request is one WebSocket, with the protocol v4.channel.k8s.io as of Pods, or
// v5.channel.k8s.io, in which each side can end what it sends and still receive.
type WindowsInstancePortForwardOptions struct {
	metav1.TypeMeta `json:",inline"`

	// Ports of the host to connect to, one connection to each: one to sixteen of them, none twice, of those that the flag
	// --port-forward-ports of windows-apiserver allows: 3389, 5985, 5986, 9182 and 10250 by default. The first
	// one has the channels 0 for data and 1 for an error, the second one 2 and 3, and so on.
	// +required
	// +listType=atomic
	Ports []int32 `json:"ports"`
}

// StatusReasonUpgradeRequired is the reason of the Status that answers a request for a stream in
// which nothing is wrong but that it does not open a WebSocket.
const StatusReasonUpgradeRequired metav1.StatusReason = "UpgradeRequired"
