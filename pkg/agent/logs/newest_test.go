// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"fmt"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// TestThousandsOfRotatedFiles: of many only the youngest are opened, which their names tell.
func TestThousandsOfRotatedFiles(t *testing.T) {
	const extra = 30
	for _, tt := range []struct {
		name string
		// file is the name of a rotated file, 0 the oldest.
		file func(i int) string
	}{
		{"by time", func(i int) string { return fmt.Sprintf("x-20260304-%02d%02d%02d.log", i/3600, i/60%60, i%60) }},
		{"by number", func(i int) string { return fmt.Sprintf("x.log.%d", maxRotated+extra-i) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestHost(t)
			for i := range maxRotated + extra {
				h.write(t, tt.file(i), fmt.Sprintf("line %d\n", i))
			}
			h.write(t, "x.log", "the present one\n")
			root := logRoot{dir: h.root}
			list, err := newSeries(root, "x.log").list()
			if err != nil {
				t.Fatal(err)
			}
			if len(list) != maxRotated+1 || list[0].name != tt.file(extra) || list[maxRotated-1].name != tt.file(maxRotated+extra-1) || !list[maxRotated].current {
				t.Errorf("%d files, from %s to %s", len(list), list[0].name, list[len(list)-1].name)
			}
			want := fmt.Sprintf("line %d\nthe present one\n", maxRotated+extra-1)
			if got := h.read(t, api.LogRequest{Queries: []string{"x"}, TailLines: ptr(int64(2))}); got != want {
				t.Errorf("the last lines are %q, want %q", got, want)
			}
		})
	}
}
