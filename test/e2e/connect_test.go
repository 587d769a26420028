// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/fault"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// chain are the conditions on the way to a host, in the order in which they are found out.
var chain = []string{
	v1alpha1.ConditionResolved,
	v1alpha1.ConditionReachable,
	v1alpha1.ConditionHostKeyTrusted,
	v1alpha1.ConditionAuthenticated,
	v1alpha1.ConditionPreflightPassed,
}

// verdict is what a condition says, its message aside.
type verdict struct {
	condition string
	status    metav1.ConditionStatus
	reason    string
}

var (
	preflightPassed = verdict{v1alpha1.ConditionPreflightPassed, metav1.ConditionTrue, v1alpha1.ReasonPreflightPassed}
	loggedIn        = verdict{v1alpha1.ConditionAuthenticated, metav1.ConditionTrue, v1alpha1.ReasonLoggedIn}
	keyChanged      = verdict{v1alpha1.ConditionHostKeyTrusted, metav1.ConditionFalse, v1alpha1.ReasonHostKeyChanged}
	anotherHost     = verdict{v1alpha1.ConditionHostKeyTrusted, metav1.ConditionFalse, v1alpha1.ReasonAnotherHost}
	keyPinned       = verdict{v1alpha1.ConditionHostKeyTrusted, metav1.ConditionTrue, v1alpha1.ReasonPinned}
	keyFirstUse     = verdict{v1alpha1.ConditionHostKeyTrusted, metav1.ConditionTrue, v1alpha1.ReasonFirstUse}
)

func reachable(reason string) verdict {
	return verdict{v1alpha1.ConditionReachable, metav1.ConditionFalse, reason}
}

func authenticated(reason string) verdict {
	return verdict{v1alpha1.ConditionAuthenticated, metav1.ConditionFalse, reason}
}

func resolved(reason string) verdict {
	return verdict{v1alpha1.ConditionResolved, metav1.ConditionFalse, reason}
}

// notInspected is for a host that could be logged in to, and then not looked at.
func notInspected(reason string) verdict {
	return verdict{v1alpha1.ConditionPreflightPassed, metav1.ConditionUnknown, reason}
}

// among says in which way conditions do not have the verdict.
func (v verdict) among(conditions []metav1.Condition) error {
	c := meta.FindStatusCondition(conditions, v.condition)
	if c == nil {
		return fmt.Errorf("there is no condition %s, want %s", v.condition, v.reason)
	}
	if c.Status != v.status || c.Reason != v.reason {
		return fmt.Errorf("condition %s is %s (%s): %s\nwant %s (%s)", v.condition, c.Status, c.Reason, c.Message, v.status, v.reason)
	}
	return nil
}

// waitForInstance waits until an instance satisfies condition, and returns it.
func waitForInstance(t *testing.T, namespace, name, what string, condition func(*v1alpha1.WindowsInstance) error) *v1alpha1.WindowsInstance {
	t.Helper()
	return waitInstance(t, sys.Windows.WindowsV1alpha1().WindowsInstances(namespace), name, fmt.Sprintf("instance %s: %s", name, what), condition)
}

// waitFor waits until an instance has all of the verdicts, and returns it.
func waitFor(t *testing.T, namespace, name string, want ...verdict) *v1alpha1.WindowsInstance {
	t.Helper()
	return waitForInstance(t, namespace, name, "conditions", func(instance *v1alpha1.WindowsInstance) error {
		for _, v := range want {
			if err := v.among(instance.Status.Conditions); err != nil {
				return err
			}
		}
		return nil
	})
}

// messageOf returns what a condition of the instance says.
func messageOf(t *testing.T, instance *v1alpha1.WindowsInstance, condition string) string {
	t.Helper()
	c := meta.FindStatusCondition(instance.Status.Conditions, condition)
	if c == nil {
		t.Fatalf("instance %s has no condition %s", instance.Name, condition)
	}
	return c.Message
}

// mustSay checks that text has all of want.
func mustSay(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in\n%s", w, text)
		}
	}
}

