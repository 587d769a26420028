// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

const (
	testNamespace = "openshift-windows-machine-config-operator"
	testDaemon    = `C:\k\daemon.exe`
)

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
		got, names, err := parseEntries(t.Context(), map[string]string{testAddress: tt.value})
		if (err != nil) != tt.fails || got[testAddress] != tt.want || len(names) > 0 {
			t.Errorf("%q: %q, %q, %v", tt.value, got, names, err)
		}
	}
	got, names, err := parseEntries(t.Context(), map[string]string{"localhost": "username=core"})
	if err != nil || got["127.0.0.1"] != "core" || names["127.0.0.1"] != "localhost" {
		t.Errorf("a name: %q, %q, %v", got, names, err)
	}
}

// wmcoSite is a WMCO with one host, which is a Node of an earlier version.
type wmcoSite struct {
	*Operator
	host   winhost.Host
	signer ssh.Signer
	// withoutDaemon: the one that is put on the host does not run.
	withoutDaemon atomic.Bool
	// putsBack: somebody writes the desired version of before whenever WMCO has written its own.
	putsBack atomic.Bool
	// refused is why the Secret with the user data cannot be written.
	refused error
}

// siteNumber counts the hosts of this process.
var siteNumber atomic.Uint32

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
	// WMCO connects to port 22, which hosts of other tests have at the addresses that are given to hosts one after the other.
	address := fmt.Sprintf("127.96.0.%d", siteNumber.Add(1))
	s := &wmcoSite{host: hosttest.Start(t, winhost.Options{Address: address, Port: 22, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}}), signer: signer}
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
	s.Operator = &Operator{patience: defaultPatience, Options: Options{
		Kube: fake.NewClientset(&node, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: deploymentName}}), Namespace: testNamespace, Version: testVersion, MachineUser: "Administrator",
		Host: func(string) (Host, error) {
			return Host{System: system, Name: "a", Put: func() error {
				err := errors.Join(
					system.MakeDirectory(`C:\k`, config.AccessInherited), system.WriteFile(testDaemon, nil, config.AccessInherited),
					system.CreateService("kubelet", config.ServiceSettings{Description: "OpenShift managed kubelet", CommandLine: "k"}, nil),
					system.CreateService(daemonName, config.ServiceSettings{Description: "OpenShift managed " + daemonName, CommandLine: testDaemon}, nil),
				)
				if err != nil || s.withoutDaemon.Load() {
					return err
				}
				return system.StartService(daemonName)
			}}, nil
		},
	}, client: ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if n, is := o.(*corev1.Node); is && s.putsBack.Load() && n.Annotations[desiredName] == testVersion {
				n.Annotations[desiredName] = "v1" // so soon that no daemon has seen the other one
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if s.refused != nil {
				return s.refused
			}
			return c.Update(ctx, o, opts...)
		},
	}).Build()}
	ctx, cancel := context.WithCancel(context.Background())
	var daemons sync.WaitGroup
	daemons.Go(func() { s.runDaemons(ctx) })
	t.Cleanup(func() { cancel(); daemons.Wait() })
	return s
}

// has says whether the host has a service.
func (s *wmcoSite) has(t *testing.T, service string) bool {
	t.Helper()
	system, _ := winhost.SystemOf(s.host)
	found, err := system.Service(service)
	if err != nil {
		t.Fatal(err)
	}
	return found != nil
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

// TestVersionOfDaemon: WMCO has a node when the daemon of its host has written the version that it has asked for. Until then the Node is
// cordoned and upgraded, also when WMCO has given up, and it tries again.
func TestVersionOfDaemon(t *testing.T) {
	for name, stand := range map[string]func(s *wmcoSite, in bool){
		"its daemon does not run":        func(s *wmcoSite, in bool) { s.withoutDaemon.Store(in) },
		"somebody puts the version back": func(s *wmcoSite, in bool) { s.putsBack.Store(in) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, func(n *corev1.Node) { setLabel(n, byohLabel, "true") })
			if err := s.client.Create(t.Context(), entry(s.host.Address(), "username=Administrator")); err != nil {
				t.Fatal(err)
			}
			stand(s, true)
			s.patience = 2 * interval
			err := s.pass(t.Context())
			if err == nil || !strings.Contains(err.Error(), "waiting for version 11.0.0 of Node a") || len(s.Deeds()) > 0 {
				t.Errorf("it did %q: %v", s.Deeds(), err)
			}
			node := s.node(t)
			if has, _ := versionOf(node); has || !node.Spec.Unschedulable || node.Labels[upgradingLabel] != "true" {
				t.Errorf("the Node is %+v", node)
			}
			if s.has(t, "kubelet") || s.has(t, daemonName) {
				t.Error("its services are there")
			}
			stand(s, false)
			s.patience = defaultPatience
			if err := s.pass(t.Context()); err != nil || !slices.Equal(s.Deeds(), []string{"Configure " + s.host.Address()}) {
				t.Errorf("once more it did %q: %v", s.Deeds(), err)
			}
			node = s.node(t)
			if _, version := versionOf(node); version != testVersion || node.Spec.Unschedulable || node.Labels[upgradingLabel] != "" || !s.has(t, daemonName) {
				t.Errorf("the Node is %+v", node)
			}
		})
	}
}

