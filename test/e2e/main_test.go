// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

// Package e2e tests the whole system as its users meet it: through kubectl and
// client-go, against a real control plane, with hosts reached over real SSH.
package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// sys is the system that most tests share; each works in a namespace of its own.
var (
	sys *system.System
	// hostKey logs in to every host of the tests.
	hostSigner ssh.Signer
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

// testsAtOnce is how many tests run at the same time, unless -parallel says otherwise. They wait for hosts and for controllers
// much of the time, so the number of CPUs, which is the default, would leave those idle.
const testsAtOnce = "6"

// ownSystems has room for as many systems as tests may have for themselves at the same time. Each takes a GiB of memory and, on a slow machine
// and with four hosts, half a CPU even if nothing happens in it: with one for each test that runs, two CPUs do nothing else, and all of them take too long.
var ownSystems = make(chan struct{}, 4)

// frugal is the environment of the programs of systems that a test has for itself. There are several of them on a small machine: more
// memory for each takes less of the CPUs, and so does one thread at a time that runs Go code, by a third, as further ones look for
// work that there is not.
var frugal = []string{"GOGC=300", "GOMAXPROCS=1"}

// readOnly has a controller end, with what was changed, if it changes an object of its cache, which all that it does shares. Objects are
// compared for some minutes after they were read (k8s.io/client-go/tools/cache/mutation_detector.go).
const readOnly = "KUBE_CACHE_MUTATION_DETECTOR=true"

func runTests(m *testing.M) int {
	// Run reads the command line after this.
	if err := flag.Set("test.parallel", testsAtOnce); err != nil {
		fmt.Fprintln(os.Stderr, "setting how many tests run at once:", err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	key, signer, err := winhost.NewKey()
	if err == nil {
		hostSigner = signer
		sys, err = system.Start(ctx, system.Options{
			ControlPlane: controlplane.Options{Env: []string{"GOGC=300"}},
			PrivateKey:   key,
			MachineAPI:   true,
			RecordRights: true,
			// Hosts of the tests answer at once or never, and tests wait for the next look.
			ControllerArgs: []string{"--dial-timeout=4s", "--probe-timeout=40s", "--recheck-interval=30s", "--leader-elect=true"},
			ControllerEnv:  []string{readOnly},
			Logf:           func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the system:", err)
		return 1
	}
	code := m.Run()
	if err := checkRights(context.Background(), code); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "--- windows-apiserver\n%s\n", sys.Server.LogTail())
		if sys.Controller != nil {
			fmt.Fprintf(os.Stderr, "--- windows-controller\n%s\n", sys.Controller.LogTail())
		}
	}
	if err := sys.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the system:", err)
		return 1
	}
	return code
}

var namespaces atomic.Int64

// newNamespace makes a namespace that goes away with the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("e2e-%d", namespaces.Add(1))
	_, err := sys.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The context of the test is over by now.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		wantRefusedIn(sys, name)
		if err := sys.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting namespace %s: %v", name, err)
		}
	})
	return name
}

// result is what a kubectl call did.
type result struct {
	stdout, stderr string
	err            error
}

// kubectl runs kubectl with all rights.
func kubectl(t *testing.T, args ...string) result {
	t.Helper()
	return kubectlAs(t, sys.KubeconfigPath(), "", args...)
}

// kubectlIn runs kubectl with all rights and stdin as its standard input.
func kubectlIn(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return kubectlAs(t, sys.KubeconfigPath(), stdin, args...)
}

func kubectlAs(t *testing.T, kubeconfig, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := sys.KubectlCommand(ctx, kubeconfig, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	return result{stdout.String(), stderr.String(), err}
}

// ok fails the test when the call failed, and returns what it printed.
func (r result) ok(t *testing.T) string {
	t.Helper()
	if r.err != nil {
		t.Fatalf("kubectl failed: %v\n%s%s", r.err, r.stdout, r.stderr)
	}
	return r.stdout
}

// fails fails the test when the call did not fail, or did not say all of want.
func (r result) fails(t *testing.T, want ...string) {
	t.Helper()
	if r.err == nil {
		t.Fatalf("kubectl did not fail; it printed\n%s", r.stdout)
	}
	for _, w := range want {
		if !strings.Contains(r.stderr+r.stdout, w) {
			t.Errorf("kubectl does not say %q, but\n%s%s", w, r.stdout, r.stderr)
		}
	}
}

// startHost starts a stand-in that lets us in.
func startHost(t *testing.T, o winhost.Options) winhost.Host {
	t.Helper()
	o.AuthorizedKeys = append(o.AuthorizedKeys, hostSigner.PublicKey())
	host, err := winhost.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("starting a host: %v", err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Errorf("closing the host: %v", err)
		}
	})
	return host
}

// instanceYAML is a hand-made instance for a host.
func instanceYAML(namespace, name string, host winhost.Host) string {
	return fmt.Sprintf(`apiVersion: windows.openshift.io/v1alpha1
kind: WindowsInstance
metadata: {name: %s, namespace: %s}
spec: {address: %q, port: %d, username: %q}
`, name, namespace, host.Address(), host.Port(), host.User())
}

// writeLog appends to a log file of the host, named relative to C:\var\log.
func writeLog(t *testing.T, host winhost.Host, name, content string) {
	t.Helper()
	path := filepath.Join(host.LogDir(), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// subresource is the raw path of a subresource of an instance.
func subresource(namespace, name, sub, query string) string {
	path := fmt.Sprintf("/apis/windows.openshift.io/v1alpha1/namespaces/%s/windowsinstances/%s/%s", namespace, name, sub)
	if query != "" {
		path += "?" + query
	}
	return path
}

// marshalKey is a public key as a known_hosts file has it, without the host.
func marshalKey(key ssh.PublicKey) []byte { return ssh.MarshalAuthorizedKey(key) }
