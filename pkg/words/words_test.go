// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package words

import "testing"

func TestEnumerate(t *testing.T) {
	for want, texts := range map[string][]string{"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 1 more": {"a", "b", "c"}, "a, b and 2 more": {"a", "b", "c", "d"}} {
		if got := Enumerate(texts, 2); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
