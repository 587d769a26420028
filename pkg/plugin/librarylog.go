// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"fmt"
	"io"
	"slices"

	"github.com/go-logr/logr"
)

// librarySink takes what the libraries of Kubernetes log. Users read of it why a port
// cannot be forwarded to, which is said nowhere else; that watches end and that a
// terminal changes its size while a session ends is no business of theirs.
type librarySink struct{ errOut io.Writer }

var _ logr.LogSink = librarySink{}

// Init implements [logr.LogSink].
func (librarySink) Init(logr.RuntimeInfo) {}

// Enabled implements [logr.LogSink].
func (librarySink) Enabled(int) bool { return false }

// Info implements [logr.LogSink].
func (librarySink) Info(int, string, ...any) {}

// Error implements [logr.LogSink].
func (s librarySink) Error(err error, _ string, about ...any) {
	if err != nil && slices.Contains(about, any("remotePort")) {
		_, _ = fmt.Fprintln(s.errOut, explain(err))
	}
}

// WithValues implements [logr.LogSink].
func (s librarySink) WithValues(...any) logr.LogSink { return s }

// WithName implements [logr.LogSink].
func (s librarySink) WithName(string) logr.LogSink { return s }
