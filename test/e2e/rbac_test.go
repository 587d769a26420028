// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// bind gives a user one of the shipped roles in one namespace, and returns a
// kubeconfig of that user.
func bind(t *testing.T, user, role, namespace string) string {
	t.Helper()
	if role != "" {
		_, err := sys.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("binding %s: %v", role, err)
		}
	}
	kubeconfig, err := sys.WriteKubeconfig("user-"+user, user, "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func TestLogReaderReadsLogsOfOneNamespaceAndNothingElse(t *testing.T) {
	t.Parallel()
	mine, other := newNamespace(t), newNamespace(t)
	host := startHost(t, winhost.Options{})
	writeLog(t, host, "kubelet/kubelet.log", "I0102 03:04:05.000006 1 kubelet.go:1] hello\n")
	kubectlIn(t, instanceYAML(mine, "w", host), "create", "-f", "-").ok(t)
	kubectlIn(t, fmt.Sprintf(pausedInstance, "w", "127.0.3.1", "p"), "create", "-n", other, "-f", "-").ok(t)
	kubectl(t, "wait", "-n", mine, "--for=condition=Authenticated", "wi/w", "--timeout=60s").ok(t)
	reader := bind(t, "reader-"+mine, "windows-log-reader", mine)

	for _, sub := range []string{"log", "logs"} {
		out := kubectlAs(t, reader, "", "get", "--raw", subresource(mine, "w", sub, "query=kubelet")).ok(t)
		if !strings.Contains(out, "hello") {
			t.Errorf("%s: got %q", sub, out)
		}
	}
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"logs elsewhere", []string{"get", "--raw", subresource(other, "w", "log", "query=kubelet")}},
		{"logs of an instance that is not there, elsewhere", []string{"get", "--raw", subresource(other, "nope", "log", "query=kubelet")}},
		{"the instance", []string{"get", "wi", "w", "-n", mine}},
		{"all instances", []string{"get", "wi", "-n", mine}},
		{"pools", []string{"get", "wnp", "-n", mine}},
		{"deleting", []string{"delete", "wi", "w", "-n", mine}},
		{"changing", []string{"patch", "wi", "w", "-n", mine, "--type=merge", "-p", "{}"}},
		{"changing the status", []string{"patch", "wi", "w", "-n", mine, "--subresource=status", "--type=merge", "-p", "{}"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kubectlAs(t, reader, "", tc.args...).fails(t, "Forbidden", "reader-"+mine)
		})
	}
}

// TestRoles asks kube-apiserver what each shipped role allows, over every resource,
// subresource and verb there is.
func TestRoles(t *testing.T) {
	t.Parallel()
	read, write := []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete", "deletecollection"}
	everything := map[string][]string{
		"windowsinstances":        append(append([]string{"trust-host-key"}, read...), write...),
		"windowsnodepools":        append(append([]string(nil), read...), write...),
		"windowsinstances/status": {"get", "update", "patch"},
		"windowsnodepools/status": {"get", "update", "patch"},
		"windowsinstances/log":    {"get"},
		"windowsinstances/logs":   {"get"},
	}
	for _, tc := range []struct {
		role  string
		allow map[string][]string
	}{
		{"", nil},
		{"view", map[string][]string{"windowsinstances": read, "windowsnodepools": read}},
		{"edit", map[string][]string{"windowsinstances": read, "windowsnodepools": read}},
		{"admin", map[string][]string{"windowsinstances": read, "windowsnodepools": read}},
		{"windows-viewer", map[string][]string{"windowsinstances": read, "windowsnodepools": read}},
		{"windows-log-reader", map[string][]string{"windowsinstances/log": {"get"}, "windowsinstances/logs": {"get"}}},
		{"windows-operator", map[string][]string{
			"windowsinstances": append(append([]string(nil), read...), write...), "windowsnodepools": append(append([]string(nil), read...), write...),
			"windowsinstances/log": {"get"}, "windowsinstances/logs": {"get"},
		}},
		{"windows-host-admin", map[string][]string{
			"windowsinstances": everything["windowsinstances"], "windowsnodepools": everything["windowsnodepools"],
			"windowsinstances/log": {"get"}, "windowsinstances/logs": {"get"},
		}},
	} {
		t.Run("role "+tc.role, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			user := "role-" + ns
			bind(t, user, tc.role, ns)
			config, err := sys.UserConfig(user, "system:authenticated")
			if err != nil {
				t.Fatal(err)
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			allowed := map[string]bool{}
			for resource, verbs := range tc.allow {
				for _, verb := range verbs {
					allowed[verb+" "+resource] = true
				}
			}
			// A binding is seen by the authorizer a moment after it was made.
			eventually(t, "the role is in force", func() error {
				for resource, verbs := range everything {
					for _, verb := range verbs {
						if got := can(t, client, ns, resource, verb); got != allowed[verb+" "+resource] {
							return fmt.Errorf("%s %s: allowed is %v", verb, resource, got)
						}
					}
				}
				return nil
			})
		})
	}
}

func can(t *testing.T, client kubernetes.Interface, namespace, resource, verb string) bool {
	t.Helper()
	name, sub, _ := strings.Cut(resource, "/")
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: "windows.openshift.io", Resource: name, Subresource: sub, Verb: verb,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// TestForgedIdentity calls windows-apiserver itself, past kube-apiserver, with the
// headers by which kube-apiserver names its callers.
func TestForgedIdentity(t *testing.T) {
	t.Parallel()
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAData: sys.ServingCABundle(), ServerName: "windows-apiserver." + system.Namespace + ".svc",
	}})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sys.ServerURL+"/apis/windows.openshift.io/v1alpha1/windowsinstances", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Remote-User", "admin")
	request.Header.Set("X-Remote-Group", "system:masters")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	// 401 where anonymous requests are off, 403 where they are on: never 200.
	if response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusUnauthorized {
		t.Fatalf("got %s: %s", response.Status, body)
	}
	if strings.Contains(string(body), `"admin"`) {
		t.Errorf("the forged name was believed: %s", body)
	}
}

// TestHostKeysNeedTheirOwnVerb changes the trusted keys as somebody who may change
// instances, and as somebody who may decide about keys.
func TestHostKeysNeedTheirOwnVerb(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	kubectlIn(t, fmt.Sprintf(pausedInstance, "w", "127.0.3.1", "p"), "create", "-n", ns, "-f", "-").ok(t)
	key := strings.TrimSpace(string(marshalKey(hostSigner.PublicKey())))
	patch := []string{"patch", "wi", "w", "-n", ns, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"hostKeys":[%q]}}`, key)}
	operator := bind(t, "operator-"+ns, "windows-operator", ns)
	eventually(t, "the operator may change ports", func() error {
		return kubectlAs(t, operator, "", "patch", "wi", "w", "-n", ns, "--type=merge", "-p", `{"spec":{"port":23}}`).err
	})
	kubectlAs(t, operator, "", patch...).fails(t, "Forbidden", "trust-host-key")
	admin := bind(t, "hostadmin-"+ns, "windows-host-admin", ns)
	eventually(t, "the host admin may change keys", func() error {
		r := kubectlAs(t, admin, "", patch...)
		if r.err != nil {
			return fmt.Errorf("%w: %s", r.err, r.stderr)
		}
		return nil
	})
}
