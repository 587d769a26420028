// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// record is a unit as JSON, see [api.LogRequest.Output]. The fields of an event are those
// that have a name in [Event].
type record struct {
	Time    string `json:"time,omitempty"`
	Source  string `json:"source"`
	Message string `json:"message"`
	*Event
}

// appendRecord renders a unit as one line of JSON.
func appendRecord(dst []byte, source string, u *unit) []byte {
	r := record{Source: source, Message: string(u.text), Event: u.event}
	if u.known {
		r.Time = u.time.UTC().Format(time.RFC3339Nano)
	}
	if u.event != nil {
		r.Message = strings.ReplaceAll(u.event.Message, "\r\n", "\n")
	}
	return appendJSON(dst, r)
}

// appendJSON appends the line of JSON for strings and numbers, which cannot fail. Bytes that
// are not UTF-8 become U+FFFD.
func appendJSON(dst []byte, value any) []byte {
	out := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return out.Bytes()
}
