// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"strings"
	"unicode/utf16"
)

// maxEventText is how long the text of an event may be, in UTF-16: ReportEvent takes no more than 31,839 characters.
const maxEventText = 31_000

// eventText is a message as the text of an event. One that is too long is cut, with a remark: the event log would take none of it.
func eventText(message string) string {
	const cut = "\r\n… (the rest is too long for the event log)"
	message = strings.ReplaceAll(strings.ReplaceAll(message, "\x00", ""), "\n", "\r\n")
	if units := utf16.Encode([]rune(message)); len(units) > maxEventText {
		// Half of a character becomes a replacement character.
		return string(utf16.Decode(units[:maxEventText-len(utf16.Encode([]rune(cut)))])) + cut
	}
	return message
}
