// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

func TestValidateWindowsNodePool(t *testing.T) {
	bastion, broken := validBastion(t), validBastion(t)
	broken.Address, broken.HostKeys = "a b", append(broken.HostKeys, "none")
	named := func(name string) *windows.SourceReference { return &windows.SourceReference{Name: name} }
	for _, test := range []struct {
		name string
		spec windows.WindowsNodePoolSpec
		want []string
	}{
		{"of a MachineSet", windows.WindowsNodePoolSpec{Source: windows.PoolSource{MachineSet: named("winworker")}}, nil},
		{"of a ConfigMap", windows.WindowsNodePoolSpec{Source: windows.PoolSource{ConfigMap: named("windows-instances")}}, nil},
		{"of instances", windows.WindowsNodePoolSpec{Source: windows.PoolSource{Instances: &windows.InstancesSource{}}}, nil},
		{"bad MachineSet", windows.WindowsNodePoolSpec{Source: windows.PoolSource{MachineSet: named("a/b")}}, []string{"Invalid spec.source.machineSet.name"}},
		{"bad ConfigMap", windows.WindowsNodePoolSpec{Source: windows.PoolSource{ConfigMap: named("A")}}, []string{"Invalid spec.source.configMap.name"}},
		{"bad Secret", windows.WindowsNodePoolSpec{
			Source:   windows.PoolSource{ConfigMap: named("x")},
			Template: windows.PoolTemplate{CredentialsSecretRef: &windows.SecretReference{Name: "a b"}},
		}, []string{"Invalid spec.template.credentialsSecretRef.name"}},
		{"bastion", windows.WindowsNodePoolSpec{Source: windows.PoolSource{ConfigMap: named("x")}, Template: windows.PoolTemplate{Bastion: bastion}}, nil},
		{"bad bastion", windows.WindowsNodePoolSpec{
			Source: windows.PoolSource{ConfigMap: named("x")}, Template: windows.PoolTemplate{Bastion: broken},
		}, []string{"Invalid spec.template.bastion.address", "Invalid spec.template.bastion.hostKeys[1]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := &windows.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", ResourceVersion: "1"}, Spec: test.spec}
			check(t, test.want, ValidateWindowsNodePool(pool))
			old := pool.DeepCopy()
			old.Spec = windows.WindowsNodePoolSpec{Source: windows.PoolSource{Instances: &windows.InstancesSource{}}}
			check(t, test.want, ValidateWindowsNodePoolUpdate(pool, old))
			// What is wrong in a stored pool does not keep its users from changing the rest.
			paused := pool.DeepCopy()
			paused.Spec.Paused = true
			check(t, nil, ValidateWindowsNodePoolUpdate(paused, pool))
			check(t, nil, ValidateWindowsNodePoolStatusUpdate(pool, pool.DeepCopy()))
		})
	}
}

