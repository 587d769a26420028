// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestUpgradeSmuggling is CVE-2018-1002105: after an upgrade that failed, the
// connection of the client must not lead to the aggregated server any more, where it
// would be trusted as kube-apiserver's own.
func TestUpgradeSmuggling(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	kubectlIn(t, fmt.Sprintf(pausedInstance, "w", "127.0.3.6", "p"), "create", "-n", ns, "-f", "-").ok(t)
	user := "smuggler-" + ns
	reader := bind(t, user, "windows-log-reader", ns)
	bad := subresource(ns, "w", "log", "tailLines=-1")
	eventually(t, "the role is in force", func() error {
		if r := kubectlAs(t, reader, "", "get", "--raw", bad); !strings.Contains(r.stderr, "tailLines") {
			return fmt.Errorf("got %s", r.stderr)
		}
		return nil
	})
	config, err := sys.UserConfig(user, "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"websocket", "SPDY/3.1"} {
		t.Run(protocol, func(t *testing.T) {
			conn, err := (&tls.Dialer{Config: tlsConfig}).DialContext(t.Context(), "tcp", server.Host)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			from := bufio.NewReader(conn)
			first := upgradeRequest(t, http.MethodGet, config.Host+bad)
			first.Header.Set("Upgrade", protocol)
			if err := first.Write(conn); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(from, first)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || response.Body.Close() != nil {
				t.Fatal(err)
			}
			// It did reach windows-apiserver, which refused it.
			if response.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(body), "tailLines") {
				t.Fatalf("the upgrade: got %s: %s", response.Status, body)
			}
			second, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/apis/windows.openshift.io/v1alpha1/windowsinstances", nil)
			if err != nil {
				t.Fatal(err)
			}
			second.Header.Set("X-Remote-User", "system:admin")
			second.Header.Set("X-Remote-Group", "system:masters")
			if err := second.Write(conn); err != nil {
				return // closed: nothing can be sent after the first
			}
			response, err = http.ReadResponse(from, second)
			if err != nil {
				return // closed
			}
			defer response.Body.Close()
			if body, err = io.ReadAll(response.Body); err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != http.StatusForbidden || !strings.Contains(string(body), user) {
				t.Errorf("smuggled: got %s: %s", response.Status, body)
			}
		})
	}
}

// rogueGroup is the group of an aggregated server that means harm.
const rogueGroup = "rogue.example.com"

// startRogue starts an aggregated server that answers requests below /redirect with a
// redirect to where, and those below /switch with 101 although nobody asked.
func startRogue(t *testing.T, where string) {
	t.Helper()
	const namespace, service, port = "rogue", "rogue", 8448
	pair, err := sys.ServingCert(service, namespace)
	if err != nil {
		t.Fatal(err)
	}
	ip := sys.ServiceIP(60)
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), fmt.Sprint(port)))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/redirect"):
			http.Redirect(w, r, where, http.StatusTemporaryRedirect)
		case strings.Contains(r.URL.Path, "/switch"):
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nthe client speaks to me now")
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/v1","resources":[]}`, rogueGroup)
		}
	})}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, pair.CertFile, pair.KeyFile) }()
	t.Cleanup(func() {
		// A group that nobody serves would keep namespaces from being deleted.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		client, err := dynamic.NewForConfig(sys.AdminConfig())
		if err == nil {
			err = client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}).Delete(ctx, "v1."+rogueGroup, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Errorf("deleting the APIService: %v", err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	if err := sys.EnsureNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if err := sys.RegisterAPIService(t.Context(), controlplane.APIService{Group: rogueGroup, Version: "v1", Namespace: namespace, Service: service, IP: ip, Port: port}); err != nil {
		t.Fatal(err)
	}
}

// TestRogueAggregatedServer is CVE-2022-3172 and CVE-2020-8559: what an aggregated
// server could do to clients of kube-apiserver by redirecting them, or by answering
// that the protocol is switched. It shows that the kube-apiserver that we are tested
// with refuses both, so that nothing of ours has to rely on either.
func TestRogueAggregatedServer(t *testing.T) {
	t.Parallel()
	var visited atomic.Bool
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	trap := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited.Store(true) })}
	done := make(chan error, 1)
	go func() { done <- trap.Serve(listener) }()
	t.Cleanup(func() {
		if err := trap.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	startRogue(t, "http://"+listener.Addr().String()+"/")
	config := sys.AdminConfig()
	config.NextProtos = []string{"http/1.1"}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/redirect", "/switch"} {
		for _, upgrade := range []bool{false, true} {
			if path == "/switch" && upgrade {
				continue // it is what was asked for
			}
			t.Run(fmt.Sprintf("%s upgrade=%v", path, upgrade), func(t *testing.T) {
				request := upgradeRequest(t, http.MethodGet, config.Host+"/apis/"+rogueGroup+"/v1"+path)
				if !upgrade {
					request.Header = http.Header{}
				}
				response, err := transport.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
				if err != nil {
					t.Fatal(err)
				}
				if code := response.StatusCode; code == http.StatusSwitchingProtocols || code/100 == 3 || response.Header.Get("Location") != "" || strings.Contains(string(body), "speaks to me") {
					t.Errorf("got %s, Location %q: %s", response.Status, response.Header.Get("Location"), body)
				}
			})
		}
	}
	if visited.Load() {
		t.Error("a redirect was followed")
	}
}

