// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

const testNamespace = "openshift-windows-machine-config-operator"

// A value that WMCO itself wrote for its key.
const writtenByWMCO = "wx4EBwMIMRM3glELpvRgfefUYeVWu8NxnDUDMS1gONvS5QG5m3DnvVmlHZueeMyF<wmcoMarker>" +
	"O6mcZTHzhiffkHBZu7QENycz5CTbMWdzbSBxz9jLousa0XfiGcPtKOGXHOAyAA==<wmcoMarker>=7qAp"

func TestUsers(t *testing.T) {
	key := &credentials{text: []byte("Super secr3t!")}
	if got, err := key.decrypt(writtenByWMCO); got != "core" || err != nil {
		t.Errorf("it is %q: %v", got, err)
	}
	value, err := key.encrypt("Administrator")
	if err != nil || strings.ContainsAny(value, "\n-") {
		t.Errorf("it is written as %q: %v", value, err)
	}
	if got, err := key.decrypt(value); got != "Administrator" || err != nil {
		t.Errorf("it is %q: %v", got, err)
	}
	if got, err := (&credentials{text: []byte("other")}).decrypt(value); err == nil {
		t.Errorf("by another key it is %q", got)
	}
}

func TestHash(t *testing.T) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN comment"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Hash(key), "01eba3acce87064dc39d873ab90266348ba3ce68b2bcfb915f8ec5f9b4fa17df"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseEntries(t *testing.T) {
	for _, tt := range []struct {
		value, want string
		fails       bool
	}{
		{value: "username=core", want: "core"},
		{value: "username=core\nname=a", want: "core\nname=a"},
		{value: "user=core", fails: true},
		{value: "username", fails: true},
	} {
		got, err := parseEntries(t.Context(), map[string]string{testAddress: tt.value})
		if (err != nil) != tt.fails || got[testAddress] != tt.want {
			t.Errorf("%q: %q, %v", tt.value, got, err)
		}
	}
}

// wmcoSite is a WMCO with one host, which is a Node of an earlier version.
type wmcoSite struct {
	*Operator
	host   winhost.Host
	signer ssh.Signer
}

func newSite(t *testing.T, change func(*corev1.Node), more ...client.Object) *wmcoSite {
	t.Helper()
	text, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := parseCredentials(text)
	if err != nil {
		t.Fatal(err)
	}
	user, err := key.encrypt("Administrator")
	if err != nil {
		t.Fatal(err)
	}
	s := &wmcoSite{host: hosttest.Start(t, winhost.Options{Port: 22, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}}), signer: signer}
	scheme := kruntime.NewScheme()
	utilruntime.Must(errors.Join(clientgoscheme.AddToScheme(scheme), machinev1beta1.Install(scheme)))
	node := windowsNode("a", s.host.Address(), versionName, "v1", keyHashName, Hash(signer.PublicKey()), usernameName, user)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	change(&node)
	objects := append([]client.Object{
		&node, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: privateKeyName}, Data: map[string][]byte{privateKeyData: text}},
	}, more...)
	for _, o := range objects {
		if m, is := o.(*machinev1beta1.Machine); is {
			m.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: s.host.Address()}}
		}
	}
	system, _ := winhost.SystemOf(s.host)
	s.Operator = &Operator{Options: Options{
		Kube: fake.NewClientset(&node, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: deploymentName}}), Namespace: testNamespace, Version: testVersion, MachineUser: "Administrator",
		Host: func(string) (Host, error) {
			return Host{System: system, Name: "a", Put: func() error {
				return system.CreateService("kubelet", config.ServiceSettings{Description: "OpenShift managed kubelet", CommandLine: "k"}, nil)
			}}, nil
		},
	}, client: ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
	return s
}

func (s *wmcoSite) node(t *testing.T) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return node
}

func entry(address, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: instancesName}, Data: map[string]string{address: value}}
}

// TestPass: what WMCO does to a host, and what keeps it from that.
func TestPass(t *testing.T) {
	listed := func(n *corev1.Node) { setLabel(n, byohLabel, "true") }
	_, other, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Node)
		// machine: the host is that of a Machine; else it has an entry if user is not empty.
		machine bool
		user    string
		// want is what it does, and problem what it says.
		want, problem string
	}{
		{name: "an entry", change: listed, user: "Administrator", want: "Upgrade"},
		{name: "a Machine", change: func(*corev1.Node) {}, machine: true, want: "Upgrade"},
		{name: "a Machine with another key", change: func(n *corev1.Node) { setAnnotation(n, keyHashName, "0") }, machine: true, want: "DeleteMachine"},
		{name: "no entry any more", change: listed, want: "Deconfigure"},
		{name: "another user", change: listed, user: "nobody", problem: "refuses the key"},
		{name: "another host key", change: func(n *corev1.Node) {
			listed(n)
			setAnnotation(n, hostKeyName, (&hostKey{other.PublicKey()}).encoded())
		}, user: "Administrator", problem: "another host key"},
		{name: "a user that cannot be read", change: func(n *corev1.Node) {
			setAnnotation(n, usernameName, "-")
		}, problem: "the user of Node a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var more []client.Object
			if tt.machine {
				more = append(more, machine("a"))
			}
			s := newSite(t, tt.change, more...)
			if tt.user != "" {
				if err := s.client.Create(t.Context(), entry(s.host.Address(), "username="+tt.user)); err != nil {
					t.Fatal(err)
				}
			}
			err := s.pass(t.Context())
			want := []string{}
			if tt.want != "" {
				want = append(want, tt.want+" "+s.host.Address())
			}
			if got := s.Deeds(); !slices.Equal(got, want) || (err != nil) != (tt.problem != "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Fatalf("it did %q: %v", got, err)
			}
			node := s.node(t)
			switch tt.want {
			case "Upgrade":
				key := &hostKey{s.host.HostKey()}
				wantLabels := map[string]string{corev1.LabelOSStable: "windows", workerLabel: ""}
				if !tt.machine {
					wantLabels[byohLabel] = "true"
				}
				if a := node.Annotations; a[versionName] != testVersion || a[desiredName] != testVersion || a[keyHashName] != Hash(s.signer.PublicKey()) ||
					a[hostKeyName] != key.encoded() || a[hostKeyTypeName] != key.Type() || !maps.Equal(node.Labels, wantLabels) || node.Spec.Unschedulable {
					t.Errorf("the Node is %+v", node)
				}
				if err := s.pass(t.Context()); err != nil || len(s.Deeds()) != 1 {
					t.Errorf("once more: %q, %v", s.Deeds(), err)
				}
			case "Deconfigure":
				if node.Name != "" {
					t.Error("the Node is there")
				}
			case "DeleteMachine":
				if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "openshift-machine-api", Name: "m"}, &machinev1beta1.Machine{}); client.IgnoreNotFound(err) != nil || err == nil {
					t.Errorf("the Machine is there: %v", err)
				}
			}
		})
	}
}

// TestEnds: a WMCO without replicas does nothing, and one that is stopped has ended.
func TestEnds(t *testing.T) {
	s := newSite(t, func(n *corev1.Node) { setLabel(n, byohLabel, "true") })
	if _, err := s.Kube.AppsV1().Deployments(testNamespace).Update(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: deploymentName}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(0))},
	}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.pass(t.Context()); err != nil || len(s.Deeds()) > 0 {
		t.Errorf("it did %q: %v", s.Deeds(), err)
	}
	o := s.Options
	o.Client = s.client
	started := Start(o)
	started.Stop()
	if got := append(started.Deeds(), started.Problems()...); len(got) > 0 {
		t.Errorf("it did %q", got)
	}
}