// TestWait: while another Node is upgraded WMCO does nothing about entries that come after, nor about Nodes without one.
func TestWait(t *testing.T) {
	other := windowsNode("b", "10.0.0.2", "label:"+upgradingLabel, "true")
	unlisted := windowsNode("c", "10.0.0.3", "label:"+byohLabel, "true")
	s := newSite(t, func(n *corev1.Node) { setLabel(n, byohLabel, "true") }, &other, &unlisted)
	if err := s.client.Create(t.Context(), entry(s.host.Address(), "username=Administrator")); err != nil {
		t.Fatal(err)
	}
	err := s.pass(t.Context())
	if err == nil || !strings.Contains(err.Error(), "another Node is being upgraded") || strings.Contains(err.Error(), "10.0.0.3") || len(s.Deeds()) > 0 {
		t.Errorf("it did %q: %v", s.Deeds(), err)
	}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "c"}, &corev1.Node{}); err != nil {
		t.Errorf("the Node without an entry: %v", err)
	}
}

// TestUserData: user data of others costs all Machines, and an entry nothing; that which is missing costs nobody.
func TestUserData(t *testing.T) {
	current := func(n *corev1.Node) { setAnnotation(n, versionName, testVersion) }
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: machineNamespace, Name: userDataName, Labels: map[string]string{"theirs": ""}}, Data: map[string][]byte{userDataKey: []byte("other")}}
	for _, tt := range []struct {
		name    string
		change  func(*corev1.Node)
		machine *machinev1beta1.Machine
		secret  *corev1.Secret
		refused error
		// want is what it does, problem what it says. kept: the Secret is as it was.
		want, problem string
		kept          bool
	}{
		{name: "of others, and a Machine", change: current, machine: machine("a"), secret: foreign, want: "DeleteMachine"},
		{name: "of others, and a Machine of another version", change: func(*corev1.Node) {}, machine: machine("a"), secret: foreign, want: "DeleteMachine"},
		{name: "it cannot be replaced", change: current, machine: machine("a"), secret: foreign, refused: errors.New("denied"), want: "DeleteMachine", problem: "denied", kept: true},
		{
			name: "it cannot be replaced, and a Machine without a Node", change: current, secret: foreign, refused: errors.New("denied"), problem: "Refuse", kept: true,
			machine: machine("", func(m *machinev1beta1.Machine) {
				m.Status.Phase, m.Status.NodeRef = ptr.To(machinev1beta1.PhaseProvisioned), nil
			}),
		},
		{name: "missing, and a Machine", change: current, machine: machine("a")},
		{name: "of others, and an entry", change: func(n *corev1.Node) {
			current(n)
			setLabel(n, byohLabel, "true")
			setAnnotation(n, keyHashName, "0")
		}, secret: foreign},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var more []client.Object
			if tt.secret != nil {
				more = append(more, tt.secret.DeepCopy())
			}
			if tt.machine != nil {
				more = append(more, tt.machine)
			}
			s := newSite(t, tt.change, more...)
			s.refused = tt.refused
			if tt.machine == nil {
				if err := s.client.Create(t.Context(), entry(s.host.Address(), "username=core")); err != nil {
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
			_, key, err := s.read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			secret := &corev1.Secret{}
			if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: machineNamespace, Name: userDataName}, secret); err != nil || slices.Equal(secret.Data[userDataKey], key.userData()) == tt.kept || !tt.kept && len(secret.Labels) > 0 {
				t.Errorf("the Secret is %+v: %v", secret, err)
			}
			if tt.machine == nil {
				a := s.node(t).Annotations
				if user, err := key.decrypt(a[usernameName]); err != nil || user != "core" || a[keyHashName] != Hash(s.signer.PublicKey()) {
					t.Errorf("the Node of an entry has user %q, hash %s: %v", user, a[keyHashName], err)
				}
			}
		})
	}
}

// TestServices: ConfigMaps of services go when no Windows Node has their version, however often they come.
func TestServices(t *testing.T) {
	const v1, ours = "windows-services-v1", "windows-services-11.0.0"
	linux := windowsNode("b", "10.0.0.2", versionName, "v2")
	linux.Labels = nil
	s := newSite(t, func(*corev1.Node) {}, &linux)
	wants := func(when string, wantDeeds []string, want ...string) {
		t.Helper()
		if err := s.pass(t.Context()); err != nil || !slices.Equal(s.Deeds(), wantDeeds) {
			t.Errorf("%s it did %q, want %q: %v", when, s.Deeds(), wantDeeds, err)
		}
		var list corev1.ConfigMapList
		if err := s.client.List(t.Context(), &list, client.InNamespace(testNamespace)); err != nil {
			t.Fatal(err)
		}
		got := make([]string, 0, len(list.Items))
		for i := range list.Items {
			got = append(got, list.Items[i].Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s there are %q, want %q", when, got, want)
		}
	}
	publish := func(name string) {
		t.Helper()
		if err := s.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	publish(v1)
	publish("windows-services-v2")
	wants("with a Node of v1", []string{"RemoveServices v2"}, ours, v1)
	if err := s.change(t.Context(), s.node(t), func(n *corev1.Node) { delete(n.Annotations, versionName) }); err != nil {
		t.Fatal(err)
	}
	wants("without", []string{"RemoveServices v2", "RemoveServices v1"}, ours)
	publish(v1)
	wants("once more", []string{"RemoveServices v2", "RemoveServices v1", "RemoveServices v1"}, ours)
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