// TestOurServerNeverRedirects is the other side of CVE-2022-3172: it answers no request
// with a redirect, and none that did not ask for it with a switch of protocols, whatever
// is wrong with its path.
func TestOurServerNeverRedirects(t *testing.T) {
	t.Parallel()
	front := frontProxy(t)
	const group = "/apis/windows.openshift.io/v1alpha1"
	instances := group + "/namespaces/nothing-here/windowsinstances"
	paths := []string{
		"/", "//", "/apis", "/apis/", "//apis", "/apis//windows.openshift.io", "/apis/windows.openshift.io/", group, group + "/", group + "//",
		instances, instances + "/", instances + "//w", instances + "/w/", instances + "/w//log", instances + "/w/log/", instances + "/w/exec", instances + "/w/exec/", instances + "/w/portforward/3389",
		instances + "/..", instances + "/../../x", instances + "/w/../../../secrets", instances + "/%2e%2e/x", instances + "/w/log/../status", instances + "/w?query=http://example.com", "//example.com/apis", "/\\example.com",
		"/openapi/v2", "/openapi/v2/", "/openapi/v3", "/openapi/v3/", "/openapi//v3", "/version", "/version/", "/metrics", "/metrics/", "/healthz", "/healthz/", "/livez/", "/readyz/", "/readyz/ping/",
		"/debug/pprof", "/debug/pprof/", "/swagger-ui", "/swagger-2.0.0.json", "/index.html", "/api", "/api/", "/api/v1",
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, "PROPFIND"} {
		for _, path := range paths {
			request, err := http.NewRequestWithContext(t.Context(), method, sys.ServerURL+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			// As it is, without cleaning it.
			request.URL.Opaque = "//" + request.URL.Host + path
			request.Header.Set("X-Remote-User", "system:admin")
			request.Header.Set("X-Remote-Group", "system:masters")
			response, err := front.RoundTrip(request)
			if err != nil {
				continue // CONNECT and the like: HTTP/2 takes no such path
			}
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
			code, location := response.StatusCode, response.Header.Get("Location")
			// Handlers of the library redirect to themselves with a slash. kube-apiserver
			// sends nothing there: it has the group below /apis from us, and nothing else.
			if path == "/debug/pprof" && location == path+"/" {
				continue
			}
			if code == http.StatusSwitchingProtocols || code/100 == 3 || location != "" {
				t.Errorf("%s %s: %s, Location %q", method, path, response.Status, location)
			}
		}
	}
}

// TestLogQueryIsNoCommand is CVE-2024-9042, where a log query of the kubelet became
// part of a command line of PowerShell: nothing of ours does. The commands that a host
// was given are the same whatever was asked for.
func TestLogQueryIsNoCommand(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	host := startHost(t, winhost.Options{})
	writeLog(t, host, "kubelet/kubelet.log", "I0102 03:04:05.000006 1 kubelet.go:1] hello\n")
	kubectlIn(t, instanceYAML(ns, "w", host), "create", "-f", "-").ok(t)
	waitFor(t, ns, "w", preflightPassed)
	kubectl(t, "get", "--raw", subresource(ns, "w", "log", "query=kubelet")).ok(t)
	usual := host.Commands()
	for _, value := range []string{
		"kubelet; calc.exe", "kubelet & calc.exe", "kubelet | calc.exe", "$(calc.exe)", "`calc.exe`", "kubelet\ncalc.exe", "kubelet\r\ncalc.exe",
		`kubelet" & calc.exe & "`, "kubelet' ; calc.exe ; '", "%COMSPEC%", "${env:COMSPEC}", "^& calc.exe", "--help", "-EncodedCommand YwBhAGwAYwA=", "\x00calc.exe", "{calc.exe}", "@(calc.exe)",
	} {
		for _, parameter := range []string{"query", "pattern", "unit", "grep", "boot", "cursor", "sinceTime", "since", "until", "output"} {
			values := url.Values{parameter: {value}}
			if parameter != "query" && parameter != "unit" {
				values.Set("query", "kubelet")
			}
			// Some are found to be nothing, others are refused: neither matters here.
			_ = kubectlRaw(t, subresource(ns, "w", "log", values.Encode()))
		}
	}
	for _, command := range host.Commands() {
		if strings.Contains(command, "calc.exe") || strings.Contains(command, "COMSPEC") {
			t.Errorf("the host was given the command %q", command)
		}
		if !slices.Contains(usual, command) {
			t.Errorf("the host was given the command %q, which is not one of %q", command, usual)
		}
	}
}

// kubectlRaw gets a path as kubectl get --raw does, and returns what came.
func kubectlRaw(t *testing.T, path string) string {
	t.Helper()
	body, err := sys.Windows.WindowsV1alpha1().RESTClient().Get().RequestURI(path).DoRaw(t.Context())
	if err != nil {
		return err.Error()
	}
	return string(body)
}
