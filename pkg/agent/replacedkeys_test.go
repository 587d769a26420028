// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// replaced is a host whose key was replaced, with the record of that.
func replaced(t *testing.T) *fakeHost {
	t.Helper()
	h := newFakeHost(t)
	h.files = stateFiles{sharedKeys: newKey + "\n" + oldKey + "\n"}
	var answer api.AuthorizeAnswer
	if err := authorize(h, api.AuthorizeRequest{Key: newKey, Former: []string{oldKey}, Remove: true}, &answer); err != nil {
		t.Fatal(err)
	}
	if h.files[sharedKeys] != newKey+"\n" {
		t.Fatalf("the file is %q", h.files[sharedKeys])
	}
	return h
}

// TestKeepKeys: a host whose user data authorizes the key of the day on which it was made, at each boot, keeps the present one.
func TestKeepKeys(t *testing.T) {
	request := func(r api.AuthorizeRequest) func(t *testing.T, h *fakeHost) {
		return func(t *testing.T, h *fakeHost) {
			t.Helper()
			if err := authorize(h, r, &api.AuthorizeAnswer{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, h *fakeHost)
		shared string
		own    string
		want   stateFiles // nil: as before
		err    string
	}{
		{name: "nothing has changed", shared: newKey + "\n"},
		{name: "the former key took the place of all others", shared: oldKey + "\n", want: stateFiles{sharedKeys: newKey + "\n"}},
		{name: "with options", shared: "restrict " + oldKey + "\r\n" + theirs + "\r\n", want: stateFiles{sharedKeys: theirs + "\r\nrestrict " + newKey + "\r\n"}},
		{name: "somebody has added it beside the key", shared: newKey + "\n" + oldKey + "\n"},
		{name: "in another file of the user", shared: newKey + "\n", own: oldKey + "\n", want: stateFiles{ownKeys: newKey + "\n"}},
		{name: "somebody has removed the key", shared: theirs + "\n"},
		{
			name: "it was replaced once more", change: request(api.AuthorizeRequest{Key: olderKey, Former: []string{newKey}, Remove: true}),
			shared: oldKey + "\n", want: stateFiles{sharedKeys: olderKey + "\n"},
		},
		{name: "the former key is being taken back", change: request(api.AuthorizeRequest{Key: oldKey, Former: []string{newKey}}), shared: newKey + "\n" + oldKey + "\n"},
		{
			name: "it was taken back", change: request(api.AuthorizeRequest{Key: oldKey, Former: []string{newKey}, Remove: true}),
			shared: newKey + "\n", want: stateFiles{sharedKeys: oldKey + "\n"},
		},
		{name: "nothing was replaced", change: func(_ *testing.T, h *fakeHost) { delete(h.files, api.ReplacedKeysPath) }, shared: oldKey + "\n"},
		{
			name:   "another machine was made from the disk",
			change: func(_ *testing.T, h *fakeHost) { h.machine = "another" }, shared: oldKey + "\n",
		},
		{
			name: "the record is damaged", change: func(_ *testing.T, h *fakeHost) { h.files[api.ReplacedKeysPath] = "\x00" }, shared: oldKey + "\n",
			err: "reading " + api.ReplacedKeysPath + ": invalid character '\\x00' looking for beginning of value",
		},
		{
			name: "the disk is full", change: func(_ *testing.T, h *fakeHost) { h.full = sharedKeys }, shared: oldKey + "\n", own: oldKey + "\n", want: stateFiles{ownKeys: newKey + "\n"},
			err: "replacing a former key in " + sharedKeys + " again: the disk is full",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := replaced(t)
			if tt.change != nil {
				h.files[sharedKeys] = olderKey + "\n" + newKey + "\n" + oldKey + "\n"
				tt.change(t, h)
			}
			want := stateFiles{sharedKeys: tt.shared, ownKeys: tt.own}
			h.files[sharedKeys], h.files[ownKeys] = tt.shared, tt.own
			var paths, names []string
			for path, text := range tt.want {
				want[path] = text
				paths = append(paths, path)
			}
			changed, err := keepKeys(h)
			if got := errorText(err); got != tt.err {
				t.Errorf("error %q, want %q", got, tt.err)
			}
			for _, i := range changed {
				names = append(names, i.Name)
			}
			if diff := cmp.Diff(paths, names); diff != "" {
				t.Errorf("changed (-want +got)\n%s", diff)
			}
			for path, text := range want {
				if got := h.files[path]; got != text {
					t.Errorf("%s is %q, want %q", path, got, text)
				}
			}
			h.full = ""
			if _, err := keepKeys(h); err != nil && tt.err == "" {
				t.Errorf("again: %v", err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestReplacedKeysAreRecordedFirst: no key is removed before the host can keep the other one.
func TestReplacedKeysAreRecordedFirst(t *testing.T) {
	h := newFakeHost(t)
	both := newKey + "\n" + oldKey + "\n"
	h.files, h.full = stateFiles{sharedKeys: both, api.ReplacedKeysPath: "damaged"}, api.ReplacedKeysPath
	remove := api.AuthorizeRequest{Key: newKey, Former: []string{oldKey}, Remove: true}
	if err := authorize(h, remove, &api.AuthorizeAnswer{}); errorText(err) != "writing "+api.ReplacedKeysPath+": the disk is full" || h.files[sharedKeys] != both {
		t.Errorf("the file is %q, %v", h.files[sharedKeys], err)
	}
	h.full = ""
	if err := authorize(h, remove, &api.AuthorizeAnswer{}); err != nil {
		t.Fatal(err)
	}
	if got, err := readReplacedKeys(h.System()); err != nil || got.Key != newKey || len(got.Former) != 1 {
		t.Errorf("recorded is %+v, %v", got, err)
	}
	// What is recorded already is not written again.
	h.full = api.ReplacedKeysPath
	if err := authorize(h, remove, &api.AuthorizeAnswer{}); err != nil {
		t.Error(err)
	}
}
