// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package faultnet

import (
	"testing"

	"github.com/openshift/windows-instance-api/test/winhost/fault"
)

func TestStageEnd(t *testing.T) {
	const banner = "SSH-2.0-x\r\n"
	const kexInit = "\x00\x00\x00\x05hello"
	for _, tc := range []struct {
		name  string
		stage fault.Stage
		seen  string
		want  int
		known bool
	}{
		{"nothing yet", fault.StageBanner, "", 0, false},
		{"half a banner", fault.StageBanner, "SSH-2.0", 0, false},
		{"banner", fault.StageBanner, banner, len(banner), true},
		{"banner and more", fault.StageBanner, banner + kexInit, len(banner), true},
		{"kex, banner only", fault.StageKex, banner, 0, false},
		{"kex, half a length", fault.StageKex, banner + "\x00\x00", 0, false},
		{"kex, half a packet", fault.StageKex, banner + kexInit[:6], len(banner + kexInit), true},
		{"kex", fault.StageKex, banner + kexInit + "next", len(banner + kexInit), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, known := stageEnd(tc.stage, []byte(tc.seen))
			if n != tc.want || known != tc.known {
				t.Errorf("got %d, %v, want %d, %v", n, known, tc.want, tc.known)
			}
		})
	}
}

// TestStageLimit: however a stream is cut into pieces, the same bytes pass.
func TestStageLimit(t *testing.T) {
	const stream = "SSH-2.0-x\r\n\x00\x00\x00\x05hello and more"
	const want = "SSH-2.0-x\r\n\x00\x00\x00\x05hello"
	for size := 1; size <= len(stream); size++ {
		limit := &stageLimit{stage: fault.StageKex}
		var passed string
		for rest := stream; rest != ""; {
			piece := rest[:min(size, len(rest))]
			rest = rest[len(piece):]
			passed += piece[:limit.allow([]byte(piece))]
		}
		if passed != want || !limit.reached {
			t.Errorf("in pieces of %d: %q passed, reached: %v", size, passed, limit.reached)
		}
	}
}