// mustReport waits until an instance has a problem, and checks that everybody who
// looks at it is told: the message says what to do, the conditions after it are not
// guessed, kubectl get names the reason and kubectl describe has the event.
func mustReport(t *testing.T, namespace, name string, problem verdict, advice ...string) *v1alpha1.WindowsInstance {
	t.Helper()
	instance := waitFor(t, namespace, name, problem)
	mustSay(t, messageOf(t, instance, problem.condition), advice...)
	at := slices.Index(chain, problem.condition)
	for i, condition := range chain {
		want := metav1.ConditionTrue
		switch {
		case i == at:
			continue
		case i > at:
			want = metav1.ConditionUnknown
		}
		c := meta.FindStatusCondition(instance.Status.Conditions, condition)
		if c == nil || c.Status != want {
			t.Errorf("with %s: condition %s is %+v, want status %s", problem.reason, condition, c, want)
		}
	}
	eventually(t, "kubectl get has the problem", func() error { // the last probe may have ended otherwise
		return mustHave(kubectl(t, "get", "wi", name, "-n", namespace, "--no-headers").ok(t), "False ("+problem.reason+")")
	})
	eventually(t, "kubectl describe has the event", func() error {
		described := kubectl(t, "describe", "wi", name, "-n", namespace).ok(t)
		_, events, _ := strings.Cut(described, "\nEvents:")
		for line := range strings.Lines(events) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == corev1.EventTypeWarning && fields[1] == problem.reason {
				return nil
			}
		}
		return fmt.Errorf("no warning %s in\n%s", problem.reason, described)
	})
	return instance
}

// createInstance makes an instance by hand; spec holds what the host does not say, as
// YAML in flow style that begins with a comma, for example ", paused: true".
func createInstance(t *testing.T, namespace, name string, host winhost.Host, spec string) {
	t.Helper()
	yaml := strings.TrimSpace(instanceYAML(namespace, name, host))
	yaml = strings.TrimSuffix(yaml, "}") + spec + "}\n"
	kubectlIn(t, yaml, "create", "-f", "-").ok(t)
}

func setFault(t *testing.T, host winhost.Host, f winhost.Fault) {
	t.Helper()
	if err := host.SetFault(f); err != nil {
		t.Fatalf("making host %s fail: %v", host.Name(), err)
	}
}

// reimage gives a host another key, as a new installation would.
func reimage(t *testing.T, host winhost.Host) {
	t.Helper()
	if err := host.RotateHostKey(); err != nil {
		t.Fatalf("replacing the host key: %v", err)
	}
	reboot(t, host)
}

func reboot(t *testing.T, host winhost.Host) {
	t.Helper()
	if err := host.Reboot(); err != nil {
		t.Fatalf("rebooting %s: %v", host.Name(), err)
	}
}

