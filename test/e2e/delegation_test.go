// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/kubelet"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// ours is a rule about our own resources.
func ours(verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"windows.openshift.io"}, Resources: resources, Verbs: verbs}
}

// TestCredentialsNeedTheirOwnRight is about the confused deputy: somebody may write
// instances and pools, and would have our programs log in to a host of his own with
// keys that he may not use.
func TestCredentialsNeedTheirOwnRight(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	user := "mallory-" + ns
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	mallory := grant(t, user, ns, ours(all, "windowsinstances", "windowsnodepools"))
	instance := func(name, spec string) string {
		return fmt.Sprintf("apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsInstance\nmetadata: {name: %s, namespace: %s}\nspec: {paused: true, %s}\n", name, ns, spec)
	}
	pool := func(name, template string) string {
		return fmt.Sprintf("apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: %s, namespace: %s}\nspec: {source: {instances: {}}, template: {%s}}\n", name, ns, template)
	}
	const own, other = "credentialsSecretRef: {name: own}", "credentialsSecretRef: {name: other}"
	// Made by somebody who may.
	kubectlIn(t, instance("there", "address: 127.0.3.1")+"---\n"+pool("with", other), "create", "-f", "-").ok(t)

	useKey := `use on windowscredentials.windows.openshift.io "cluster" in namespace "` + ns + `"`
	getOther := `get on secrets "other" in namespace "` + ns + `"`
	eventually(t, "the role is in force", func() error {
		if r := kubectlAs(t, mallory, "", "patch", "wi", "there", "-n", ns, "--type=merge", "-p", `{"spec":{"paused":true}}`); r.err != nil {
			return errors.New(r.stderr)
		}
		return nil
	})
	for _, tc := range []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"create", instance("w", "address: 127.0.3.2"), []string{"create", "-f", "-"}, useKey},
		{"apply", instance("w", "address: 127.0.3.2"), []string{"apply", "-f", "-"}, useKey},
		{"server-side apply", instance("w", "address: 127.0.3.2"), []string{"apply", "--server-side", "-f", "-"}, useKey},
		{"dry run", instance("w", "address: 127.0.3.2"), []string{"create", "--dry-run=server", "-f", "-"}, useKey},
		{"create with a Secret", instance("w", "address: 127.0.3.2, "+other), []string{"create", "-f", "-"}, getOther},
		{"server-side apply with a Secret", instance("w", "address: 127.0.3.2, "+other), []string{"apply", "--server-side", "-f", "-"}, getOther},
		{"create in a pool with a Secret", instance("w", "address: 127.0.3.2, poolRef: {name: with}"), []string{"create", "-f", "-"}, getOther},
		{"create in a pool that is not there", instance("w", "address: 127.0.3.2, poolRef: {name: later}"), []string{"create", "-f", "-"}, useKey},
		{"address", "", []string{"patch", "wi", "there", "-n", ns, "--type=merge", "-p", `{"spec":{"address":"127.0.3.9"}}`}, useKey},
		{"port", "", []string{"patch", "wi", "there", "-n", ns, "--type=json", "-p", `[{"op":"replace","path":"/spec/port","value":23}]`}, useKey},
		{"replace", instance("there", "address: 127.0.3.9"), []string{"replace", "-f", "-"}, useKey},
		{"username", "", []string{"patch", "wi", "there", "-n", ns, "--type=merge", "-p", `{"spec":{"username":"eve"}}`}, useKey},
		{"Secret", "", []string{"patch", "wi", "there", "-n", ns, "--type=merge", "-p", `{"spec":{"credentialsSecretRef":{"name":"other"}}}`}, getOther},
		{"pool", "", []string{"patch", "wi", "there", "-n", ns, "--type=merge", "-p", `{"spec":{"poolRef":{"name":"with"}}}`}, getOther},
		{"new pool", pool("p", ""), []string{"create", "-f", "-"}, useKey},
		{"new pool with a Secret", pool("p", other), []string{"create", "-f", "-"}, getOther},
		{"Secret of a pool", "", []string{"patch", "wnp", "with", "-n", ns, "--type=merge", "-p", `{"spec":{"template":{"credentialsSecretRef":null}}}`}, useKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kubectlAs(t, mallory, tc.stdin, tc.args...).fails(t, "Forbidden", tc.want)
		})
	}

	t.Run("with the right to a Secret", func(t *testing.T) {
		grant(t, user, ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"own"}, Verbs: []string{"get"}})
		eventually(t, "he may use it", func() error {
			if r := kubectlAs(t, mallory, instance("mine", "address: 127.0.3.2, "+own), "apply", "--server-side", "-f", "-"); r.err != nil {
				return errors.New(r.stderr)
			}
			return nil
		})
		kubectlAs(t, mallory, instance("mine", "address: 127.0.3.3, "+own), "apply", "--server-side", "-f", "-").ok(t)
		kubectlAs(t, mallory, pool("mine", own), "create", "-f", "-").ok(t)
		kubectlAs(t, mallory, instance("w", "address: 127.0.3.2, poolRef: {name: mine}"), "create", "-f", "-").ok(t)
		kubectlAs(t, mallory, "", "patch", "wnp", "mine", "-n", ns, "--type=merge", "-p", `{"spec":{"template":{"credentialsSecretRef":null}}}`).fails(t, "Forbidden", useKey)
		kubectlAs(t, mallory, "", "patch", "wi", "mine", "-n", ns, "--type=merge", "-p", `{"spec":{"credentialsSecretRef":null}}`).fails(t, "Forbidden", useKey)
	})
	t.Run("with the right to the cluster-wide key", func(t *testing.T) {
		use := ours([]string{"use"}, "windowscredentials")
		use.ResourceNames = []string{"cluster"}
		grant(t, user, ns, use)
		eventually(t, "he may use it", func() error {
			if r := kubectlAs(t, mallory, instance("key", "address: 127.0.3.2"), "apply", "--server-side", "-f", "-"); r.err != nil {
				return errors.New(r.stderr)
			}
			return nil
		})
		kubectlAs(t, mallory, "", "patch", "wi", "there", "-n", ns, "--type=merge", "-p", `{"spec":{"credentialsSecretRef":{"name":"other"}}}`).fails(t, "Forbidden", getOther)
	})
}

