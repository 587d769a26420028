// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"time"
)

// Output formats of a [LogRequest].
const (
	LogOutputText = "text"
	LogOutputJSON = "json"
)

// Limits of a [LogRequest].
const (
	// MaxLogQueries is how many sources one request may merge.
	MaxLogQueries = 8
	// MaxLogRequestBytes bounds the line that carries the request.
	MaxLogRequestBytes = 64 << 10
	// MaxLogPatternBytes bounds the regular expression.
	MaxLogPatternBytes = 4 << 10
	// MaxLogPatternInstructions bounds the program that is made of the regular expression, see
	// [CheckLogPattern].
	MaxLogPatternInstructions = 10_000
	// MaxLogTailLines bounds TailLines.
	MaxLogTailLines = 1_000_000
	// MaxLogCursorBytes bounds the cursor.
	MaxLogCursorBytes = 16 << 10
)

// LogRequest requests logs. The filters work in the order time window, pattern,
// TailLines, LimitBytes.
//
// Its meaning is that of the kubelet's node log query and of the core group's
// PodLogOptions. It goes further where those stop short: files can be filtered
// and followed like services, the pattern is applied before TailLines, every
// event channel can be read, and a boot can be selected.
type LogRequest struct {
	// Queries name the sources, at most [MaxLogQueries]. Each is one of
	//
	//	a service        kubelet; [a-zA-Z0-9@_.-], at most 256 characters
	//	a file           kubelet\kubelet.log, relative to the log root; it has
	//	                 a slash or a backslash (./setup.log for the root itself)
	//	an event channel eventlog/System
	//
	// Records of several sources are merged by time. None at all requests the
	// index: every well-known service and every file, as a table, or as one
	// document with OutputJSON.
	Queries []string `json:"queries,omitempty"`

	// SinceTime and UntilTime bound the time of the records, both inclusive.
	// With a lower bound, the log of a service begins in its rotated files when
	// those reach back that far.
	SinceTime *time.Time `json:"sinceTime,omitempty"`
	UntilTime *time.Time `json:"untilTime,omitempty"`
	// SinceSeconds is SinceTime by the clock of the host. Only one of them may
	// be set.
	SinceSeconds *int64 `json:"sinceSeconds,omitempty"`

	// Pattern leaves the records that a regular expression (RE2 syntax) matches
	// in any of their lines. It must pass [CheckLogPattern].
	Pattern string `json:"pattern,omitempty"`
	// CaseSensitive is how Pattern matches. Note that false is the zero value,
	// while the API's case-sensitive parameter defaults to true.
	CaseSensitive bool `json:"caseSensitive,omitempty"`

	// TailLines leaves the last lines, at most [MaxLogTailLines]; with OutputJSON, the
	// last records. With Follow, 0 means only what is new. What has to be kept in
	// memory to know what comes last (events, any other filter, several sources) may
	// have 32 MiB. Where that is too little, older lines are left out, and a line
	// "# gap: …" says so.
	TailLines *int64 `json:"tailLines,omitempty"`
	// LimitBytes ends the log after that many bytes, in the middle of a line if
	// need be. With OutputJSON whole records are left out instead.
	LimitBytes *int64 `json:"limitBytes,omitempty"`

	// Boot leaves what was logged during one boot of the host: 0 is the present
	// one, -1 the one before.
	Boot *int `json:"boot,omitempty"`
	// Previous reads the file that was rotated away last in place of the
	// present one. It cannot be followed.
	Previous bool `json:"previous,omitempty"`

	// Follow continues with what is written later, until standard input says stop
	// or ends. A well-known service that has no log yet is waited for. Several
	// sources are merged among what becomes readable at one time, so records
	// that one of them writes late come late.
	Follow bool `json:"follow,omitempty"`
	// Attended says that the caller keeps standard input open for as long as somebody
	// reads: when it ends, so does the log, complete or not. A search that finds nothing writes
	// nothing, and would not notice otherwise. It excludes Follow, which ends in good order.
	Attended bool `json:"attended,omitempty"`

	// Timestamps puts the time of its record, in RFC 3339 and UTC, before each
	// line that does not begin with one already. Lines that have no time to be
	// known by are left as they are.
	Timestamps bool `json:"timestamps,omitempty"`
	// Output is OutputText (also when empty) or OutputJSON: one object per
	// record with time, source, message, and for events level, eventID,
	// provider, recordID and channel.
	Output string `json:"output,omitempty"`

	// Cursor continues where an earlier request with the same Queries ended,
	// also through rotation. It excludes SinceTime, SinceSeconds, TailLines,
	// Boot and Previous. When what comes next is gone, the log continues at
	// the oldest that is left after a line "# gap: …" (or {"gap":"…"}).
	Cursor string `json:"cursor,omitempty"`
	// EmitCursor ends the answer with a line "# cursor: …" (or
	// {"cursor":"…"}). When LimitBytes has cut a line, a newline that is not
	// part of the log goes before it.
	EmitCursor bool `json:"emitCursor,omitempty"`
}

// LogHeader is the first line of the answer.
type LogHeader struct {
	Protocol int `json:"protocol"`
	// Error, when set, is all there is: nothing follows.
	Error *LogError `json:"error,omitempty"`
}

// LogError is why a request is refused. It is fit to become a Status.
type LogError struct {
	// Code is an HTTP status code.
	Code int `json:"code"`
	// Reason is one of the Reason constants, which are those of a Status.
	Reason string `json:"reason"`
	// Message is a sentence for people.
	Message string `json:"message"`
	// Field is the JSON name of the offending field of the request, such as
	// "queries[1]"; empty when it is about none.
	Field string `json:"field,omitempty"`
}

// Reasons of an [LogError].
const (
	LogBadRequest         = "BadRequest"
	LogForbidden          = "Forbidden"
	LogNotFound           = "NotFound"
	LogNotImplemented     = "NotImplemented"
	LogServiceUnavailable = "ServiceUnavailable"
	LogInternalError      = "InternalError"
)

// Error implements error.
func (e *LogError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}
