// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
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
	kubectl(t, "wait", "-n", mine, "--for=condition=Authenticated", "wi/w", "--timeout="+patience.String()).ok(t)
	reader := bind(t, "reader-"+mine, "windows-log-reader", mine)

	for _, sub := range []string{"log", "logs"} {
		eventually(t, sub+" are read", func() error { // a binding is seen a moment after it was made
			r := kubectlAs(t, reader, "", "get", "--raw", subresource(mine, "w", sub, "query=kubelet"))
			if r.err == nil && !strings.Contains(r.stdout, "hello") {
				t.Fatalf("%s: got %q", sub, r.stdout)
			}
			if r.err != nil {
				return errors.New(r.stderr)
			}
			return nil
		})
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

// Sets of roles, in the order in which they may more.
var (
	nobodyMay    = []string{}
	readersMay   = []string{"view", "edit", "admin", "windows-viewer", "windows-operator", "windows-host-admin"}
	logsMay      = []string{"windows-log-reader", "windows-operator", "windows-host-admin"}
	operatorsMay = []string{"windows-operator", "windows-host-admin"}
	hostAdminMay = []string{"windows-host-admin"}
	keyUserMay   = []string{"windows-cluster-key-user"}
)

// allRoles are the roles that the table below speaks of; the empty one is nobody's.
var allRoles = []string{"", "view", "edit", "admin", "windows-viewer", "windows-log-reader", "windows-operator", "windows-host-admin", "windows-cluster-key-user"}

var (
	readVerbs  = []string{"get", "list", "watch"}
	writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}
)

// roleTable says who may what: it is the documentation of the shipped roles. What is
// not in it nobody may.
var roleTable = []struct {
	resource string
	verbs    []string
	roles    []string
}{
	{"windowsinstances", readVerbs, readersMay},
	{"windowsinstances", writeVerbs, hostAdminMay},
	{"windowsinstances/status", []string{"get"}, readersMay},
	{"windowsinstances/status", []string{"update", "patch"}, nobodyMay}, // the controller only
	{"windowsinstances/log", []string{"get"}, logsMay},
	{"windowsinstances/logs", []string{"get"}, logsMay},
	{"windowsinstances/inspect", []string{"get"}, operatorsMay},
	{"windowsinstances/cancel", []string{"create"}, operatorsMay},
	{"windowsinstances/check", []string{"create"}, operatorsMay},
	{"windowsinstances/drain", []string{"create"}, operatorsMay},
	{"windowsinstances/reboot", []string{"create"}, operatorsMay},
	{"windowsinstances/adopt", []string{"create"}, hostAdminMay},
	{"windowsinstances/release", []string{"create"}, hostAdminMay},
	{"windowsinstances/reconfigure", []string{"create"}, operatorsMay},
	{"windowsinstances/uncordon", []string{"create"}, operatorsMay},
	{"windowsinstances/exec", []string{"get", "create"}, hostAdminMay},
	{"windowsinstances/portforward", []string{"get", "create"}, hostAdminMay},
	{"windowsnodepools", readVerbs, readersMay},
	{"windowsnodepools", writeVerbs, hostAdminMay},
	{"windowsnodepools/status", []string{"get"}, readersMay},
	{"windowsnodepools/status", []string{"update", "patch"}, nobodyMay}, // the controller only
	{"windowsnodepools/scale", []string{"get"}, readersMay},
	{"windowsnodepools/scale", []string{"update", "patch"}, operatorsMay},
	// In rules only: the rights to have the cluster-wide key used, to decide about host keys,
	// and to leave hosts as they are.
	{credentialsResource, []string{"use"}, keyUserMay},
	{"windowshostkeys", []string{"trust"}, hostAdminMay},
	{"windowshosts", []string{"abandon"}, hostAdminMay},
}

const credentialsResource = "windowscredentials"

// inRulesOnly are the resources that nobody serves.
var inRulesOnly = []string{credentialsResource, "windowshostkeys", "windowshosts"}

// everyVerb is each verb that is asked about, on each resource.
var everyVerb = slices.Concat(readVerbs, writeVerbs, []string{"trust", "abandon", "use", "connect", "*"})

// mayDo is the table for one role: resource, then verb.
func mayDo(role string) map[string]map[string]bool {
	may := map[string]map[string]bool{}
	for _, row := range roleTable {
		if may[row.resource] == nil {
			may[row.resource] = map[string]bool{}
		}
		for _, verb := range row.verbs {
			may[row.resource][verb] = slices.Contains(row.roles, role)
		}
	}
	return may
}

