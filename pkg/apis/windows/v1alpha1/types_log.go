// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:conversion-gen:explicit-from=net/url.Values
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// WindowsInstanceLogOptions are the query parameters of the subresources log and
// logs of a WindowsInstance. Names and meanings are those of the kubelet's node
// log query and of PodLogOptions; the spellings of `oc adm node-logs` are accepted
// too. Without query, unit and cursor the answer is an index of what there is.
type WindowsInstanceLogOptions struct {
	metav1.TypeMeta `json:",inline"`

	// What to read; may be repeated up to eight times, then the lines are merged by
	// time. Each is a service (kubelet), a file below C:\var\log (kubelet/kubelet.log),
	// or an event log channel (eventlog/System).
	// +optional
	// +listType=atomic
	Query []string `json:"query,omitempty"`
	// Another spelling of query that only takes services; may be repeated.
	// +optional
	// +listType=atomic
	Unit []string `json:"unit,omitempty"`
	// Only lines at or after this time (RFC 3339).
	// +optional
	SinceTime *metav1.Time `json:"sinceTime,omitempty"`
	// Only lines at or before this time (RFC 3339). With follow the stream ends there.
	// +optional
	UntilTime *metav1.Time `json:"untilTime,omitempty"`
	// Only lines of the last so many seconds, by the clock of the host.
	// +optional
	SinceSeconds *int64 `json:"sinceSeconds,omitempty"`
	// Another spelling of sinceTime: RFC 3339, "2006-01-02 15:04:05", "2006-01-02",
	// or relative to now as -5m, -2h, -1d.
	// +optional
	Since string `json:"since,omitempty"`
	// Another spelling of untilTime, in the forms of since.
	// +optional
	Until string `json:"until,omitempty"`
	// Only the last so many lines of what is left after the other filters; at most
	// 1000000. With follow: start with so many. Default: all.
	// +optional
	TailLines *int64 `json:"tailLines,omitempty"`
	// Another spelling of tailLines.
	// +optional
	Tail *int64 `json:"tail,omitempty"`
	// Only lines in which this regular expression (RE2 syntax) matches. Applied before tailLines. At most 4096 bytes.
	// Its program may have at most 10000 instructions, so large numbers of repetitions are refused.
	// +optional
	Pattern string `json:"pattern,omitempty"`
	// Another spelling of pattern.
	// +optional
	Grep string `json:"grep,omitempty"`
	// Whether pattern minds upper and lower case. Default true.
	// +optional
	CaseSensitive *bool `json:"case-sensitive,omitempty"`
	// Only lines of one boot of the host: 0 is the current one, -1 the one before, and so on until -100. Not with follow, but for 0.
	// +optional
	Boot *int64 `json:"boot,omitempty"`
	// Keep the stream open and send new lines as they come; not with previous. On the subresource logs, which kube-apiserver ends
	// after a minute, that is for 50 seconds. Default false.
	// +optional
	Follow bool `json:"follow,omitempty"`
	// Read the rotated file before the current one. Default false.
	// +optional
	Previous bool `json:"previous,omitempty"`
	// Put the time of each line before it (RFC 3339 with nanoseconds). Default false.
	// +optional
	Timestamps bool `json:"timestamps,omitempty"`
	// End after so many bytes, even in the middle of a line. Default: no limit.
	// +optional
	LimitBytes *int64 `json:"limitBytes,omitempty"`
	// text (default): lines. json: one JSON object a line with time, source and message.
	// +optional
	Output string `json:"output,omitempty"`
	// Continue where an earlier stream with the same query ended: the value that its
	// last line gave. Excludes the options that choose where to begin.
	// +optional
	Cursor string `json:"cursor,omitempty"`
}
