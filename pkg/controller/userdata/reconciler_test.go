// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package userdata

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/userdata"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// wmcos is what user data of WMCO is known by.
const wmcos = "function Get-RandomPassword { } OpenSSH.Server~~~~0.0.1.0 administrators_authorized_keys "

var credentials = client.ObjectKey{Namespace: wmco.Namespace, Name: wmco.PrivateKeySecret}

// newKey is a private key as administrators keep it.
func newKey(t *testing.T) *corev1.Secret {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return credentialsOf(map[string][]byte{"private-key.pem": pem.EncodeToMemory(block)})
}

func credentialsOf(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: credentials.Namespace, Name: credentials.Name}, Data: data}
}

// publicKeyIn is the public key of credentials.
func publicKeyIn(t *testing.T, key *corev1.Secret) string {
	t.Helper()
	public, err := host.PublicKey(key.Data)
	if err != nil {
		t.Fatal(err)
	}
	return public.String()
}

// scriptFor is the user data that goes with a key.
func scriptFor(t *testing.T, platform configv1.PlatformType, key *corev1.Secret) string {
	t.Helper()
	script, err := userdata.Script(platform, publicKeyIn(t, key))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// alsoWith is credentials with a further private key.
func alsoWith(key, further *corev1.Secret) *corev1.Secret {
	both := key.DeepCopy()
	both.Data["private-key-new.pem"] = further.Data["private-key.pem"]
	return both
}

// naming is a Secret that says that keys are compromised.
func naming(t *testing.T, secret *corev1.Secret, compromised ...*corev1.Secret) *corev1.Secret {
	t.Helper()
	var fingerprints []string
	for _, key := range compromised {
		public, err := host.PublicKey(key.Data)
		if err != nil {
			t.Fatal(err)
		}
		fingerprints = append(fingerprints, public.Fingerprint())
	}
	out := secret.DeepCopy()
	out.Annotations = map[string]string{v1alpha1.CompromisedKeysAnnotation: strings.Join(fingerprints, ",")}
	return out
}

// copies is the Secret with the keys that were kept.
func copies() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: credentials.Namespace, Name: host.KeptSecret}}
}

func infrastructure(platform configv1.PlatformType) *configv1.Infrastructure {
	i := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: object.InfrastructureName}}
	if platform != "" {
		i.Status.PlatformStatus = &configv1.PlatformStatus{Type: platform}
	}
	return i
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// userData is a Secret as it is before a pass.
func userData(in, script string, labels map[string]string) *corev1.Secret {
	s := secret(in)
	s.Labels, s.Data = labels, map[string][]byte{wmco.UserDataKey: []byte(script), "other": []byte("x")}
	return s
}

func operator(replicas *int32, pods int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: wmco.Namespace, Name: wmco.Deployment},
		Spec:       appsv1.DeploymentSpec{Replicas: replicas}, Status: appsv1.DeploymentStatus{Replicas: pods},
	}
}

// setup is a Reconciler and its cluster.
type setup struct {
	*Reconciler
	cluster  client.Client
	recorder *record.FakeRecorder
	// writes are the names of Secrets that were written.
	writes []string
	// refuse says how the cluster answers instead.
	refuse func(verb string, key client.ObjectKey) error
}

func newSetup(t *testing.T, objects ...client.Object) *setup {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, configv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &setup{recorder: record.NewFakeRecorder(10), refuse: func(string, client.ObjectKey) error { return nil }}
	s.cluster = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := s.refuse("get", key); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			key := client.ObjectKey{Namespace: *o.(interface{ GetNamespace() *string }).GetNamespace(), Name: wmco.UserDataSecret}
			if err := s.refuse("apply", key); err != nil {
				return err
			}
			s.writes = append(s.writes, key.Namespace)
			return c.Apply(ctx, o, opts...)
		},
	}).Build()
	s.Reconciler = &Reconciler{
		live: s.cluster, client: s.cluster, recorder: s.recorder, problems: message.NewReporter(s.recorder, scheme), credentials: credentials,
	}
	return s
}

// pass makes one, and returns the events.
func (s *setup) pass(t *testing.T) []string {
	t.Helper()
	s.writes = nil
	if _, err := s.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	var events []string
	for len(s.recorder.Events) > 0 {
		events = append(events, <-s.recorder.Events)
	}
	return events
}

