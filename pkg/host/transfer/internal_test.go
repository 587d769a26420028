// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func TestSFTPPath(t *testing.T) {
	tests := []struct{ name, path, want string }{
		{"drive", `C:\k\cni\win-bridge.exe`, "/C:/k/cni/win-bridge.exe"},
		{"slashes", "C:/k//x", "/C:/k/x"},
		{"elsewhere", "/var/lib/x", "/var/lib/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sftpPath(tt.path); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTemporaryPattern(t *testing.T) {
	tests := []struct {
		rest string
		want bool
	}{
		{".0123456789abcdef.part", true},
		{".0123456789abcdef.gz.part", true},
		{".0123456789ABCDEF.part", false},
		{".0123456789abcde.part", false},
		{".part", false},
		{"x.0123456789abcdef.part", false},
		{".0123456789abcdef.part.old", false},
	}
	for _, tt := range tests {
		t.Run(tt.rest, func(t *testing.T) {
			if got := temporaryPattern.MatchString(tt.rest); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	const m = 1 << 20
	type file struct {
		size, gzip, partial int64 // gzip 0: none
		there               bool
		volume              string
	}
	tests := []struct {
		name  string
		free  map[string]int64
		files []file
		want  []int // indexes of what is sent, in this order
		full  string
	}{
		{name: "nothing"},
		{name: "the largest first", files: []file{{size: 1}, {size: 3}, {size: 2}}, want: []int{1, 2, 0}},
		{name: "by what moves", files: []file{{size: 10, gzip: 1}, {size: 2}}, want: []int{1, 0}},
		{name: "there already", files: []file{{size: 1, there: true}, {size: 2}}, want: []int{1}},
		{name: "just enough", free: map[string]int64{"": 3*m + reserve}, files: []file{{size: m}, {size: 2 * m}}, want: []int{1, 0}},
		{name: "not enough", free: map[string]int64{"": 3*m + reserve - 1}, files: []file{{size: m}, {size: 2 * m}}, full: "3.0 MiB are to be written"},
		{name: "what is there needs no room", free: map[string]int64{"": m + reserve}, files: []file{{size: m}, {size: 2 * m, there: true}}, want: []int{0}},
		{name: "nor what was sent before", free: map[string]int64{"": m + reserve}, files: []file{{size: 3 * m, partial: 2 * m}}, want: []int{0}},
		{name: "unpacking needs room", free: map[string]int64{"": 3*m + reserve}, files: []file{{size: 3 * m, gzip: m}}, full: "4.0 MiB are to be written"},
		{name: "each volume by itself", free: map[string]int64{"C:": m + reserve, "D:": m}, files: []file{{size: m, volume: "C:"}, {size: m, volume: "D:"}}, full: "D: has 1.0 MiB free"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var jobs []*job
			var states []api.FileState
			for _, f := range tt.files {
				item := &Item{Size: f.size, SHA256: "right"}
				if f.gzip > 0 {
					item.Gzip = &Gzip{Size: f.gzip}
				}
				jobs = append(jobs, &job{item: item, wire: item.wire(), partial: f.partial})
				s := api.FileState{Volume: f.volume, FreeBytes: -1}
				if f.there {
					s.Exists, s.Size, s.SHA256 = true, f.size, "right"
				}
				if free, ok := tt.free[f.volume]; ok {
					s.FreeBytes = free
				}
				states = append(states, s)
			}
			send, err := plan(jobs, states)
			if full := errors.Is(err, ErrDiskFull); full != (tt.full != "") || full && !strings.Contains(err.Error(), tt.full) {
				t.Fatalf("got the error %v, want %q", err, tt.full)
			}
			var got []int
			for _, s := range send {
				for i, j := range jobs {
					if s == j {
						got = append(got, i)
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("what is sent (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhoWaits: transfers to the same host wait for each other, and an address is that of another host behind another bastion.
func TestWhoWaits(t *testing.T) {
	target := ssh.Target{Address: "Host.example", Bastion: &ssh.Bastion{Address: "bastion-a"}}
	for _, tt := range []struct {
		name  string
		other ssh.Target
		waits bool
	}{
		{"the same", target, true},
		{"written in another way, for another user", ssh.Target{Address: "host.example", Port: 22, User: "b", Bastion: &ssh.Bastion{Address: "Bastion-A", Port: 22, User: "b"}}, true},
		{"another port", ssh.Target{Address: "Host.example", Port: 2222, Bastion: target.Bastion}, false},
		{"another bastion", ssh.Target{Address: "Host.example", Bastion: &ssh.Bastion{Address: "bastion-b"}}, false},
		{"no bastion", ssh.Target{Address: "Host.example"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := hosts{m: map[string]*host{}}
				_, leave, err := h.enter(t.Context(), target)
				if err != nil {
					t.Fatal(err)
				}
				entered := false
				go func() {
					if _, leave, err := h.enter(t.Context(), tt.other); err == nil {
						entered = true
						leave()
					}
				}()
				synctest.Wait()
				if entered == tt.waits {
					t.Errorf("it waits: %v, want %v", !entered, tt.waits)
				}
				leave()
			})
		})
	}
}

func TestLimit(t *testing.T) {
	if newLimit(0) != nil {
		t.Error("there is a limit without one being set")
	}
	for _, tt := range []struct {
		name   string
		limits []*rate.Limiter
		want   int // bytes that pass at once
	}{
		{"none", []*rate.Limiter{nil, nil}, 4 * minBurst},
		{"of the host", []*rate.Limiter{newLimit(1), nil}, minBurst},
		{"of all", []*rate.Limiter{nil, newLimit(1)}, minBurst},
		{"the lower one counts", []*rate.Limiter{newLimit(1), newLimit(1 << 40)}, minBurst},
		{"a tenth of a second", []*rate.Limiter{newLimit(20 * minBurst)}, 2 * minBurst},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := &limited{ctx: ctx, r: bytes.NewReader(make([]byte, 4*minBurst)), limits: tt.limits}
			got := 0
			b := make([]byte, minBurst)
			for got < tt.want {
				n, err := r.Read(b)
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
			// What comes next has to wait, which the end of the context ends.
			cancel()
			if n, err := r.Read(b); got == 4*minBurst && !errors.Is(err, io.EOF) || got < 4*minBurst && !errors.Is(err, context.Canceled) {
				t.Errorf("got %d bytes and %v", n, err)
			}
		})
	}
}