// TestConnectFaults breaks hosts in every way that a host of the in-process tier can
// be broken. All of them are broken at the same time, so that the controller waits
// for all of them at once.
func TestConnectFaults(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	const facts = `facts$`
	cases := []struct {
		name   string
		fault  winhost.Fault
		want   verdict
		advice []string
	}{
		{"port closed", winhost.Fault{RefuseTCP: true}, reachable(v1alpha1.ReasonConnectionRefused), []string{"start the OpenSSH server", "firewall"}},
		{"silence", winhost.Fault{HangAtAccept: true}, reachable(v1alpha1.ReasonHandshakeTimedOut), []string{"restart the service sshd"}},
		{"slow banner", winhost.Fault{SlowBanner: time.Minute}, reachable(v1alpha1.ReasonHandshakeTimedOut), []string{"restart the service sshd"}},
		{"cable pulled", winhost.Fault{Freeze: true}, reachable(v1alpha1.ReasonHandshakeTimedOut), []string{"restart the service sshd"}},
		{"web server", winhost.Fault{GarbageBanner: true}, reachable(v1alpha1.ReasonNotSSH), []string{"correct spec.port"}},
		{"reset at accept", winhost.Fault{ResetAt: fault.StageAccept}, reachable(v1alpha1.ReasonConnectionReset), []string{"log of sshd"}},
		{"reset at banner", winhost.Fault{ResetAt: fault.StageBanner}, reachable(v1alpha1.ReasonConnectionReset), []string{"log of sshd"}},
		{"reset at key exchange", winhost.Fault{ResetAt: fault.StageKex}, reachable(v1alpha1.ReasonConnectionReset), []string{"log of sshd"}},
		{"hangs at banner", winhost.Fault{HangAt: fault.StageBanner}, reachable(v1alpha1.ReasonHandshakeTimedOut), []string{"restart the service sshd"}},
		{"hangs at key exchange", winhost.Fault{HangAt: fault.StageKex}, reachable(v1alpha1.ReasonHandshakeTimedOut), []string{"restart the service sshd"}},
		{"reset at login", winhost.Fault{ResetAt: fault.StageAuth}, authenticated(v1alpha1.ReasonConnectionLost), []string{"tried again"}},
		{"hangs at login", winhost.Fault{HangAt: fault.StageAuth}, authenticated(v1alpha1.ReasonAuthenticationTimedOut), []string{"overloaded"}},
		{"credentials refused", winhost.Fault{DenyAuth: true}, authenticated(v1alpha1.ReasonCredentialsRefused), []string{"administrators_authorized_keys", "spec.username"}},
		{"reset at session", winhost.Fault{ResetAt: fault.StageSession}, authenticated(v1alpha1.ReasonConnectionLost), []string{"tried again"}},
		{"hangs at session", winhost.Fault{HangAt: fault.StageSession}, authenticated(v1alpha1.ReasonAuthenticationTimedOut), []string{"overloaded"}},
		{"sessions refused", winhost.Fault{RefuseSessions: true}, authenticated(v1alpha1.ReasonSessionRefused), []string{"MaxSessions"}},
		{"reset at command", winhost.Fault{ResetAt: fault.StageExec}, notInspected(v1alpha1.ReasonAgentNotInstalled), []string{"security software"}},
		{"hangs at command", winhost.Fault{HangAt: fault.StageExec}, notInspected(v1alpha1.ReasonAgentNotInstalled), []string{"security software"}},
		{"disk full", winhost.Fault{DiskFull: true}, notInspected(v1alpha1.ReasonAgentNotInstalled), []string{"is the disk full?"}},
		{"files read-only", winhost.Fault{SFTPReadOnly: true}, notInspected(v1alpha1.ReasonAgentNotInstalled), []string{"needs to be able to write to C:\\"}},
		{"agent blocked", winhost.Fault{ExecExit: 5}, notInspected(v1alpha1.ReasonAgentNotInstalled), []string{"security software"}},
		{"agent fails", winhost.Fault{ExecExit: 3, ExecMatch: facts}, notInspected(v1alpha1.ReasonAgentFailed), []string{"3"}},
		{"agent hangs", winhost.Fault{ExecHang: true, ExecMatch: facts}, notInspected(v1alpha1.ReasonAgentFailed), []string{"did not answer in time"}},
	}
	hosts := make([]winhost.Host, len(cases))
	names := make([]string, len(cases))
	for i, tc := range cases {
		names[i] = strings.ReplaceAll(tc.name, " ", "-")
		hosts[i] = startHost(t, winhost.Options{})
		setFault(t, hosts[i], tc.fault)
		createInstance(t, ns, names[i], hosts[i], "")
	}
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			mustReport(t, ns, names[i], tc.want, tc.advice...)
			if tc.want.condition != v1alpha1.ConditionPreflightPassed {
				if got := hosts[i].Commands(); len(got) > 0 {
					t.Errorf("commands were run on a host that nobody logged in to: %q", got)
				}
			}
		})
	}
	for _, host := range hosts {
		setFault(t, host, winhost.Fault{})
	}
	for i, tc := range cases {
		t.Run("after "+tc.name, func(t *testing.T) {
			waitFor(t, ns, names[i], keyFirstUse, loggedIn, preflightPassed)
			eventually(t, "kubectl get has it", func() error { // the last probe may have ended otherwise
				return mustHave(kubectl(t, "get", "wi", names[i], "-n", ns, "--no-headers").ok(t), "Connected", "False (NoNode)")
			})
		})
	}
}

