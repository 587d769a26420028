// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package standin

import (
	"path/filepath"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

func TestWritePayload(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options PayloadOptions
		files   int
		sound   bool
	}{
		{"usual", PayloadOptions{}, 9, true},
		{"networks", PayloadOptions{Overlay: true}, 10, true},
		{"broken", PayloadOptions{Broken: "kubelet.exe"}, 9, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "payload")
			if err := WritePayload(t.Context(), dir, tt.options); err != nil {
				t.Fatal(err)
			}
			p, err := payload.Open(t.Context(), dir, payload.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := p.Verify(t.Context()); (err == nil) != tt.sound || len(p.Manifest.Files) != tt.files {
				t.Errorf("it has %d files and is %v, want %d and sound: %t", len(p.Manifest.Files), err, tt.files, tt.sound)
			}
		})
	}
}
