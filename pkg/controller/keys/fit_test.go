// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openshift/windows-instance-api/pkg/host"
)

func TestFit(t *testing.T) {
	of := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	for _, tt := range []struct {
		name    string
		entries []entry
		room    int
		want    map[string]int // bytes
		refused []string
	}{
		{"all", []entry{{"a", nil, of(10), true}, {"b", of(10), of(20), true}}, 30, map[string]int{"a": 10, "b": 20}, nil},
		{"what is kept comes before what is new", []entry{{"a", nil, of(10), true}, {"b", of(10), of(20), true}}, 29, map[string]int{"b": 20}, []string{"a"}},
		{"and stays when it does not grow", []entry{{"a", of(10), of(30), true}, {"b", of(10), of(10), false}}, 29, map[string]int{"a": 10, "b": 10}, []string{"a"}},
		{"what is smaller makes room", []entry{{"a", of(10), nil, false}, {"b", of(10), of(5), true}, {"c", nil, of(15), true}}, 20, map[string]int{"b": 5, "c": 15}, nil},
		{"what is in use comes before what is not", []entry{{"a", of(10), of(20), false}, {"b", of(10), of(20), true}}, 30, map[string]int{"a": 10, "b": 20}, []string{"a"}},
		{"more than is read of one", []entry{{"a", nil, of(host.MaxKeptBytes + 1), true}, {"b", nil, of(host.MaxKeptBytes), true}}, maxSecretBytes, map[string]int{"b": host.MaxKeptBytes}, []string{"a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, refused := fit(tt.entries, tt.room)
			got := map[string]int{}
			for name, text := range data {
				got[name] = len(text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.refused, refused); diff != "" {
				t.Errorf("refused (-want +got)\n%s", diff)
			}
		})
	}
}