// TestConnectDespite has hosts that are odd, and work all the same.
func TestConnectDespite(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	cases := []struct {
		name    string
		options winhost.Options
		fault   winhost.Fault
	}{
		{"one session a connection", winhost.Options{}, winhost.Fault{MaxSessions: 1}},
		{"far away", winhost.Options{}, winhost.Fault{Latency: 50 * time.Millisecond}},
		{"slow to greet", winhost.Options{}, winhost.Fault{SlowBanner: time.Second}},
		{"PowerShell as shell", winhost.Options{InProcess: winhost.InProcessOptions{PowerShell: true}}, winhost.Fault{}},
	}
	for _, tc := range cases {
		host := startHost(t, tc.options)
		setFault(t, host, tc.fault)
		createInstance(t, ns, strings.ToLower(strings.ReplaceAll(tc.name, " ", "-")), host, "")
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			waitFor(t, ns, strings.ToLower(strings.ReplaceAll(tc.name, " ", "-")), loggedIn, preflightPassed)
		})
	}
}

// TestConnectAddresses has addresses behind which no host may or can be contacted.
func TestConnectAddresses(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	host := startHost(t, winhost.Options{})
	for _, tc := range []struct {
		name, address string
		want          verdict
		advice        []string
	}{
		{"unknown name", "no-such-host.invalid", resolved(v1alpha1.ReasonNameNotResolved), []string{"no-such-host.invalid", "DNS"}},
		{"metadata service of a cloud", "169.254.169.254", resolved(v1alpha1.ReasonAddressRefused), []string{"--allowed-host-cidrs"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := "w-" + strings.ToLower(tc.want.reason)
			kubectlIn(t, fmt.Sprintf("apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsInstance\nmetadata: {name: %s}\nspec: {address: %q, port: %d}\n",
				name, tc.address, host.Port()), "create", "-n", ns, "-f", "-").ok(t)
			mustReport(t, ns, name, tc.want, tc.advice...)
			patchInstance(t, ns, name, fmt.Sprintf(`{"spec":{"address":%q}}`, host.Address()))
			instance := waitFor(t, ns, name, loggedIn, preflightPassed)
			if !slices.Equal(instance.Status.Addresses, []string{host.Address()}) {
				t.Errorf("status.addresses is %q, want %q", instance.Status.Addresses, host.Address())
			}
			// The host is free for the next.
			kubectl(t, "delete", "wi", name, "-n", ns).ok(t)
		})
	}
}

// TestConnectClusterAddresses: what the cluster says of its own addresses keeps both programs from
// connecting there, for whoever creates an instance.
func TestConnectClusterAddresses(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	// The control plane of the tests does not publish its own, which is a loopback address.
	const endpoint = "192.0.2.77"
	published := sys.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	if _, err := published.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{endpoint}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := sys.ServiceIP(62).String()
	for name, tc := range map[string]struct{ address, port, kind string }{
		"service-443":  {service, "443", "a Service's"},
		"service-6443": {service, "6443", "a Service's"},
		"endpoint":     {endpoint, "22", "the API server's"},
	} {
		t.Run(name, func(t *testing.T) {
			connections := func() int { return 0 } // none can be made to what is not on this machine
			if tc.address == service {
				connections = countConnections(t, net.JoinHostPort(service, tc.port))
			}
			kubectlIn(t, fmt.Sprintf("apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsInstance\nmetadata: {name: %s}\nspec: {address: %q, port: %s, hostKeys: [%q]}\n",
				name, tc.address, tc.port, strings.TrimSpace(string(marshalKey(hosttest.NewKey(t).PublicKey())))), "create", "-n", ns, "-f", "-").ok(t)
			says := fmt.Sprintf("%s is %s address", tc.address, tc.kind)
			mustReport(t, ns, name, resolved(v1alpha1.ReasonAddressRefused), says, "--allowed-host-cidrs")
			if stdout, stderr, code := plugin(t, sys, "check", "-n", ns, name); code == 0 || !strings.Contains(stdout, says) {
				t.Errorf("a check ends with %d: %s %s", code, stdout, stderr)
			}
			if n := connections(); n > 0 {
				t.Errorf("it had %d connections", n)
			}
		})
	}
}

