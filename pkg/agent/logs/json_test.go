// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func FuzzJSONString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c/d", "\x00\x1f\r\n\t\b", "žluť 😀", "a\xffb", "\xe6\x97", "\u2028"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		quoted := bytes.TrimSuffix(appendJSON(nil, string(s)), []byte("\n"))
		var got string
		if err := json.Unmarshal(quoted, &got); err != nil {
			t.Fatalf("%q became %s: %v", s, quoted, err)
		}
		want := string(appendValid(nil, s))
		if got != want || strings.Contains(string(quoted), "\n") {
			t.Errorf("%q became %s, which is %q", s, quoted, got)
		}
	})
}