// TestRolesCoverEverything compares the table with discovery: whoever adds a resource,
// a subresource or a verb has to decide who may use it.
func TestRolesCoverEverything(t *testing.T) {
	t.Parallel()
	list, err := sys.Kube.Discovery().ServerResourcesForGroupVersion("windows.openshift.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string][]string{}, map[string][]string{}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		got[r.Name] = slices.Sorted(slices.Values(r.Verbs))
	}
	served := slices.Concat(readVerbs, writeVerbs)
	for _, row := range roleTable {
		if slices.Contains(inRulesOnly, row.resource) {
			continue
		}
		for _, verb := range row.verbs {
			if slices.Contains(served, verb) {
				want[row.resource] = append(want[row.resource], verb)
			}
		}
		slices.Sort(want[row.resource])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of roles differs from discovery (-table +discovery):\n%s", diff)
	}
}

// TestRoles holds every role against every resource and every verb: first as
// kube-apiserver sees it, then as windows-apiserver does, which asks again.
func TestRoles(t *testing.T) {
	t.Parallel()
	for _, role := range allRoles {
		t.Run("role "+role, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			user := "role-" + ns
			bind(t, user, role, ns)
			config, err := sys.UserConfig(user, "system:authenticated")
			if err != nil {
				t.Fatal(err)
			}
			config.QPS = -1
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			may := mayDo(role)
			// A binding is seen by the authorizer a moment after it was made.
			eventually(t, "the role is in force", func() error {
				for resource := range may {
					for _, verb := range everyVerb {
						if got := can(t, client, ns, resource, verb); got != may[resource][verb] {
							return fmt.Errorf("%s %s: allowed is %v", verb, resource, got)
						}
					}
				}
				return nil
			})
			front := frontProxy(t)
			for resource, verbs := range may {
				for verb, allowed := range verbs {
					tryRequest(t, front, user, ns, resource, verb, allowed)
				}
			}
		})
	}
}