// countConnections listens at an address. The returned function ends that, and says how many
// connections there were.
func countConnections(t *testing.T, address string) func() int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	connections := make(chan int, 1)
	go func() {
		n := 0
		for ; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			_ = conn.Close()
		}
		connections <- n
	}()
	return func() int {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		return <-connections
	}
}

func patchInstance(t *testing.T, namespace, name, patch string) {
	t.Helper()
	kubectl(t, "patch", "wi", name, "-n", namespace, "--type=merge", "-p", patch).ok(t)
}

// TestConnectTiers takes a host of each tier from a wrong key through its first login
// to a new installation with another host key.
func TestConnectTiers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tier string
		// fit is what preflight says: only one of the tiers is a Windows that can be a node.
		fit     metav1.ConditionStatus
		product string
	}{
		{winhost.TierInProcess, metav1.ConditionTrue, "Windows Server 2022"},
		{winhost.TierOpenSSH, metav1.ConditionFalse, ""},
		{winhost.TierWine, "", "Windows"},
	} {
		t.Run(tc.tier, func(t *testing.T) {
			hosttest.Require(t, tc.tier)
			ns := newNamespace(t)
			host := startHost(t, winhost.Options{Tier: tc.tier})
			if err := host.SetAuthorizedKeys(newSigner(t).PublicKey()); err != nil {
				t.Fatal(err)
			}
			createInstance(t, ns, "w", host, "")
			mustReport(t, ns, "w", authenticated(v1alpha1.ReasonCredentialsRefused), "administrators_authorized_keys")
			if got := host.Commands(); len(got) > 0 {
				t.Errorf("commands were run on a host that let nobody in: %q", got)
			}

			if err := host.SetAuthorizedKeys(hostSigner.PublicKey()); err != nil {
				t.Fatal(err)
			}
			instance := waitForInstance(t, ns, "w", "facts", func(instance *v1alpha1.WindowsInstance) error {
				if instance.Status.System == nil {
					return fmt.Errorf("there are no facts: %+v", instance.Status.Conditions)
				}
				return loggedIn.among(instance.Status.Conditions)
			})
			if got := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionPreflightPassed); tc.fit != "" && got.Status != tc.fit {
				t.Errorf("PreflightPassed is %s, want %s: %s", got.Status, tc.fit, got.Message)
			}
			system := instance.Status.System
			if !strings.Contains(system.Product, tc.product) || !strings.EqualFold(system.Hostname, host.Name()) || system.BootTime == nil {
				t.Errorf("the facts are %+v; want a %s called %s", system, tc.product, host.Name())
			}
			wantKey := fmt.Sprintf("%s %s", host.HostKey().Type(), ssh.FingerprintSHA256(host.HostKey()))
			if keys := instance.Status.HostKeys; len(keys) != 1 || keys[0].Type+" "+keys[0].Fingerprint != wantKey || keys[0].TrustedBy != v1alpha1.TrustedOnFirstUse {
				t.Errorf("status.hostKeys is %+v, want %s", keys, wantKey)
			}

			changedHostKey(t, ns, "w", host)
		})
	}
}