// TestPoolThatIsGoneIsNoWayToTheClusterWideKey deletes the pool whose Secret a host is
// logged in to with: the host gets no other credentials.
func TestPoolThatIsGoneIsNoWayToTheClusterWideKey(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	createInstance(t, ns, "w", startHost(t, winhost.Options{}), "")
	waitFor(t, ns, "w", loggedIn)
	patchInstance(t, ns, "w", `{"spec":{"poolRef":{"name":"gone"}}}`)
	kubectl(t, "get", "--raw", subresource(ns, "w", "log", "query=kubelet")).fails(t, "pool "+ns+"/gone", "spec.poolRef")
}

// upgradeRequest asks to turn a GET into a WebSocket, as kubectl exec does.
func upgradeRequest(t *testing.T, method, url string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "websocket")
	request.Header.Set("Sec-WebSocket-Version", "13")
	request.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	request.Header.Set("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
	return request
}

// tryUpgrade opens a WebSocket as a user, and returns the answer.
func tryUpgrade(t *testing.T, user, method, path string) (code int, body string) {
	t.Helper()
	config, err := sys.UserConfig(user, "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	// An upgrade needs HTTP/1.1.
	config.NextProtos = []string{"http/1.1"}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	// kube-apiserver closes a connection whose upgrade was refused, after the answer and
	// without saying so in it: it must not be used again.
	utilnet.CloseIdleConnectionsFor(transport)
	response, err := transport.RoundTrip(upgradeRequest(t, method, config.Host+path))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		return response.StatusCode, "the WebSocket is open"
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// TestGetIsNotEnoughToEnterAHost opens WebSockets, which are GETs, as somebody with the
// verb get on what needs create.
func TestGetIsNotEnoughToEnterAHost(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	kubectlIn(t, fmt.Sprintf(pausedInstance, "w", "127.0.3.5", "p"), "create", "-n", ns, "-f", "-").ok(t)
	user := "getter-" + ns
	kubeconfig := grant(t, user, ns, ours([]string{"get"}, "windowsinstances", "windowsinstances/exec", "windowsinstances/portforward"))
	eventually(t, "the role is in force", func() error { return kubectlAs(t, kubeconfig, "", "get", "wi", "w", "-n", ns).err })
	for _, tc := range []struct {
		method, sub, query string
		verb               string
	}{
		{http.MethodGet, "exec", "command=hostname&stdout=true", "create"},
		{http.MethodPost, "exec", "command=hostname&stdout=true", "create"},
		{http.MethodGet, "portforward", "ports=3389", "create"},
		{http.MethodPost, "portforward", "ports=3389", "create"},
	} {
		t.Run(tc.method+" "+tc.sub, func(t *testing.T) {
			code, body := tryUpgrade(t, user, tc.method, subresource(ns, "w", tc.sub, tc.query))
			if code != http.StatusForbidden || !strings.Contains(body, tc.verb) || !strings.Contains(body, `"kind":"Status"`) {
				t.Errorf("got %d: %s", code, body)
			}
		})
	}
}

// TestHostsOfOthers has an administrator of the hosts of one namespace make instances of the host
// of another one, to enter it with the key of the cluster.
func TestHostsOfOthers(t *testing.T) {
	t.Parallel()
	theirs, ns := newNamespace(t), newNamespace(t)
	host, own := startHost(t, winhost.Options{}), startHost(t, winhost.Options{})
	createInstance(t, theirs, "w", host, "")
	waitFor(t, theirs, "w", loggedIn)
	user := "eve-" + ns
	eve := bind(t, user, "windows-host-admin", ns)
	key := fmt.Sprintf(", hostKeys: [%q]", keyLine(host.HostKey()))
	stolen := func(name string, host winhost.Host, spec string) string {
		return strings.TrimSuffix(strings.TrimSpace(instanceYAML(ns, name, host)), "}") + spec + "}\n"
	}
	eventually(t, "the role is in force", func() error { return kubectlAs(t, eve, "", "get", "wi", "-n", ns).err })
	kubectlAs(t, eve, stolen("w", host, ", paused: true"+key), "create", "-f", "-").fails(t, "Forbidden", "cluster-wide key")

	bind(t, user, "windows-cluster-key-user", ns)
	eventually(t, "she may use the key of the cluster", func() error {
		r := kubectlAs(t, eve, stolen("w", host, ", paused: true"+key), "apply", "--server-side", "-f", "-")
		if r.err != nil {
			return errors.New(r.stderr)
		}
		return nil
	})
	// refused wants that no subresource gets to the host of an instance, and why.
	refused := func(t *testing.T, name, why string) {
		t.Helper()
		for _, path := range []string{subresource(ns, name, "log", "query=kubelet"), subresource(ns, name, "logs", "query=kubelet"), subresource(ns, name, "inspect", "")} {
			kubectlAs(t, eve, "", "get", "--raw", path).fails(t, "Conflict", why)
		}
		for path, query := range map[string]string{"exec": "command=hostname&stdout=true", "portforward": "ports=3389"} {
			if code, body := tryUpgrade(t, user, http.MethodGet, subresource(ns, name, path, query)); code != http.StatusConflict || !strings.Contains(body, why) {
				t.Errorf("%s: got %d: %s", path, code, body)
			}
		}
		kubectlAs(t, eve, "{}", "create", "--raw", subresource(ns, name, "reconfigure", "dryRun=All"), "-f", "-").fails(t, "Conflict", why)
		for _, command := range host.Commands() {
			if strings.Contains(command, "hostname") {
				t.Errorf("it was run on the host: %s", command)
			}
		}
		if n := runsOfAgent(host, "logs"); n > 0 {
			t.Errorf("the log of the host was read %d times", n)
		}
	}
	t.Run("paused from the start", func(t *testing.T) {
		refused(t, "w", "the controller has not logged in to this host yet")
	})
	t.Run("seen by the controller", func(t *testing.T) {
		kubectlAs(t, eve, "", "patch", "wi", "w", "-n", ns, "--type=merge", "-p", `{"spec":{"paused":false}}`).ok(t)
		waitFor(t, ns, "w", resolved(v1alpha1.ReasonDuplicateHost))
		refused(t, "w", "already represents this host")
		kubectlAs(t, eve, "{}", "create", "--raw", subresource(ns, "w", "check", ""), "-f", "-").fails(t, "Conflict", "already represents this host")
		kubectlAs(t, eve, "", "patch", "wi", "w", "-n", ns, "--type=merge", "-p", `{"spec":{"paused":true}}`).ok(t)
		refused(t, "w", "already represents this host")
	})
	t.Run("in the place of a host of her own", func(t *testing.T) {
		kubectlAs(t, eve, stolen("own", own, ""), "create", "-f", "-").ok(t)
		waitFor(t, ns, "own", loggedIn)
		if code, body := tryUpgrade(t, user, http.MethodGet, subresource(ns, "own", "exec", "command=hostname&stdout=true")); code != http.StatusSwitchingProtocols {
			t.Errorf("her own host: got %d: %s", code, body)
		}
		kubectlAs(t, eve, "", "patch", "wi", "own", "-n", ns, "--type=merge", "-p", `{"spec":{"paused":true}}`).ok(t)
		kubectlAs(t, eve, "", "patch", "wi", "own", "-n", ns, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"hostKeys":[%q]}}`, keyLine(host.HostKey()))).ok(t)
		refused(t, "own", "by a key of spec.hostKeys, but by another one")
		kubectlAs(t, eve, "", "patch", "wi", "own", "-n", ns, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"address":%q,"port":%d,"hostKeys":[%q,%q]}}`,
			host.Address(), host.Port(), keyLine(own.HostKey()), keyLine(host.HostKey()))).ok(t)
		refused(t, "own", "yet at spec.address ("+host.Address()+")")
	})
	if got := kubectl(t, "get", "--raw", subresource(theirs, "w", "log", "query=kubelet")); strings.Contains(got.stderr, "Conflict") {
		t.Errorf("the rightful instance: %s", got.stderr)
	}
}

