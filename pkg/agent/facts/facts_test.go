// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package facts

import "testing"

func TestWithoutUserinfo(t *testing.T) {
	tests := []struct{ name, address, want string }{
		{name: "nothing to hide", address: "http://proxy.example.com:3128", want: "http://proxy.example.com:3128"},
		{name: "user and password", address: "http://user:secret@proxy.example.com:3128", want: "http://xxxxx@proxy.example.com:3128"},
		{name: "at sign in the password", address: "http://user:sec@ret@proxy:3128/", want: "http://xxxxx@proxy:3128/"},
		{name: "no scheme", address: "user:secret@proxy:3128", want: "xxxxx@proxy:3128"},
		{name: "not an address", address: "http://us er:sec/ret@proxy", want: "http://xxxxx@proxy"},
		{name: "list of hosts", address: ".cluster.local,10.0.0.0/16", want: ".cluster.local,10.0.0.0/16"},
		{name: "empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := WithoutUserinfo(tt.address); got != tt.want {
				t.Errorf("WithoutUserinfo(%q) = %q, want %q", tt.address, got, tt.want)
			}
		})
	}
}

func TestIsProxyVariable(t *testing.T) {
	for name, want := range map[string]bool{
		"HTTP_PROXY": true, "https_proxy": true, "No_Proxy": true, "ALL_PROXY": true, "PATH": false, "HTTP_PROXY_PASSWORD": false,
	} {
		if got := IsProxyVariable(name); got != want {
			t.Errorf("IsProxyVariable(%q) = %v, want %v", name, got, want)
		}
	}
}