// found is the user data in a namespace, and whether it is ours. Empty: there is none.
func (s *setup) found(t *testing.T, in string) (script string, ours bool) {
	t.Helper()
	var found corev1.Secret
	if err := client.IgnoreNotFound(s.cluster.Get(t.Context(), client.ObjectKey{Namespace: in, Name: wmco.UserDataSecret}, &found)); err != nil {
		t.Fatal(err)
	}
	return string(found.Data[wmco.UserDataKey]), found.Labels[managedByLabel] == managedBy
}

func TestReconcile(t *testing.T) {
	key := newKey(t)
	script := scriptFor(t, configv1.AWSPlatformType, key)
	aws, machineAPI := infrastructure(configv1.AWSPlatformType), namespace(wmco.MachineAPINamespace)
	former := infrastructure("")
	former.Status.Platform = configv1.AWSPlatformType //nolint:staticcheck // it is what this is about
	ours := map[string]string{managedByLabel: managedBy}
	wmcoWithKey := wmcos + publicKeyIn(t, key)
	node := func(name string, labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{wmco.VersionAnnotation: "11.0.0"}}}
	}
	ofWMCO, adopted := node("win-1", map[string]string{corev1.LabelOSStable: "windows"}), node("win-2", map[string]string{corev1.LabelOSStable: "windows", v1alpha1.NamespaceLabel: "a"})
	upgrading := node("win-3", map[string]string{corev1.LabelOSStable: "windows", wmco.UpgradingLabel: "true"})
	upgrading.Annotations = nil
	next := newKey(t)
	nextScript, both := scriptFor(t, configv1.AWSPlatformType, next), alsoWith(key, next)
	const onlyCompromised = "UserDataNotKept The user data of new Machines is not kept: Secret openshift-windows-machine-config-operator/cloud-private-key has no key that is not said to be compromised " +
		"(windows.openshift.io/compromised-keys). Put a new one in the place of private-key.pem: ssh-keygen -t ed25519 -N '' -f new-key && " +
		"kubectl create secret generic cloud-private-key -n openshift-windows-machine-config-operator --from-file=private-key.pem=new-key --dry-run=client -o yaml | kubectl apply -f -"
	for _, tt := range []struct {
		name    string
		objects []client.Object
		want    string // user data afterwards
		ours    bool
		events  []string // parts of them
		quiet   bool     // nothing is written
	}{
		{
			name: "none yet", objects: []client.Object{aws, machineAPI, key},
			want: script, ours: true, events: []string{"UserDataWritten Secret openshift-machine-api/windows-user-data was created. Machines that exist are not recreated"},
		},
		{name: "as it should be", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, script, ours)}, want: script, ours: true, quiet: true},
		{
			name: "drift, or another key", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, "old", ours)},
			want: script, ours: true, events: []string{"has the user data of the current key again"},
		},
		{
			name: "what somebody has restored without its labels", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, script, nil)},
			want: script, ours: true, events: []string{"again"},
		},
		{
			name: "of WMCO, which is gone", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcos, nil)},
			want: script, ours: true, events: []string{"was taken over from the Windows Machine Config Operator"},
		},
		{
			name: "of WMCO, which is scaled down, with another key", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcos, nil), operator(ptr.To[int32](0), 0)},
			want: script, ours: true, events: []string{"was taken over"},
		},
		{
			name: "of WMCO, which is scaled down, with the key", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcoWithKey, nil), operator(ptr.To[int32](0), 0)},
			want: wmcoWithKey, quiet: true,
		},
		{
			name: "of WMCO, which is gone, with the key", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcoWithKey, nil)},
			want: script, ours: true, events: []string{"was taken over"},
		},
		{
			name: "of WMCO, which is being installed again, with the key", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcoWithKey, nil), ofWMCO},
			want: wmcoWithKey, quiet: true,
		},
		{
			name: "of WMCO, which is being installed again, as it had its only Node upgraded, with the key", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcoWithKey, nil), upgrading},
			want: wmcoWithKey, quiet: true,
		},
		{
			name: "of WMCO, which is gone, and its Nodes are adopted", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcoWithKey, nil), adopted},
			want: script, ours: true, events: []string{"was taken over"},
		},
		{
			name: "of WMCO, which is being installed again, with another key", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcos, nil), ofWMCO},
			want: script, ours: true, events: []string{"was taken over"},
		},
		{
			name: "none, and the hosts are those of WMCO", objects: []client.Object{aws, machineAPI, key, ofWMCO}, quiet: true,
			events: []string{"UserDataNotKept Secret openshift-machine-api/windows-user-data does not exist, so no new Machines boot. It is not created beside Nodes of the Windows Machine Config Operator, " +
				"which would delete all Machines for it when it is started again. To have it created, delete the Subscription and the ClusterServiceVersion of that operator, adopt the hosts of all its Nodes " +
				"(kubectl windows adopt), and delete those Nodes whose hosts are gone; or start it again, which creates its own. To have it created nevertheless: " +
				"kubectl create secret generic windows-user-data -n openshift-machine-api && kubectl label secret windows-user-data -n openshift-machine-api app.kubernetes.io/managed-by=windows-controller --overwrite"},
		},
		{
			name: "none, and the hosts are those of WMCO, after the command", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, "", ours), ofWMCO},
			want: script, ours: true, events: []string{"has the user data of the current key again"},
		},
		{
			name: "ours beside WMCO, which is scaled down", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, "old", ours), operator(ptr.To[int32](0), 0)},
			want: script, ours: true, events: []string{"has the user data of the current key again"},
		},
		{
			name: "none beside WMCO, which is scaled down", objects: []client.Object{aws, machineAPI, key, operator(ptr.To[int32](0), 0)}, quiet: true,
			events: []string{"UserDataNotKept Secret openshift-machine-api/windows-user-data does not exist, so no new Machines boot. It is not created beside Deployment " +
				"openshift-windows-machine-config-operator/windows-machine-config-operator of the Windows Machine Config Operator, which would delete all Machines for it"},
		},
		{name: "WMCO runs", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, "old", ours), operator(nil, 1)}, want: "old", ours: true, quiet: true},
		{name: "WMCO ends", objects: []client.Object{aws, machineAPI, key, operator(ptr.To[int32](0), 1)}, quiet: true},
		{
			name: "of somebody else", objects: []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, "theirs", nil)}, want: "theirs", quiet: true,
			events: []string{"UserDataNotKept Secret openshift-machine-api/windows-user-data was made by somebody else and is left as it is, so hosts with its user data may refuse the key of the operator. " +
				"To have it written: kubectl label secret windows-user-data -n openshift-machine-api app.kubernetes.io/managed-by=windows-controller --overwrite"},
		},
		{
			name: "no key", objects: []client.Object{aws, machineAPI, userData(wmco.MachineAPINamespace, "old", ours)}, want: "old", ours: true, quiet: true,
			events: []string{"UserDataNotKept The user data of new Machines is not kept: Secret openshift-windows-machine-config-operator/cloud-private-key does not exist. " +
				"Create it: kubectl create secret generic cloud-private-key -n openshift-windows-machine-config-operator --from-file=private-key.pem=KEYFILE"},
		},
		{
			name: "a key that is none", objects: []client.Object{aws, machineAPI, credentialsOf(map[string][]byte{"private-key.pem": []byte("s3cret")})}, quiet: true,
			events: []string{"cloud-private-key key private-key.pem: "},
		},
		{
			name: "a password", objects: []client.Object{aws, machineAPI, credentialsOf(map[string][]byte{"password": []byte("s3cret")})}, quiet: true,
			events: []string{"cloud-private-key has no key private-key.pem. Delete it. Create it: "},
		},
		{
			name: "the key is compromised, and there is another", objects: []client.Object{aws, machineAPI, naming(t, both, key), userData(wmco.MachineAPINamespace, script, ours)},
			want: nextScript, ours: true, events: []string{"has the user data of the current key again"},
		},
		{
			name: "the same, said of all Secrets", objects: []client.Object{aws, machineAPI, both, naming(t, copies(), key)},
			want: nextScript, ours: true, events: []string{"was created"},
		},
		{name: "another one is compromised", objects: []client.Object{aws, machineAPI, naming(t, both, next), copies()}, want: script, ours: true, events: []string{"was created"}},
		{name: "all are compromised, and there is none yet", objects: []client.Object{aws, machineAPI, naming(t, both, key, next)}, quiet: true, events: []string{onlyCompromised}},
		{
			name: "the only one is compromised", objects: []client.Object{aws, machineAPI, key, naming(t, copies(), key), userData(wmco.MachineAPINamespace, "old", ours)},
			want: "old", ours: true, quiet: true, events: []string{onlyCompromised},
		},
		{
			name: "of WMCO, which is gone, with a compromised key", objects: []client.Object{aws, machineAPI, naming(t, both, key), userData(wmco.MachineAPINamespace, wmcoWithKey, nil)},
			want: nextScript, ours: true, events: []string{"was taken over"},
		},
		{
			name:    "of WMCO, which is scaled down, with the compromised key of its own",
			objects: []client.Object{aws, machineAPI, naming(t, both, key), userData(wmco.MachineAPINamespace, wmcoWithKey, nil), operator(ptr.To[int32](0), 0)},
			want:    wmcoWithKey, quiet: true, events: []string{"UserDataNotKept Secret openshift-machine-api/windows-user-data has new Machines authorize the key in private-key.pem of Secret " +
				"openshift-windows-machine-config-operator/cloud-private-key, which is said to be compromised. It is not changed beside Deployment " +
				"openshift-windows-machine-config-operator/windows-machine-config-operator of the Windows Machine Config Operator, which would delete all Machines for it when it is started again. " +
				"To have it changed nevertheless: kubectl label secret windows-user-data -n openshift-machine-api app.kubernetes.io/managed-by=windows-controller --overwrite"},
		},
		{
			name:    "the same, after the command",
			objects: []client.Object{aws, machineAPI, naming(t, both, key), userData(wmco.MachineAPINamespace, wmcoWithKey, ours), operator(ptr.To[int32](0), 0)},
			want:    nextScript, ours: true, events: []string{"has the user data of the current key again"},
		},
		{
			name: "no platform", objects: []client.Object{infrastructure(""), machineAPI, key}, quiet: true,
			events: []string{"UserDataNotKept The user data of new Machines is not kept: Infrastructure cluster says no platform: it does not exist, or has no status.platformStatus.type, " +
				"as when it was created again without its status. If it is gone, create it again from a backup: oc create -f BACKUP. Then write its status from there: oc edit infrastructure cluster --subresource=status"},
		},
		{name: "no platform, and WMCO runs", objects: []client.Object{infrastructure(""), machineAPI, key, operator(nil, 1)}, quiet: true},
		{name: "no platform, and no Machine API", objects: []client.Object{infrastructure(""), key}, quiet: true},
		{name: "the platform as the first releases say it", objects: []client.Object{former, machineAPI, key}, want: scriptFor(t, configv1.AWSPlatformType, key), ours: true, events: []string{"created"}},
		{name: "platform None", objects: []client.Object{infrastructure(configv1.NonePlatformType), machineAPI, key}, want: scriptFor(t, configv1.NonePlatformType, key), ours: true, events: []string{"created"}},
		{name: "no Machine API", objects: []client.Object{aws, namespace(wmco.ClusterAPINamespace), key}, quiet: true},
		{name: "no OpenShift", objects: []client.Object{machineAPI, key}, quiet: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var objects []client.Object
			for _, o := range tt.objects {
				objects = append(objects, o.DeepCopyObject().(client.Object))
			}
			s := newSetup(t, objects...)
			events := s.pass(t)
			if len(events) != len(tt.events) {
				t.Fatalf("events %q, want %q", events, tt.events)
			}
			for i, want := range tt.events {
				if !strings.Contains(events[i], want) || strings.Contains(events[i], "s3cret") {
					t.Errorf("event %q, want %q", events[i], want)
				}
			}
			if got := len(s.writes) == 0; got != tt.quiet {
				t.Errorf("it has written %q", s.writes)
			}
			if got, ours := s.found(t, wmco.MachineAPINamespace); got != tt.want || ours != tt.ours {
				t.Errorf("it is ours: %t, want %t; the user data is\n%s\nwant\n%s", ours, tt.ours, got, tt.want)
			}
			// A second time nothing is to be done, or told.
			if events := s.pass(t); len(events)+len(s.writes) > 0 {
				t.Errorf("again: %q, %q", s.writes, events)
			}
		})
	}
}