// TestSquatter has somebody name the host of a Node that has no instance, with a key of their own that
// the host does not accept. That keeps nobody from the host, and is no way to its Node.
func TestSquatter(t *testing.T) {
	t.Parallel()
	theirs, ns := newNamespace(t), newNamespace(t)
	host, node := startHost(t, winhost.Options{}), "squatted-"+ns
	if err := kubelet.Register(t.Context(), sys.Kube, kubelet.Node{Name: node, Address: host.Address()}); err != nil {
		t.Fatal(err)
	}
	k, err := kubelet.Start(kubelet.Options{Client: sys.Kube, Node: node, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	_, wrong := newPEM(t)
	if _, err := sys.Kube.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "own"}, Data: map[string][]byte{"private-key.pem": wrong},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := sys.Kube.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "credentials"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "windows-credentials-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "windows-controller", Namespace: system.Namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitAllowed(t, sys, "windows-controller", authorizationv1.ResourceAttributes{Namespace: ns, Resource: "secrets", Verb: "get"})
	eve := bind(t, "eve-"+ns, "windows-host-admin", ns)
	createInstance(t, ns, "w", host, ", credentialsSecretRef: {name: own}")
	waitFor(t, ns, "w", authenticated(v1alpha1.ReasonCredentialsRefused))
	mustHaveNothing := func(why string) {
		t.Helper()
		instance, err := sys.Windows.WindowsV1alpha1().WindowsInstances(ns).Get(t.Context(), "w", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if instance.Status.Node != nil {
			t.Errorf("it has Node %s", instance.Status.Node.Name)
		}
		for _, action := range []string{"drain", "uncordon", "reboot", "reconfigure"} {
			kubectlAs(t, eve, "{}", "create", "--raw", subresource(ns, "w", action, ""), "-f", "-").fails(t, "Conflict", why)
		}
	}
	mustHaveNothing("the controller has not logged in to this host yet")

	createInstance(t, theirs, "w", host, "")
	waitForInstance(t, theirs, "w", "it has the host and its Node", func(i *v1alpha1.WindowsInstance) error {
		if err := loggedIn.among(i.Status.Conditions); err != nil {
			return err
		}
		if i.Status.Node == nil || i.Status.Node.Name != node {
			return fmt.Errorf("its Node is %v", i.Status.Node)
		}
		return nil
	})
	waitFor(t, ns, "w", resolved(v1alpha1.ReasonDuplicateHost))
	mustHaveNothing("already represents this host")
	if found, err := sys.Kube.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); err != nil || found.Spec.Unschedulable {
		t.Errorf("Node %s is cordoned: %v", node, err)
	}
}

// TestOurProgramsMayLittle asks what our programs themselves may do in the cluster: what
// somebody gets who takes one over.
func TestOurProgramsMayLittle(t *testing.T) {
	t.Parallel()
	const server, controller = "windows-apiserver", "windows-controller"
	for _, tc := range []struct {
		account, verb, group, resource, namespace, name string

		want bool
	}{
		{server, "get", "machine.openshift.io", "machinesets", "openshift-machine-api", "", true},
		{server, "patch", "machine.openshift.io", "machinesets/scale", "openshift-machine-api", "", true},
		{server, "get", "machine.openshift.io", "machinesets", "default", "", false},
		{server, "patch", "machine.openshift.io", "machinesets/scale", "default", "", false},
		{server, "patch", "machine.openshift.io", "machinesets", "openshift-machine-api", "", false},
		{server, "update", "machine.openshift.io", "machinesets", "openshift-machine-api", "", false},
		{server, "delete", "machine.openshift.io", "machinesets", "openshift-machine-api", "", false},
		{server, "create", "machine.openshift.io", "machines", "openshift-machine-api", "", false},
		{server, "get", "", "secrets", system.Namespace, "cloud-private-key", true},
		{server, "get", "", "secrets", system.Namespace, "windows-digest-key", true},
		{server, "get", "", "secrets", system.Namespace, "windows-keys-in-use", true},
		{server, "patch", "", "secrets", system.Namespace, "windows-keys-in-use", false},
		{server, "get", "", "secrets", system.Namespace, "windows-apiserver-tls", false},
		{server, "get", "", "secrets", system.Namespace, "windows-apiserver-etcd", false},
		{server, "update", "", "secrets", system.Namespace, "windows-apiserver-serving-cert", true},
		{server, "update", "", "secrets", system.Namespace, "cloud-private-key", false},
		{server, "create", "", "secrets", system.Namespace, "", false},
		{server, "delete", "", "secrets", system.Namespace, "windows-apiserver-serving-cert", false},
		{server, "create", "apiregistration.k8s.io", "apiservices", "", "v1alpha1.windows.openshift.io", true},
		{server, "create", "apiregistration.k8s.io", "apiservices", "", "", false},
		{server, "patch", "apiregistration.k8s.io", "apiservices", "", "v1.apps", false},
		{server, "get", "", "secrets", system.Namespace, "", false},
		{server, "list", "", "secrets", system.Namespace, "", false},
		{server, "get", "", "secrets", "kube-system", "", false},
		{server, "get", "", "secrets", "default", "", false},
		{server, "get", "", "secrets", "openshift-config", "pull-secret", false},
		{server, "get", "", "pods", "default", "", false},
		{server, "create", "", "pods/eviction", "default", "", false},
		{server, "update", "", "nodes", "", "", false},
		{server, "list", "", "configmaps", "kube-system", "kubeadm-config", true},
		{server, "list", "", "configmaps", "kube-system", "", false},
		{server, "watch", "discovery.k8s.io", "endpointslices", "default", "kubernetes", true},
		{server, "watch", "discovery.k8s.io", "endpointslices", "default", "", false},
		{server, "list", "discovery.k8s.io", "endpointslices", "kube-system", "", false},
		{server, "get", "discovery.k8s.io", "endpointslices", "default", "kubernetes", false},
		{server, "get", "networking.k8s.io", "servicecidrs", "", "kubernetes", true},
		{server, "get", "networking.k8s.io", "servicecidrs", "", "", false},
		{server, "list", "flowcontrol.apiserver.k8s.io", "flowschemas", "", "", true},
		{server, "get", "flowcontrol.apiserver.k8s.io", "flowschemas", "", "", false},
		{server, "get", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "", false},
		{server, "impersonate", "", "users", "", "", false},
		{server, "escalate", "rbac.authorization.k8s.io", "clusterroles", "", "", false},
		{controller, "create", "", "secrets", "kube-system", "", false},
		{controller, "delete", "", "secrets", "kube-system", "bootstrap-token-abcdef", false},
		{controller, "get", "", "secrets", "kube-system", "bootstrap-token-abcdef", false},
		{controller, "list", "", "secrets", "kube-system", "", false},
		{controller, "update", "", "secrets", "kube-system", "", false},
		{controller, "patch", "", "secrets", "kube-system", "", false},
		{controller, "deletecollection", "", "secrets", "kube-system", "", false},
		{controller, "get", "", "secrets", system.Namespace, "cloud-private-key", true},
		{controller, "patch", "", "secrets", system.Namespace, "windows-keys-in-use", true},
		{controller, "patch", "", "secrets", system.Namespace, "cloud-private-key", false},
		{controller, "get", "", "secrets", system.Namespace, "windows-apiserver-tls", false},
		{controller, "get", "", "secrets", system.Namespace, "windows-apiserver-serving-cert", false},
		{controller, "patch", "apiregistration.k8s.io", "apiservices", "", "v1alpha1.windows.openshift.io", false},
		{controller, "delete", "", "secrets", system.Namespace, "", false},
		{controller, "get", "", "secrets", "default", "", false},
		{controller, "update", "windows.openshift.io", "windowsinstances", "default", "", false},
		{controller, "list", "apiextensions.k8s.io", "customresourcedefinitions", "", "", false},
		{controller, "update", "windows.openshift.io", "windowsnodepools/status", "default", "", false},
		{controller, "get", "machine.openshift.io", "machines", "default", "", false},
		{controller, "get", "machine.openshift.io", "machinesets", "default", "", false},
		{controller, "get", "certificates.k8s.io", "certificatesigningrequests", "", "", false},
		{controller, "get", "", "pods", "default", "", false},
		{controller, "create", "", "nodes", "", "", false},
		{controller, "update", "", "nodes", "", "", false},
		{controller, "patch", "", "nodes/status", "", "", false},
		{controller, "create", "", "pods", "default", "", false},
		{controller, "create", "", "pods/exec", "default", "", false},
		{controller, "approve", "certificates.k8s.io", "signers", "", "kubernetes.io/kube-apiserver-client", false},
		{controller, "impersonate", "", "users", "", "", false},
		{controller, "escalate", "rbac.authorization.k8s.io", "clusterroles", "", "", false},
	} {
		resource, sub, _ := strings.Cut(tc.resource, "/")
		review, err := sys.Kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + system.Namespace + ":" + tc.account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: tc.verb, Group: tc.group, Resource: resource, Subresource: sub, Namespace: tc.namespace, Name: tc.name},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != tc.want {
			t.Errorf("%s: %s %s %s in %q: allowed is %v, want %v", tc.account, tc.verb, tc.resource, tc.name, tc.namespace, review.Status.Allowed, tc.want)
		}
	}
}