// frontProxy is a transport to windows-apiserver itself with the certificate of
// kube-apiserver, whose word on who a user is counts.
func frontProxy(t *testing.T) http.RoundTripper {
	t.Helper()
	pair := sys.FrontProxy()
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAData: serverCA(t, sys), ServerName: "windows-apiserver." + system.Namespace + ".svc",
		CertFile: pair.CertFile, KeyFile: pair.KeyFile,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// methods are how verbs are asked for. A watch lasts, and is a list to RBAC's eyes but
// for its name.
var methods = map[string]string{
	"get": http.MethodGet, "list": http.MethodGet, "create": http.MethodPost, "update": http.MethodPut,
	"patch": http.MethodPatch, "delete": http.MethodDelete, "deletecollection": http.MethodDelete,
}

// tryRequest sends a request for something that is not there: who may gets any answer
// but 403, who may not gets 403.
func tryRequest(t *testing.T, front http.RoundTripper, user, namespace, resource, verb string, allowed bool) {
	t.Helper()
	method, ok := methods[verb]
	if !ok || slices.Contains(inRulesOnly, resource) {
		return
	}
	name, sub, _ := strings.Cut(resource, "/")
	path := "/apis/windows.openshift.io/v1alpha1/namespaces/" + namespace + "/" + name
	if verb != "list" && verb != "deletecollection" && (verb != "create" || sub != "") {
		path += "/nope"
	}
	if sub != "" {
		path += "/" + sub
	}
	request, err := http.NewRequestWithContext(t.Context(), method, sys.ServerURL+path+"?dryRun=All", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Remote-User", user)
	request.Header.Set("X-Remote-Group", "system:authenticated")
	request.Header.Set("Content-Type", "application/json")
	if verb == "patch" {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := front.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	if got := response.StatusCode != http.StatusForbidden; got != allowed || response.StatusCode == http.StatusUnauthorized {
		t.Errorf("%s %s by windows-apiserver: %s %s", verb, resource, response.Status, body)
	}
}

func can(t *testing.T, client kubernetes.Interface, namespace, resource, verb string) bool {
	t.Helper()
	name, sub, _ := strings.Cut(resource, "/")
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: namespace, Group: "windows.openshift.io", Resource: name, Subresource: sub, Verb: verb,
	}
	if resource == credentialsResource {
		attributes.Name = "cluster"
	}
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// TestForgedIdentity calls windows-apiserver itself, past kube-apiserver, with the
// headers by which kube-apiserver names its callers.
// TestNodeRunsKubeProxy: with the identity of a node kube-proxy of a host reads what it needs, and no other Node.
func TestNodeRunsKubeProxy(t *testing.T) {
	t.Parallel()
	const name = "proxied"
	makeNode(t, name)
	as := kubeletOf(t, name)
	own := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	watches := func(w watch.Interface, err error) error {
		if err == nil {
			w.Stop()
		}
		return err
	}
	for what, read := range map[string]func(context.Context, metav1.ListOptions) error{
		"Services": func(ctx context.Context, o metav1.ListOptions) error {
			_, err := as.CoreV1().Services("").List(ctx, o)
			return errors.Join(err, watches(as.CoreV1().Services("").Watch(ctx, o)))
		},
		"EndpointSlices": func(ctx context.Context, o metav1.ListOptions) error {
			_, err := as.DiscoveryV1().EndpointSlices("").List(ctx, o)
			return errors.Join(err, watches(as.DiscoveryV1().EndpointSlices("").Watch(ctx, o)))
		},
		"ServiceCIDRs": func(ctx context.Context, o metav1.ListOptions) error {
			_, err := as.NetworkingV1().ServiceCIDRs().List(ctx, o)
			return errors.Join(err, watches(as.NetworkingV1().ServiceCIDRs().Watch(ctx, o)))
		},
		"its Node": func(ctx context.Context, _ metav1.ListOptions) error {
			_, err := as.CoreV1().Nodes().List(ctx, own)
			return errors.Join(err, watches(as.CoreV1().Nodes().Watch(ctx, own)))
		},
	} {
		if err := read(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := as.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it may list all Nodes: %v", err)
	}
}

func TestForgedIdentity(t *testing.T) {
	t.Parallel()
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAData: serverCA(t, sys), ServerName: "windows-apiserver." + system.Namespace + ".svc",
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

// TestHostKeysNeedTheirOwnRight changes the trusted keys as somebody who has every verb on
// instances, as somebody who may decide about the keys of another host or of this one as
// well, and as somebody who has the role for it.
func TestHostKeysNeedTheirOwnRight(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	kubectlIn(t, fmt.Sprintf(pausedInstance, "w", "127.0.3.1", "p"), "create", "-n", ns, "-f", "-").ok(t)
	key := strings.TrimSpace(string(marshalKey(hostSigner.PublicKey())))
	patch := []string{"patch", "wi", "w", "-n", ns, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"hostKeys":[%q]}}`, key)}
	writer := grant(t, "writer-"+ns, ns, ours([]string{"*"}, "windowsinstances"))
	eventually(t, "the writer may change instances", func() error {
		return kubectlAs(t, writer, "", "patch", "wi", "w", "-n", ns, "--type=merge", "-p", `{"metadata":{"labels":{"rack":"r1"}}}`).err
	})
	refusal := fmt.Sprintf(`"trust" on windowshostkeys.windows.openshift.io "w" in namespace %q`, ns)
	kubectlAs(t, writer, "", patch...).fails(t, "Forbidden", refusal)
	trust := func(name string) rbacv1.PolicyRule {
		rule := ours([]string{"trust"}, "windowshostkeys")
		rule.ResourceNames = []string{name}
		return rule
	}
	patchNothing := append(slices.Clone(patch), "--dry-run=server")
	grant(t, "writer-"+ns, ns, trust("w"))
	eventually(t, "the writer may change the keys of this host", func() error {
		r := kubectlAs(t, writer, "", patchNothing...)
		if r.err != nil {
			return fmt.Errorf("%w: %s", r.err, r.stderr)
		}
		return nil
	})
	other := grant(t, "other-"+ns, ns, ours([]string{"*"}, "windowsinstances"), trust("another"))
	eventually(t, "the other one may change instances", func() error {
		return kubectlAs(t, other, "", "patch", "wi", "w", "-n", ns, "--type=merge", "-p", `{"metadata":{"labels":{"rack":"r2"}}}`).err
	})
	kubectlAs(t, other, "", patchNothing...).fails(t, "Forbidden", refusal)
	admin := bind(t, "hostadmin-"+ns, "windows-host-admin", ns)
	eventually(t, "the host admin may change keys", func() error {
		r := kubectlAs(t, admin, "", patch...)
		if r.err != nil {
			return fmt.Errorf("%w: %s", r.err, r.stderr)
		}
		return nil
	})
}
