// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func controlled(by metav1.OwnerReference) []metav1.OwnerReference {
	by.Controller = ptrTo(true)
	return []metav1.OwnerReference{by}
}

// What belongs to others that have the name of a Machine, or of its API, is not taken for its own.
func TestWhoseInstance(t *testing.T) {
	const ours = "machine.openshift.io/v1beta1"
	for _, tt := range []struct {
		name       string
		owners     []metav1.OwnerReference
		annotation string
		want       bool
	}{
		{name: "of the Machine", owners: controlled(metav1.OwnerReference{APIVersion: ours, Kind: "Machine", Name: "m"}), want: true},
		{name: "of a later version of its API", owners: controlled(metav1.OwnerReference{APIVersion: "machine.openshift.io/v1", Kind: "Machine", Name: "m"}), want: true},
		{name: "of another API", owners: controlled(metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Machine", Name: "m"}), annotation: "Machine openshift-machine-api/m"},
		{name: "of another kind", owners: controlled(metav1.OwnerReference{APIVersion: ours, Kind: "MachineSet", Name: "m"}), annotation: "Machine openshift-machine-api/m"},
		{name: "of another Machine", owners: controlled(metav1.OwnerReference{APIVersion: ours, Kind: "Machine", Name: "n"}), annotation: "Machine openshift-machine-api/m"},
		{name: "of nobody any more", annotation: "Machine openshift-machine-api/m", want: true},
		{name: "made by hand"},
		{name: "made from an entry", annotation: "ConfigMap openshift-machine-api/m"},
	} {
		instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", OwnerReferences: tt.owners, Annotations: map[string]string{v1alpha1.SourceAnnotation: tt.annotation}}}
		if got := belongs(instance); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
	for _, tt := range []struct {
		name  string
		owner metav1.OwnerReference
		want  string
	}{
		{"a MachineSet", metav1.OwnerReference{APIVersion: ours, Kind: "MachineSet", Name: "s"}, "s"},
		{"a MachineSet of another API", metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "MachineSet", Name: "s"}, ""},
		{"another kind", metav1.OwnerReference{APIVersion: ours, Kind: "ControlPlaneMachineSet", Name: "s"}, ""},
	} {
		if got := setOf(&machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{OwnerReferences: controlled(tt.owner)}}); got != tt.want {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
	for _, tt := range []struct {
		pool, set string
		want      bool
	}{{"s", "s", true}, {"other", "s", false}, {"s", "other", false}} {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: tt.pool}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{MachineSet: &v1alpha1.SourceReference{Name: tt.set}}}}
		if got := asksFor(pool, "s"); got != tt.want {
			t.Errorf("pool %s of MachineSet %s: got %v", tt.pool, tt.set, got)
		}
	}
}