// changedHostKey gives a host that is well another key, checks that nothing is done
// on it from then on, and accepts the key with the command that the message has.
func changedHostKey(t *testing.T, namespace, name string, host winhost.Host) {
	t.Helper()
	oldKey := ssh.FingerprintSHA256(host.HostKey())
	reimage(t, host)
	before := len(host.Commands())
	instance := mustReport(t, namespace, name, keyChanged, oldKey, ssh.FingerprintSHA256(host.HostKey()), "status.hostKeys", "console of the host")
	message := messageOf(t, instance, keyChanged.condition)
	_, command, ok := strings.Cut(message, "accept it: ")
	if !ok {
		t.Fatalf("there is no command in %q", message)
	}
	if got := len(host.Commands()); got != before {
		t.Errorf("%d commands were run on a host whose key is not trusted: %q", got-before, host.Commands()[before:])
	}
	if keys := instance.Status.HostKeys; len(keys) != 1 || keys[0].Fingerprint != oldKey {
		t.Errorf("status.hostKeys became %+v without anybody's word", keys)
	}
	mustSay(t, kubectl(t, "get", "--raw", subresource(namespace, name, "status", "")).ok(t), v1alpha1.ReasonHostKeyChanged)

	// As somebody would paste it into a shell.
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	shell.Env = []string{"PATH=" + filepath.Dir(sys.KubectlPath()) + ":/usr/bin:/bin", "KUBECONFIG=" + sys.KubeconfigPath(), "HOME=" + t.TempDir()}
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	waitFor(t, namespace, name, keyPinned, loggedIn)
	eventually(t, "the host is looked at again", func() error {
		if len(host.Commands()) == before {
			return fmt.Errorf("no command was run since")
		}
		return nil
	})
}

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// keyLine is a key as spec.hostKeys takes it.
func keyLine(key ssh.PublicKey) string { return strings.TrimSpace(string(marshalKey(key))) }

// TestConnectPinnedHostKeys pins keys ahead of the first contact.
func TestConnectPinnedHostKeys(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	stranger := newSigner(t).PublicKey()
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	otherType, err := ssh.NewPublicKey(ecdsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		pinned func(host ssh.PublicKey) []ssh.PublicKey
		want   verdict
		says   func(host ssh.PublicKey) []string
	}{
		{"right", func(host ssh.PublicKey) []ssh.PublicKey { return []ssh.PublicKey{host} }, keyPinned,
			func(host ssh.PublicKey) []string { return []string{ssh.FingerprintSHA256(host)} }},
		{"one-of-two", func(host ssh.PublicKey) []ssh.PublicKey { return []ssh.PublicKey{stranger, host} }, keyPinned,
			func(host ssh.PublicKey) []string { return []string{ssh.FingerprintSHA256(host)} }},
		{"wrong", func(ssh.PublicKey) []ssh.PublicKey { return []ssh.PublicKey{stranger} }, keyChanged,
			func(host ssh.PublicKey) []string {
				return []string{ssh.FingerprintSHA256(host), ssh.FingerprintSHA256(stranger), "spec.hostKeys", keyLine(host)}
			}},
		{"wrong-type", func(ssh.PublicKey) []ssh.PublicKey { return []ssh.PublicKey{otherType} }, keyChanged,
			func(ssh.PublicKey) []string { return []string{ssh.FingerprintSHA256(otherType), "spec.hostKeys"} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := startHost(t, winhost.Options{})
			var lines []string
			for _, key := range tc.pinned(host.HostKey()) {
				lines = append(lines, fmt.Sprintf("%q", keyLine(key)))
			}
			createInstance(t, ns, tc.name, host, ", hostKeys: ["+strings.Join(lines, ", ")+"]")
			if tc.want == keyChanged {
				mustReport(t, ns, tc.name, tc.want, tc.says(host.HostKey())...)
				if got := host.Commands(); len(got) > 0 {
					t.Errorf("commands were run on a host whose key is not trusted: %q", got)
				}
				patchInstance(t, ns, tc.name, fmt.Sprintf(`{"spec":{"hostKeys":[%q]}}`, keyLine(host.HostKey())))
				waitFor(t, ns, tc.name, keyPinned, preflightPassed)
				return
			}
			instance := waitFor(t, ns, tc.name, tc.want, preflightPassed)
			mustSay(t, messageOf(t, instance, tc.want.condition), tc.says(host.HostKey())...)
			for _, key := range instance.Status.HostKeys {
				if key.TrustedBy != v1alpha1.TrustedBySpec {
					t.Errorf("status.hostKeys has %+v, want one that is trusted by the spec", key)
				}
			}
		})
	}
}