// TestClusterAPI: the copy is kept where there is a namespace for it, and one that may not be written keeps no other
// from that.
func TestClusterAPI(t *testing.T) {
	key := newKey(t)
	s := newSetup(t, infrastructure(configv1.GCPPlatformType), namespace(wmco.MachineAPINamespace), namespace(wmco.ClusterAPINamespace), key)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, wmco.UserDataSecret, errors.New("no role"))
	s.refuse = func(_ string, key client.ObjectKey) error {
		if key.Namespace == wmco.ClusterAPINamespace {
			return forbidden
		}
		return nil
	}
	events := s.pass(t)
	if len(events) != 2 || !strings.Contains(events[1], "Secret openshift-cluster-api/windows-user-data may not be read or written: kubectl apply -f artifacts/openshift/cluster-api.yaml") {
		t.Errorf("got %q", events)
	}
	s.refuse = func(string, client.ObjectKey) error { return nil }
	if events := s.pass(t); len(events) != 1 || !strings.Contains(events[0], "openshift-cluster-api/windows-user-data was created") {
		t.Errorf("got %q", events)
	}
	for _, in := range []string{wmco.MachineAPINamespace, wmco.ClusterAPINamespace} {
		if got, ours := s.found(t, in); got != scriptFor(t, configv1.GCPPlatformType, key) || !ours {
			t.Errorf("in %s it is ours: %t, and is\n%s", in, ours, got)
		}
	}
	// Providers of Cluster API read another key of it.
	bootstrap := func(in string) string {
		t.Helper()
		var secret corev1.Secret
		if err := s.cluster.Get(t.Context(), client.ObjectKey{Namespace: in, Name: wmco.UserDataSecret}, &secret); err != nil {
			t.Fatal(err)
		}
		return string(secret.Data["value"])
	}
	if got := bootstrap(wmco.ClusterAPINamespace); got != scriptFor(t, configv1.GCPPlatformType, key) || bootstrap(wmco.MachineAPINamespace) != "" {
		t.Errorf("what providers read is\n%s", got)
	}
	var copied corev1.Secret
	if err := s.cluster.Get(t.Context(), client.ObjectKey{Namespace: wmco.ClusterAPINamespace, Name: wmco.UserDataSecret}, &copied); err != nil {
		t.Fatal(err)
	}
	delete(copied.Data, "value") // as of an earlier release
	if err := s.cluster.Update(t.Context(), &copied); err != nil {
		t.Fatal(err)
	}
	if s.pass(t); bootstrap(wmco.ClusterAPINamespace) == "" {
		t.Error("it is not there again")
	}
	s.writes = nil
	// Another key.
	next := newKey(t)
	var current corev1.Secret
	if err := s.cluster.Get(t.Context(), credentials, &current); err != nil {
		t.Fatal(err)
	}
	current.Data = next.Data
	if err := s.cluster.Update(t.Context(), &current); err != nil {
		t.Fatal(err)
	}
	s.pass(t)
	if diff := cmp.Diff([]string{wmco.MachineAPINamespace, wmco.ClusterAPINamespace}, s.writes); diff != "" {
		t.Errorf("written (-want +got)\n%s", diff)
	}
}

