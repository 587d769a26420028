// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseRotation(t *testing.T) {
	tests := []struct {
		name, base, file string
		want             bool
	}{
		{name: "kube-log-runner", base: "kubelet.log", file: "kubelet-20260305-120000.log", want: true},
		{name: "lumberjack", base: "agent.log", file: "agent-2026-03-05T12-00-00.000.log", want: true},
		{name: "lumberjack compressed", base: "agent.log", file: "agent-2026-03-05T12-00-00.000.log.gz", want: true},
		{name: "date with dashes", base: "x.log", file: "x-2026-03-05-120000.log", want: true},
		{name: "date with dashes, T", base: "x.log", file: "x-2026-03-05T120000.log", want: true},
		{name: "time with dashes", base: "x.log", file: "x.log.20260305-12-00-00", want: true},
		{name: "container log", base: "0.log", file: "0.log.20260305-120000", want: true},
		{name: "container log compressed", base: "0.log", file: "0.log.20260305-120000.gz", want: true},
		{name: "container log being compressed", base: "0.log", file: "0.log.20260305-120000.gz.tmp"},
		{name: "logrotate", base: "x.log", file: "x.log.1", want: true},
		{name: "logrotate compressed", base: "x.log", file: "x.log.12.gz", want: true},
		{name: "logrotate by date", base: "x.log", file: "x.log-20260305", want: true},
		{name: "klog", base: "wicd.exe.INFO", file: "wicd.exe.HOST.DOM_user.log.INFO.20260305-120000.1234", want: true},
		{name: "klog of another severity", base: "wicd.exe.INFO", file: "wicd.exe.HOST.user.log.ERROR.20260305-120000.1234"},
		{name: "klog of another program", base: "wicd.exe.INFO", file: "other.exe.HOST.user.log.INFO.20260305-120000.1234"},
		{name: "without extension", base: "syslog", file: "syslog.1", want: true},
		{name: "itself", base: "x.log", file: "x.log"},
		{name: "itself compressed", base: "x.log", file: "x.log.gz"},
		{name: "other file", base: "x.log", file: "xy.log.1"},
		{name: "backup by hand", base: "x.log", file: "x.log.bak"},
		{name: "number zero", base: "x.log", file: "x.log.0"},
		{name: "long number", base: "x.log", file: "x.log.12345"},
		{name: "no date", base: "x.log", file: "x-20269999-120000.log"},
		{name: "kubelet is not kubelet-extra", base: "kubelet.log", file: "kubelet-extra.log"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, got := parseRotation(tt.base, tt.file); got != tt.want {
				t.Errorf("parseRotation(%q, %q) = %v, want %v", tt.base, tt.file, got, tt.want)
			}
		})
	}
}

func TestSortGenerations(t *testing.T) {
	old, young := day(10, 0, 0), day(11, 0, 0)
	type file struct {
		name  string
		mtime time.Time
	}
	tests := []struct {
		name  string
		base  string
		files []file
		want  []string
	}{
		{
			name: "stamps, whatever the modification times say", base: "x.log",
			files: []file{{"x.log", old}, {"x-20260305-110000.log", old}, {"x-20260305-100000.log", young}},
			want:  []string{"x-20260305-100000.log", "x-20260305-110000.log", "x.log"},
		},
		{
			name: "numbers", base: "x.log",
			files: []file{{"x.log", old}, {"x.log.1", old}, {"x.log.10.gz", young}, {"x.log.2", young}},
			want:  []string{"x.log.10.gz", "x.log.2", "x.log.1", "x.log"},
		},
		{
			name: "both kinds by modification time", base: "x.log",
			files: []file{{"x.log", old}, {"x.log.1", young}, {"x-20260305-120000.log", old}},
			want:  []string{"x-20260305-120000.log", "x.log.1", "x.log"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var list []generation
			for _, f := range tt.files {
				r, ok := parseRotation(tt.base, f.name)
				if !ok && f.name != tt.base {
					t.Fatalf("%s is no rotation of %s", f.name, tt.base)
				}
				list = append(list, generation{rotationName: r, mtime: f.mtime, current: f.name == tt.base})
			}
			sortGenerations(list)
			var got []string
			for _, g := range list {
				got = append(got, g.name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}
