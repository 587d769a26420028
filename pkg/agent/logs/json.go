// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// appendRecord renders a unit as one line of JSON, see [api.LogRequest.Output]. Package
// encoding/json would be several times slower than everything else together.
func appendRecord(dst []byte, source string, u *unit) []byte {
	dst = append(dst, '{')
	if u.known {
		dst = append(dst, `"time":"`...)
		dst = u.time.UTC().AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, `",`...)
	}
	dst = appendJSONString(append(dst, `"source":`...), []byte(source))
	message := u.text
	if u.event != nil {
		message = []byte(strings.ReplaceAll(u.event.Message, "\r\n", "\n"))
	}
	dst = appendJSONString(append(dst, `,"message":`...), message)
	if e := u.event; e != nil {
		dst = appendJSONString(append(dst, `,"level":`...), []byte(e.Level))
		dst = strconv.AppendUint(append(dst, `,"eventID":`...), uint64(e.EventID), 10)
		dst = appendJSONString(append(dst, `,"provider":`...), []byte(e.Provider))
		dst = strconv.AppendUint(append(dst, `,"recordID":`...), e.RecordID, 10)
		dst = appendJSONString(append(dst, `,"channel":`...), []byte(e.Channel))
	}
	return append(dst, "}\n"...)
}

// appendJSONString quotes s as RFC 8259 wants it. Bytes that are not UTF-8 become
// U+FFFD.
func appendJSONString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = utf8.AppendRune(append(dst, s[start:i]...), utf8.RuneError)
				start = i + 1
			}
			i += n
			continue
		}
		if b >= ' ' && b != '"' && b != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&0xf])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}