// TestUnwritable: what the cluster refuses is said, or tried again.
func TestUnwritable(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for _, tt := range []struct {
		name, verb string
		key        client.ObjectKey
		err        error
		want       string // part of the event; empty: it is tried again
	}{
		{"no Role", "apply", client.ObjectKey{Namespace: wmco.MachineAPINamespace, Name: wmco.UserDataSecret}, apierrors.NewForbidden(resource, "x", errors.New("y")), "kubectl apply -f artifacts/openshift/machine-api.yaml"},
		{"immutable", "apply", client.ObjectKey{Namespace: wmco.MachineAPINamespace, Name: wmco.UserDataSecret}, apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "x", nil), "cannot be written"},
		{"changed meanwhile", "apply", client.ObjectKey{Namespace: wmco.MachineAPINamespace, Name: wmco.UserDataSecret}, apierrors.NewConflict(resource, "x", errors.New("y")), ""},
		{"no right to the key", "get", credentials, apierrors.NewForbidden(resource, "x", errors.New("y")), "kubectl create role windows-secret-cloud-private-key -n "},
		{"copies away", "get", client.ObjectKeyFromObject(copies()), errors.New("away"), ""},
		{"no right to the copies", "get", client.ObjectKeyFromObject(copies()), apierrors.NewForbidden(resource, "x", errors.New("y")), "was created"},
		{"key away", "get", credentials, errors.New("away"), ""},
		{"namespaces away", "get", client.ObjectKey{Name: wmco.MachineAPINamespace}, errors.New("away"), ""},
		{"second namespace away", "get", client.ObjectKey{Name: wmco.ClusterAPINamespace}, errors.New("away"), ""},
		{"Deployment away", "get", client.ObjectKey{Namespace: wmco.Namespace, Name: wmco.Deployment}, errors.New("away"), ""},
		{"Infrastructure away", "get", client.ObjectKey{Name: object.InfrastructureName}, errors.New("away"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t, infrastructure(configv1.AWSPlatformType), namespace(wmco.MachineAPINamespace), newKey(t))
			s.refuse = func(verb string, key client.ObjectKey) error {
				if verb == tt.verb && key == tt.key {
					return tt.err
				}
				return nil
			}
			_, err := s.Reconcile(t.Context(), reconcile.Request{})
			if (err != nil) != (tt.want == "") {
				t.Errorf("got error %v", err)
			}
			if tt.want == "" {
				return
			}
			if event := <-s.recorder.Events; !strings.Contains(event, tt.want) {
				t.Errorf("got %q", event)
			}
		})
	}
}

