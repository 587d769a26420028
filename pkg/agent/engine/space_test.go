// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// sendPart puts the beginning of the first file of a bundle on the host.
func sendPart(f *fake, b config.Bundle, suffix string, size int) {
	f.files[fold(api.PayloadDirectory)] = fakeFile{Directory: true}
	f.files[fold(api.PayloadPath(b.Document.Files[0].Digest)+suffix)] = fakeFile{Content: strings.Repeat("x", size)}
}

func TestSpace(t *testing.T) {
	const mib = 1 << 20
	none := config.OnChange{Impact: config.ImpactNone}
	sized := func(path, version string, size int64) config.File {
		f := program(path, version, none)
		f.Source.Size = size
		return f
	}
	// Two files of the payload, one of them in two places, and a text.
	twice := sized(`C:\k\one.exe`, "1", 100*mib)
	twice.Path = `C:\k\again.exe`
	b := config.Bundle{Document: config.Document{Version: config.SchemaVersion, Files: []config.File{
		sized(`C:\k\one.exe`, "1", 100*mib), twice, sized(`C:\k\two.exe`, "1", 50*mib),
		textFile(`C:\k\text`, strings.Repeat("x", mib), none),
	}}}
	empty := config.Bundle{Document: config.Document{Version: config.SchemaVersion}}
	tests := []struct {
		name   string
		free   int64
		bundle config.Bundle
		change func(f *fake)
		want   string
	}{
		{name: "just enough", free: 251 * mib, bundle: b},
		{name: "too little", free: 251*mib - 1, bundle: b, want: "volume C: has too little room: 251 MiB are needed, 250 MiB are free, 1 MiB are missing"},
		{name: "nothing is sent again, and copied once", free: 101 * mib, bundle: b, change: func(f *fake) { send(t, f, b) }},
		{name: "but the text is written", free: 101*mib - 1, bundle: b, change: func(f *fake) { send(t, f, b) }, want: "volume C: has too little room: 101 MiB are needed, 100 MiB are free, 1 MiB are missing"},
		{name: "a part of a file has been sent", free: 251*mib - 7, bundle: b, change: func(f *fake) { sendPart(f, b, ".0123456789abcdef.part", 7) }},
		{
			name: "and it is compressed", free: 251*mib - 7, bundle: b, change: func(f *fake) { sendPart(f, b, ".0123456789abcdef.gz.part", 7) },
			want: "volume C: has too little room: 251 MiB are needed, 250 MiB are free, 1 MiB are missing",
		},
		{name: "nothing to write", bundle: empty},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.free = 1 << 40
			if tt.change != nil {
				tt.change(f)
			}
			f.free = tt.free
			_, err := engineOf(f).Plan(t.Context(), &tt.bundle)
			var space *Error
			if got := errors.As(err, &space) && space.Reason == api.ReasonSpace; got != (tt.want != "") || got && err.Error() != tt.want || !got && err != nil {
				t.Fatalf("plan: got %v, want %q", err, tt.want)
			}
			if tt.want == "" {
				return
			}
			r := engineOf(f).Apply(context.Background(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: tt.bundle})
			if r.Outcome != api.OutcomeFailed || r.Reason != api.ReasonSpace || r.Error != tt.want || f.mutations > 0 {
				t.Errorf("apply: got %+v after %v", r, f.log)
			}
			if r := engineOf(f).Cleanup(context.Background()); r.Outcome != api.OutcomeRemoved {
				t.Errorf("cleanup of a full disk: %+v", r)
			}
		})
	}
}