// An instance that somebody made by hand under the name of a Machine is left alone, whatever
// becomes of the Machine, and one that goes already is not changed.
func TestOthersAreLeftAlone(t *testing.T) {
	ignored := windowsMachine("m", "")
	ignored.Labels["windowsmachineconfig.openshift.io/ignore"] = "true"
	linux := windowsMachine("m", "")
	linux.Labels = nil
	going := windowsMachine("m", "")
	going.Finalizers, going.DeletionTimestamp = []string{"example.com/f"}, ptrTo(metav1.NewTime(time.Unix(1, 0)))
	byHand := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}, Spec: v1alpha1.WindowsInstanceSpec{Address: "10.0.0.9"}}
	deleted := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", Finalizers: []string{v1alpha1.HostFinalizer}, DeletionTimestamp: ptrTo(metav1.NewTime(time.Unix(1, 0))),
			OwnerReferences: controlled(metav1.OwnerReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "m", UID: "uid-of-m"})},
	}
	for name, machine := range map[string]*machinev1beta1.Machine{"runs": windowsMachine("m", ""), "ignored": ignored, "without the label": linux, "being deleted": going, "gone": nil} {
		for whose, instance := range map[string]*v1alpha1.WindowsInstance{"by hand": byHand, "deleted": deleted} {
			t.Run(name+", "+whose, func(t *testing.T) {
				objects := []client.Object{instance.DeepCopy()}
				if machine != nil {
					objects = append(objects, machine.DeepCopy())
				}
				f := newFixture(t, objects...)
				before := f.instance("m")
				if writes := f.settle("m"); writes != nil {
					t.Errorf("wrote %q", writes)
				}
				if diff := cmp.Diff(before, f.instance("m")); diff != "" {
					t.Errorf("it was changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}

// What a pool says of its MachineSet.
func TestSourceStatus(t *testing.T) {
	pool := func(name string) *v1alpha1.WindowsNodePool {
		source := "s"
		if name == "winworkers" {
			source = name
		}
		return &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 4}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{MachineSet: &v1alpha1.SourceReference{Name: source}}}}
	}
	one := machineSet("s", true)
	one.Spec.Replicas = nil
	none := machineSet("s", true)
	none.Spec.Replicas = new(int32(0))
	long := machineSet("winworkers", true)
	for _, tt := range []struct {
		pool     string
		set      *machinev1beta1.MachineSet
		platform configv1.PlatformType
		desired  int32
		want     string
	}{
		{"s", machineSet("s", true), configv1.NutanixPlatformType, 2, "True Synced: The MachineSet asks for 2 Machines."},
		{"s", one, configv1.NutanixPlatformType, 1, "True Synced: The MachineSet asks for 1 Machine."},
		{"s", none, configv1.NutanixPlatformType, 0, "True Synced: The MachineSet asks for 0 Machines."},
		{"s", nil, configv1.NutanixPlatformType, 0, "False SourceNotFound: There is no MachineSet ns/s."},
		{"s", machineSet("s", false), configv1.NutanixPlatformType, 0, "False SourceNotFound: The template of MachineSet openshift-machine-api/s has no label machine.openshift.io/os-id=Windows."},
		{"other", machineSet("s", true), configv1.NutanixPlatformType, 0, "False SourceNotFound: The pool of a MachineSet has the name of the MachineSet: the Machines of s belong to a pool s."},
		{"winworkers", long, configv1.NutanixPlatformType, 2, "True Synced: The MachineSet asks for 2 Machines. Its name has more than 9 characters: Windows cannot have the names of its Machines, and hosts keep their own."},
		{"winworkers", long, configv1.AWSPlatformType, 2, "True Synced: The MachineSet asks for 2 Machines."},
	} {
		desired, c := sourceStatus(pool(tt.pool), tt.set, tt.platform)
		if got := string(c.Status) + " " + c.Reason + ": " + c.Message; got != tt.want || desired != tt.desired || c.ObservedGeneration != 4 || c.Type != v1alpha1.ConditionSourceSynced {
			t.Errorf("got %d, %s, want %d, %s", desired, got, tt.desired, tt.want)
		}
	}
}

// Addresses that no host can be reached at are passed over.
func TestAddressesOfNoHost(t *testing.T) {
	ips := func(all ...string) (out []corev1.NodeAddress) {
		for _, ip := range all {
			out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
		return out
	}
	for _, bad := range []string{"0.0.0.0", "::", "224.0.0.1", "ff02::1", "169.254.1.1", "fe80::1", "pending"} {
		if got := Address(ips(bad, "10.0.0.5"), ""); got != "10.0.0.5" {
			t.Errorf("%s: got %q", bad, got)
		}
		if got := Address(ips(bad), ""); got != "" {
			t.Errorf("%s alone: got %q", bad, got)
		}
	}
}

// A cluster without an Infrastructure is none of the platforms with a user of its own, and of one whose Infrastructure says no platform
// nothing is known; what it says is asked for once.
func TestPlatform(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1.Install, mcfgv1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	silent := infrastructure("")
	none := infrastructure("")
	none.Status.PlatformStatus = nil
	former := infrastructure("")
	former.Status.PlatformStatus, former.Status.Platform = nil, configv1.AWSPlatformType //nolint:staticcheck // of the first releases
	for name, tt := range map[string]struct {
		live client.Client
		want configv1.PlatformType
	}{
		"it says so":                           {clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(infrastructure(configv1.AzurePlatformType)).Build(), configv1.AzurePlatformType},
		"it says so as the first releases did": {clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(former).Build(), configv1.AWSPlatformType},

		"it says nothing":  {clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(silent).Build(), ""},
		"it has no status": {clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(none).Build(), ""},
		"there is no such kind": {interceptor.NewClient(clientfake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return &meta.NoKindMatchError{}
			},
		}), configv1.NonePlatformType},
		"it was deleted":     {clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(&mcfgv1.ControllerConfig{ObjectMeta: metav1.ObjectMeta{Name: "machine-config-controller"}}).Build(), ""},
		"there is no object": {clientfake.NewClientBuilder().WithScheme(scheme).Build(), configv1.NonePlatformType},
	} {
		p := &platformReader{live: tt.live}
		if got, err := p.Platform(t.Context()); got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if tt.want == configv1.AzurePlatformType {
			p.live = nil // it is not read again
			if got, err := p.Platform(t.Context()); got != tt.want || err != nil {
				t.Errorf("again: got %q, %v", got, err)
			}
		}
	}
}