// TestConnectFirstKeyIsRecordedFirst reads, again and again while a host is met for
// the first time, first what was run on the host and then what is stored: whenever
// something was run, the key of the host was stored before.
func TestConnectFirstKeyIsRecordedFirst(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	host := startHost(t, winhost.Options{})
	createInstance(t, ns, "w", host, "")
	eventually(t, "the host is looked at", func() error {
		commands := host.Commands()
		instance, err := sys.Windows.WindowsV1alpha1().WindowsInstances(ns).Get(t.Context(), "w", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(commands) > 0 && len(instance.Status.HostKeys) == 0 {
			t.Fatalf("%q was run before the host key was recorded", commands)
		}
		return preflightPassed.among(instance.Status.Conditions)
	})
}

// TestConnectCredentials takes a host from a Secret that nobody may read to a
// password that works.
func TestConnectCredentials(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	_, wrong := newPEM(t)
	right, rightPEM := newPEM(t)
	const password = "correct horse battery staple"
	host, err := winhost.Start(t.Context(), winhost.Options{AuthorizedKeys: []ssh.PublicKey{right.PublicKey()}, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Errorf("closing the host: %v", err)
		}
	})
	secrets := sys.Kube.CoreV1().Secrets(ns)
	wantSecretsRefused(sys, ns)
	createInstance(t, ns, "w", host, ", credentialsSecretRef: {name: login}")
	mustReport(t, ns, "w", authenticated(v1alpha1.ReasonCredentialsMissing), ns+"/login", "bind the ClusterRole windows-credentials-reader")

	lendCredentials(t, sys, ns)
	waitForMessage(t, ns, "w", authenticated(v1alpha1.ReasonCredentialsMissing), "create it with the key private-key.pem")

	secret, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login"}, Data: map[string][]byte{"private-key.pem": []byte("no PEM")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitForMessage(t, ns, "w", authenticated(v1alpha1.ReasonCredentialsMissing), "key private-key.pem: ")

	setData := func(data map[string][]byte) {
		t.Helper()
		secret.Data = data
		if secret, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	setData(map[string][]byte{"private-key.pem": wrong})
	mustReport(t, ns, "w", authenticated(v1alpha1.ReasonCredentialsRefused), "Secret")
	if got := host.Commands(); len(got) > 0 {
		t.Errorf("commands were run on a host that let nobody in: %q", got)
	}

	setData(map[string][]byte{"private-key.pem": rightPEM})
	instance := waitFor(t, ns, "w", loggedIn, preflightPassed)

	// The pool's Secret holds for an instance that names none.
	setData(map[string][]byte{"password": []byte(password)})
	kubectlIn(t, "apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: p}\nspec: {source: {instances: {}}, template: {credentialsSecretRef: {name: login}}}\n",
		"create", "-n", ns, "-f", "-").ok(t)
	if err := host.SetAuthorizedKeys(); err != nil {
		t.Fatal(err)
	}
	reboot(t, host)
	booted := instance.Status.System.BootTime
	patchInstance(t, ns, "w", `{"spec":{"credentialsSecretRef":null,"poolRef":{"name":"p"}}}`)
	waitForInstance(t, ns, "w", "logged in to with the password of the pool", func(instance *v1alpha1.WindowsInstance) error {
		if instance.Status.ObservedGeneration != instance.Generation {
			return fmt.Errorf("the status speaks of generation %d, the spec is %d (booted %s)", instance.Status.ObservedGeneration, instance.Generation, booted)
		}
		return preflightPassed.among(instance.Status.Conditions)
	})
}

// lendCredentials lets our programs use the credentials of a namespace, and keep those that are replaced.
func lendCredentials(t *testing.T, s *system.System, namespace string) {
	t.Helper()
	for role, accounts := range map[string][]string{
		"windows-credentials-keeper": {"windows-controller"},
		"windows-credentials-reader": {"windows-controller", "windows-apiserver"},
	} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		for _, account := range accounts {
			binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: system.Namespace})
		}
		if _, err := s.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitAllowed(t, s, "windows-apiserver", authorizationv1.ResourceAttributes{Namespace: namespace, Resource: "secrets", Verb: "get"})
	waitAllowed(t, s, "windows-controller", authorizationv1.ResourceAttributes{Namespace: namespace, Resource: "secrets", Verb: "get"})
	waitAllowed(t, s, "windows-controller", authorizationv1.ResourceAttributes{Namespace: namespace, Resource: "secrets", Name: "windows-keys-in-use", Verb: "patch"})
}

