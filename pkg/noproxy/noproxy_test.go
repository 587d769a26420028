// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package noproxy

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// urls is the variable by which TestExempt says to its children for which URLs they are to say the proxy.
const urls = "NOPROXY_TEST_URLS"

// TestProxies is a child of TestExempt: what the environment says is read once in a process.
func TestProxies(t *testing.T) {
	if os.Getenv(urls) == "" {
		t.Skip("it is for a child of TestExempt")
	}
	Exempt()
	for url := range strings.FieldsSeq(os.Getenv(urls)) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := http.ProxyFromEnvironment(request)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s by %v\n", url, proxy)
	}
}

// TestExempt: in a cluster, its API server and Services are reached without the proxy of the environment, and all else as that says.
func TestExempt(t *testing.T) {
	t.Parallel()
	const proxy = "http://proxy.example.com:3128"
	services := []string{"https://etcd.other.svc:2379", "https://etcd.other.svc.cluster.local:2379"}
	for _, tt := range []struct {
		name        string
		environment []string
		direct      []string
		proxied     []string
	}{
		{
			name: "in a cluster", environment: []string{"KUBERNETES_SERVICE_HOST=172.30.0.1", "HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy},
			direct: append(services, "https://172.30.0.1:443"), proxied: []string{"https://packages.example.net/kubelet.exe", "http://172.30.0.2"},
		},
		{
			name: "with IPv6", environment: []string{"KUBERNETES_SERVICE_HOST=fd02::1", "HTTPS_PROXY=" + proxy},
			direct: append(services, "https://[fd02::1]:443"), proxied: []string{"https://packages.example.net"},
		},
		{
			name: "with exceptions", environment: []string{"KUBERNETES_SERVICE_HOST=172.30.0.1", "HTTPS_PROXY=" + proxy, "NO_PROXY=.example.org,192.0.2.0/24"},
			direct: append(services, "https://172.30.0.1:443", "https://packages.example.org", "https://192.0.2.7"), proxied: []string{"https://packages.example.net"},
		},
		{
			name: "in lower case", environment: []string{"KUBERNETES_SERVICE_HOST=172.30.0.1", "https_proxy=" + proxy, "no_proxy=.example.org"},
			direct: append(services, "https://172.30.0.1:443", "https://packages.example.org"), proxied: []string{"https://packages.example.net"},
		},
		{
			name: "outside of a cluster", environment: []string{"HTTPS_PROXY=" + proxy, "NO_PROXY=.example.org"},
			direct: []string{"https://packages.example.org"}, proxied: []string{"https://172.30.0.1:443", services[0]},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxies$")
			child.Env = append(slices.Clone(tt.environment), urls+"="+strings.Join(slices.Concat(tt.direct, tt.proxied), " "))
			out, err := child.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, url := range tt.direct {
				if want := url + " by <nil>\n"; !strings.Contains(string(out), want) {
					t.Errorf("there is no %q in\n%s", want, out)
				}
			}
			for _, url := range tt.proxied {
				if want := url + " by " + proxy + "\n"; !strings.Contains(string(out), want) {
					t.Errorf("there is no %q in\n%s", want, out)
				}
			}
		})
	}
}
