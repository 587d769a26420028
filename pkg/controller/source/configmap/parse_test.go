// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compareAddrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// table resolves the names that it holds and no others.
func table(names map[string][]string) ResolveFunc {
	return func(name string) Resolution {
		texts, ok := names[name]
		if !ok {
			return Resolution{Err: errors.New("no such host")}
		}
		var resolution Resolution
		for _, text := range texts {
			resolution.Addresses = append(resolution.Addresses, netip.MustParseAddr(text))
		}
		return resolution
	}
}

func TestParse(t *testing.T) {
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	tests := []struct {
		name         string
		data         map[string]string
		made         map[string]time.Time
		dns          map[string][]string
		wantKeys     []string
		wantProblems []string
	}{
		{name: "nothing"},
		{
			name:     "IP addresses come first, then the order of the keys",
			data:     map[string]string{"b.example.com": "username=a", "a.example.com": "username=a", "10.0.0.2": "username=a", "10.0.0.1": "username=a"},
			wantKeys: []string{"10.0.0.1", "10.0.0.2", "a.example.com", "b.example.com"},
		},
		{
			name:         "a bad entry does not concern the others",
			data:         map[string]string{"10.0.0.1": "username=a", "10.0.0.2": "username", "10.0.0.3": ""},
			wantKeys:     []string{"10.0.0.1"},
			wantProblems: []string{`entry 10.0.0.2: line "username" has no "="; want username=<user>`, "entry 10.0.0.3: username=<user> is missing"},
		},
		{
			name:     "a name that does not resolve is an entry",
			data:     map[string]string{"gone.example.com": "username=a"},
			wantKeys: []string{"gone.example.com"},
		},
		{
			name:         "a name and its address are one host",
			data:         map[string]string{"10.0.0.1": "username=a", "a.example.com": "username=a"},
			dns:          map[string][]string{"a.example.com": {"10.0.0.1"}},
			wantKeys:     []string{"10.0.0.1"},
			wantProblems: []string{"entry a.example.com: is the same host as entry 10.0.0.1 (10.0.0.1:22): remove one of them"},
		},
		{
			name:         "the one that was made first stays",
			data:         map[string]string{"10.0.0.1": "username=a", "a.example.com": "username=a", "b.example.com": "username=a"},
			made:         map[string]time.Time{"a.example.com": late, "b.example.com": early},
			dns:          map[string][]string{"a.example.com": {"10.0.0.1"}, "b.example.com": {"10.0.0.1"}},
			wantKeys:     []string{"b.example.com"},
			wantProblems: []string{"entry 10.0.0.1: is the same host as entry b.example.com (10.0.0.1:22): remove one of them", "entry a.example.com: is the same host as entry b.example.com (10.0.0.1:22): remove one of them"},
		},
		{
			name:         "the one that was made first stays, whatever the keys",
			data:         map[string]string{"a.example.com": "username=a", "b.example.com": "username=a", "c.example.com": "username=a"},
			made:         map[string]time.Time{"a.example.com": early, "b.example.com": late},
			dns:          map[string][]string{"a.example.com": {"10.0.0.1"}, "b.example.com": {"10.0.0.1"}, "c.example.com": {"10.0.0.1"}},
			wantKeys:     []string{"a.example.com"},
			wantProblems: []string{"entry b.example.com: is the same host as entry a.example.com (10.0.0.1:22): remove one of them", "entry c.example.com: is the same host as entry a.example.com (10.0.0.1:22): remove one of them"},
		},
		{
			name:         "one address in common is enough",
			data:         map[string]string{"a.example.com": "username=a", "b.example.com": "username=a"},
			dns:          map[string][]string{"a.example.com": {"10.0.0.1", "fd00::1"}, "b.example.com": {"10.0.0.9", "fd00::1"}},
			wantKeys:     []string{"a.example.com"},
			wantProblems: []string{"entry b.example.com: is the same host as entry a.example.com ([fd00::1]:22): remove one of them"},
		},
		{
			name:     "another port is another host",
			data:     map[string]string{"10.0.0.1": "username=a", "a.example.com": "username=a\nport=2222"},
			dns:      map[string][]string{"a.example.com": {"10.0.0.1"}},
			wantKeys: []string{"10.0.0.1", "a.example.com"},
		},
		{
			name:         "capitals make no other host",
			data:         map[string]string{"Host.example.com": "username=a", "host.example.com": "username=b"},
			wantKeys:     []string{"Host.example.com"},
			wantProblems: []string{"entry host.example.com: would have the same WindowsInstance host.example.com as entry Host.example.com"},
		},
		{
			name:         "two entries with one name",
			data:         map[string]string{"10.0.0.1": "username=a\nname=x", "10.0.0.2": "username=a\nname=x"},
			made:         map[string]time.Time{"10.0.0.2": early},
			wantKeys:     []string{"10.0.0.2"},
			wantProblems: []string{"entry 10.0.0.1: would have the same WindowsInstance x as entry 10.0.0.2"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entries, problems := Parse(tt.data, tt.made, table(tt.dns))
			var keys, lines []string
			for _, entry := range entries {
				keys = append(keys, entry.Key)
			}
			for _, problem := range problems {
				lines = append(lines, problem.String())
			}
			if diff := cmp.Diff(tt.wantKeys, keys); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantProblems, lines, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