// TestOutdated: new Machines get the key in use if their user data says so, whoever wrote it. While WMCO runs nobody has judged
// that, and nothing is said of the user data.
func TestOutdated(t *testing.T) {
	key, next := newKey(t), newKey(t)
	aws, machineAPI := infrastructure(configv1.AWSPlatformType), namespace(wmco.MachineAPINamespace)
	right := userData(wmco.MachineAPINamespace, scriptFor(t, configv1.AWSPlatformType, key), nil)
	const (
		outdated = "the user data of a new one would not authorize the key either. See: kubectl get events -n openshift-machine-api --field-selector involvedObject.name=windows-user-data"
		runs     = "the Windows Machine Config Operator runs, and decides about Machines. See: kubectl logs -n openshift-windows-machine-config-operator deployment/windows-machine-config-operator"
		unknown  = "the user data of Machines is not kept while Infrastructure cluster says no platform. See: kubectl get events -n openshift-machine-api --field-selector involvedObject.name=windows-user-data"
		nowhere  = "the user data of Machines is only kept on OpenShift. See: kubectl get infrastructure cluster"
	)
	for _, tt := range []struct {
		name    string
		objects []client.Object
		want    string
	}{
		{"it has the key", []client.Object{aws, machineAPI, key, right}, ""},
		{"it has another key", []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, "other", nil)}, outdated},
		{"there is none", []client.Object{aws, machineAPI, key}, outdated},
		{"there is no key", []client.Object{aws, machineAPI, right}, outdated},
		{"WMCO runs", []client.Object{aws, machineAPI, key, right, operator(nil, 1)}, runs},
		{"of WMCO, which is scaled down, with the key", []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcos+publicKeyIn(t, key), nil), operator(ptr.To[int32](0), 0)}, ""},
		{"of WMCO, which is being installed again, with the key", []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcos+publicKeyIn(t, key), nil), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "win-1", Labels: map[string]string{corev1.LabelOSStable: "windows"}, Annotations: map[string]string{wmco.VersionAnnotation: "11.0.0"}},
		}}, ""},
		{"of WMCO, which is scaled down, with another key", []client.Object{aws, machineAPI, key, userData(wmco.MachineAPINamespace, wmcos, nil), operator(ptr.To[int32](0), 0)}, outdated},
		{"its key is compromised", []client.Object{aws, machineAPI, naming(t, alsoWith(key, next), key), right}, outdated},
		{"it has the one that is not compromised", []client.Object{aws, machineAPI, naming(t, alsoWith(next, key), next), right}, ""},
		{"the only key is compromised", []client.Object{aws, machineAPI, naming(t, key, key), right}, outdated},
		{"of WMCO, which is scaled down, with a compromised key", []client.Object{aws, machineAPI, naming(t, alsoWith(key, next), key), userData(wmco.MachineAPINamespace, wmcos+publicKeyIn(t, key), nil), operator(ptr.To[int32](0), 0)}, outdated},
		{"no OpenShift", []client.Object{machineAPI, key, right}, nowhere},
		{"no platform", []client.Object{infrastructure(""), machineAPI, key, right}, unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var objects []client.Object
			for _, o := range tt.objects {
				objects = append(objects, o.DeepCopyObject().(client.Object))
			}
			if got, err := Outdated(t.Context(), newSetup(t, objects...).live, credentials); err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	s := newSetup(t, aws.DeepCopy(), machineAPI.DeepCopy(), key.DeepCopy(), right.DeepCopy())
	for _, away := range []client.ObjectKey{{Name: object.InfrastructureName}, {Namespace: wmco.Namespace, Name: wmco.Deployment}, credentials, client.ObjectKeyFromObject(copies()), client.ObjectKeyFromObject(right)} {
		s.refuse = func(_ string, key client.ObjectKey) error {
			if key == away {
				return errors.New("away")
			}
			return nil
		}
		if got, err := Outdated(t.Context(), s.live, credentials); err == nil {
			t.Errorf("without %s: got %q", away, got)
		}
	}
}