func TestValidatePoolTemplate(t *testing.T) {
	taint := func(key, value string, effect windows.NodeTaintEffect) windows.NodeTaint {
		return windows.NodeTaint{Key: key, Value: value, Effect: effect}
	}
	for _, test := range []struct {
		name     string
		template windows.PoolTemplate
		want     []string
	}{
		{"everything", windows.PoolTemplate{
			NodeLabels: map[string]string{"rack": "r1", "node-role.kubernetes.io/worker": "", "node.kubernetes.io/pool": "a", "example.com/x": "y"},
			NodeTaints: []windows.NodeTaint{taint("os", "Windows", "NoSchedule"), taint("os", "Windows", "PreferNoSchedule")},
			Kubelet: &windows.KubeletTemplate{
				SystemReserved: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				KubeReserved:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0")},
				EvictionHard:   map[string]string{"memory.available": "500Mi", "nodefs.available": "12.5%", "imagefs.available": "0%"},
			},
			Containerd:  &windows.ContainerdTemplate{SandboxImage: "mcr.example.com:5000/oss/pause:3.9@sha256-x"},
			LogRotation: &windows.LogRotationTemplate{MaxSize: new(resource.MustParse("100Mi")), MaxAgeSeconds: new(int64(0))},
		}, nil},
		{"logs are not rotated", windows.PoolTemplate{LogRotation: &windows.LogRotationTemplate{MaxSize: new(resource.MustParse("0"))}}, nil},
		{"label of the kubelet", windows.PoolTemplate{NodeLabels: map[string]string{"kubernetes.io/os": "linux"}}, []string{"Forbidden spec.template.nodeLabels[kubernetes.io/os]"}},
		{"label of a cloud", windows.PoolTemplate{NodeLabels: map[string]string{"topology.kubernetes.io/zone": "a"}}, []string{"Forbidden spec.template.nodeLabels[topology.kubernetes.io/zone]"}},
		{"role of the control plane", windows.PoolTemplate{NodeLabels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}, []string{"Forbidden spec.template.nodeLabels[node-role.kubernetes.io/control-plane]"}},
		{"load balancers", windows.PoolTemplate{NodeLabels: map[string]string{"node.kubernetes.io/exclude-from-external-load-balancers": ""}}, []string{"Forbidden spec.template.nodeLabels[node.kubernetes.io/exclude-from-external-load-balancers]"}},
		{"no label", windows.PoolTemplate{NodeLabels: map[string]string{"a b": "c"}}, []string{"Invalid spec.template.nodeLabels"}},
		{"no value of a label", windows.PoolTemplate{NodeLabels: map[string]string{"a": "b c"}}, []string{"Invalid spec.template.nodeLabels"}},
		{"taint without a key, as the type says", windows.PoolTemplate{NodeTaints: []windows.NodeTaint{taint("", "1", "NoSchedule")}}, nil},
		{"taint of another key", windows.PoolTemplate{NodeTaints: []windows.NodeTaint{taint("a b", "1", "NoSchedule")}}, []string{"Invalid spec.template.nodeTaints[0].key"}},
		{"no sandbox image, as by default", windows.PoolTemplate{Containerd: &windows.ContainerdTemplate{}}, nil},
		{"logs as small as they may be", windows.PoolTemplate{LogRotation: &windows.LogRotationTemplate{MaxSize: new(resource.MustParse("64Ki"))}}, nil},
		{"value of a taint", windows.PoolTemplate{NodeTaints: []windows.NodeTaint{taint("a", "b c", "NoSchedule")}}, []string{"Invalid spec.template.nodeTaints[0].value"}},
		{"reserves something else", windows.PoolTemplate{Kubelet: &windows.KubeletTemplate{KubeReserved: corev1.ResourceList{"pods": resource.MustParse("1")}}}, []string{"NotSupported spec.template.kubelet.kubeReserved[pods]"}},
		{"reserves less than nothing", windows.PoolTemplate{Kubelet: &windows.KubeletTemplate{SystemReserved: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-1")}}}, []string{"Invalid spec.template.kubelet.systemReserved[cpu]"}},
		{"signal of Linux", windows.PoolTemplate{Kubelet: &windows.KubeletTemplate{EvictionHard: map[string]string{"pid.available": "10%"}}}, []string{"NotSupported spec.template.kubelet.evictionHard[pid.available]"}},
		{"all of the disk", windows.PoolTemplate{Kubelet: &windows.KubeletTemplate{EvictionHard: map[string]string{"nodefs.available": "100%"}}}, []string{"Invalid spec.template.kubelet.evictionHard[nodefs.available]"}},
		{"no threshold", windows.PoolTemplate{Kubelet: &windows.KubeletTemplate{EvictionHard: map[string]string{"nodefs.available": "some"}}}, []string{"Invalid spec.template.kubelet.evictionHard[nodefs.available]"}},
		{"a threshold that no kubelet starts with", windows.PoolTemplate{Kubelet: &windows.KubeletTemplate{EvictionHard: map[string]string{"memory.available": "0"}}}, []string{"Invalid spec.template.kubelet.evictionHard[memory.available]"}},
		{"that of all workers is none", windows.PoolTemplate{Kubelet: &windows.KubeletTemplate{EvictionHard: map[string]string{"memory.available": "0%"}}}, nil},
		{"image with a quote", windows.PoolTemplate{Containerd: &windows.ContainerdTemplate{SandboxImage: "a\"b"}}, []string{"Invalid spec.template.containerd.sandboxImage"}},
		{"tiny logs", windows.PoolTemplate{LogRotation: &windows.LogRotationTemplate{MaxSize: new(resource.MustParse("100"))}}, []string{"Invalid spec.template.logRotation.maxSize"}},
		{"negative size", windows.PoolTemplate{LogRotation: &windows.LogRotationTemplate{MaxSize: new(resource.MustParse("-1Mi"))}}, []string{"Invalid spec.template.logRotation.maxSize"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := windows.WindowsNodePoolSpec{Source: windows.PoolSource{ConfigMap: &windows.SourceReference{Name: "x"}}, Template: test.template}
			check(t, test.want, ValidateWindowsNodePool(&windows.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: spec}))
		})
	}
}

// TestTaintsThatEvict: a pool gets no taint that evicts the pods of all its hosts at once. One that has such a taint keeps it, and can be
// changed otherwise.
func TestTaintsThatEvict(t *testing.T) {
	const evicts = "Forbidden spec.template.nodeTaints[0].effect"
	a, b := windows.NodeTaint{Key: "a", Value: "1", Effect: "NoExecute"}, windows.NodeTaint{Key: "b", Effect: "NoSchedule"}
	other, another := a, a
	other.Value, another.Key = "2", "c"
	pool := func(taints ...windows.NodeTaint) *windows.WindowsNodePool {
		return &windows.WindowsNodePool{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", ResourceVersion: "1"},
			Spec:       windows.WindowsNodePoolSpec{Source: windows.PoolSource{Instances: &windows.InstancesSource{}}, Template: windows.PoolTemplate{NodeTaints: taints}},
		}
	}
	check(t, []string{evicts}, ValidateWindowsNodePool(pool(a, b)))
	check(t, nil, ValidateWindowsNodePool(pool(b)))
	for _, tt := range []struct {
		name     string
		old, now []windows.NodeTaint
		want     []string
	}{
		{"unchanged", []windows.NodeTaint{a}, []windows.NodeTaint{a}, nil},
		{"another one is added before it", []windows.NodeTaint{a}, []windows.NodeTaint{b, a}, nil},
		{"it is removed", []windows.NodeTaint{a, b}, []windows.NodeTaint{b}, nil},
		{"added", []windows.NodeTaint{b}, []windows.NodeTaint{a, b}, []string{evicts}},
		{"added to none", nil, []windows.NodeTaint{a}, []string{evicts}},
		{"another key in its place", []windows.NodeTaint{a}, []windows.NodeTaint{another}, []string{evicts}},
		{"another value, which other pods tolerate", []windows.NodeTaint{a}, []windows.NodeTaint{other}, []string{evicts}},
		{"another effect so far", []windows.NodeTaint{{Key: "a", Value: "1", Effect: "NoSchedule"}}, []windows.NodeTaint{a}, []string{evicts}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.want, ValidateWindowsNodePoolUpdate(pool(tt.now...), pool(tt.old...)))
		})
	}
	if message := ValidateWindowsNodePool(pool(a)).ToAggregate().Error(); !strings.Contains(message, "use NoSchedule") || !strings.Contains(message, "kubectl windows rollout restart") {
		t.Errorf("it does not say what to do: %s", message)
	}
}

func TestValidateWindowsNodePoolMeta(t *testing.T) {
	old := &windows.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name", Namespace: "default", UID: "1", ResourceVersion: "1"}}
	check(t, []string{"Invalid metadata.name"}, ValidateWindowsNodePool(old))
	changed := old.DeepCopy()
	changed.UID = "2"
	check(t, []string{"Invalid metadata.uid"}, ValidateWindowsNodePoolUpdate(changed, old))
	check(t, []string{"Invalid metadata.uid"}, ValidateWindowsNodePoolStatusUpdate(changed, old))
}

func TestValidateWindowsNodePoolStatusUpdate(t *testing.T) {
	old := &windows.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", ResourceVersion: "1"}}
	pool := old.DeepCopy()
	pool.Status.Conditions = []metav1.Condition{{Type: "Degraded", Status: "Maybe", Reason: "X", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}
	check(t, []string{"NotSupported status.conditions[0].status"}, ValidateWindowsNodePoolStatusUpdate(pool, old))
}