// waitAllowed waits until kube-apiserver lets one of our programs do something. It sees a binding a moment after that was made, and
// what it refuses before that fails the test in the end.
func waitAllowed(t *testing.T, s *system.System, account string, what authorizationv1.ResourceAttributes) {
	t.Helper()
	eventually(t, account+" may do what it is bound to", func() error {
		review, err := s.Kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + system.Namespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:authenticated"}, ResourceAttributes: &what,
		}}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("it may not %s %s in %s", what.Verb, what.Resource, what.Namespace)
		}
		return err
	})
}

// newPEM makes a key, and how it is stored.
func newPEM(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	pem, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem
}

// waitForMessage waits until an instance has a verdict with a message that says want.
func waitForMessage(t *testing.T, namespace, name string, v verdict, want string) {
	t.Helper()
	waitForInstance(t, namespace, name, want, func(instance *v1alpha1.WindowsInstance) error {
		if err := v.among(instance.Status.Conditions); err != nil {
			return err
		}
		if got := messageOf(t, instance, v.condition); !strings.Contains(got, want) {
			return fmt.Errorf("the message is %q", got)
		}
		return nil
	})
}

// TestConnectAfterOutage switches a host off that was well, and on again.
func TestConnectAfterOutage(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	host := startHost(t, winhost.Options{})
	createInstance(t, ns, "w", host, "")
	before := waitFor(t, ns, "w", preflightPassed)
	if err := host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	during := mustReport(t, ns, "w", reachable(v1alpha1.ReasonConnectionRefused))
	if during.Status.System == nil || during.Status.HostKeys == nil {
		t.Errorf("what was known of the host was forgotten: %+v", during.Status)
	}
	if err := host.PowerOn(); err != nil {
		t.Fatal(err)
	}
	after := waitFor(t, ns, "w", preflightPassed, keyFirstUse)
	if !slices.Equal(after.Status.HostKeys, before.Status.HostKeys) {
		t.Errorf("the recorded keys were %+v and are %+v", before.Status.HostKeys, after.Status.HostKeys)
	}
	eventually(t, "an event tells of the recovery", func() error {
		if described := kubectl(t, "describe", "wi", "w", "-n", ns).ok(t); !strings.Contains(described, "Recovered") {
			return fmt.Errorf("there is none in\n%s", described)
		}
		return nil
	})
}

// TestConnectTwoInstancesOfOneHost has two people claim the same host.
func TestConnectTwoInstancesOfOneHost(t *testing.T) {
	t.Parallel()
	first, second := newNamespace(t), newNamespace(t)
	host := startHost(t, winhost.Options{})
	createInstance(t, first, "w", host, "")
	waitFor(t, first, "w", preflightPassed)
	createInstance(t, second, "w", host, "")
	duplicate := mustReport(t, second, "w", resolved(v1alpha1.ReasonDuplicateHost), "already represents this host", "Delete this instance")
	if got := messageOf(t, duplicate, v1alpha1.ConditionResolved); strings.Contains(got, first) {
		t.Errorf("the message tells what is in another namespace: %s", got)
	}
	waitFor(t, first, "w", preflightPassed)
	kubectl(t, "delete", "wi", "w", "-n", first).ok(t)
	waitFor(t, second, "w", preflightPassed)
}
