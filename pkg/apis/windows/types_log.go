// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceLogOptions are the query parameters of the subresources log and
// logs of a WindowsInstance. Names and meanings are those of the kubelet's node
// log query and of PodLogOptions; the spellings of `oc adm node-logs` are accepted
// too. Without query, unit and cursor the answer is an index of what there is.
type WindowsInstanceLogOptions struct {
	metav1.TypeMeta

	Query         []string
	Unit          []string
	SinceTime     *metav1.Time
	UntilTime     *metav1.Time
	SinceSeconds  *int64
	Since         string
	Until         string
	TailLines     *int64
	Tail          *int64
	Pattern       string
	Grep          string
	CaseSensitive *bool
	Boot          *int64
	Follow        bool
	Previous      bool
	Timestamps    bool
	LimitBytes    *int64
	Output        string
	Cursor        string
}
