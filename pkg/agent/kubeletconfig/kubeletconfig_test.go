// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubeletconfig

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

type settings = kubeletv1beta1.KubeletConfiguration

// text encodes a configuration by the types of Kubernetes, which have the names of the fields.
func text(t *testing.T, s settings) []byte {
	t.Helper()
	s.APIVersion, s.Kind = kubeletv1beta1.SchemeGroupVersion.String(), "KubeletConfiguration"
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestLess(t *testing.T) {
	reserved := func(values ...string) map[string]string {
		m := map[string]string{}
		for n := 0; n < len(values); n += 2 {
			m[values[n]] = values[n+1]
		}
		return m
	}
	numa := func(node int32, memory string) []kubeletv1beta1.MemoryReservation {
		return []kubeletv1beta1.MemoryReservation{{NumaNode: node, Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}}
	}
	tests := []struct {
		name         string
		before, next settings
		want         []string // from before to next
		back         []string // from next to before
	}{
		{name: "the same"},
		{name: "what pods do not notice", before: settings{ClusterDomain: "a"}, next: settings{ClusterDomain: "b", ContainerLogMaxSize: "1Mi", RegisterWithTaints: []corev1.Taint{{Key: "k"}}}},
		{name: "pods", before: settings{MaxPods: 250}, next: settings{MaxPods: 110}, want: []string{"maxPods"}},
		{name: "pods, and as many by default", before: settings{MaxPods: 110}},
		{name: "pods, and fewer by default", before: settings{MaxPods: 111}, want: []string{"maxPods"}},
		{name: "pods for each core", next: settings{PodsPerCore: 10}, want: []string{"podsPerCore"}},
		{name: "fewer pods for each core", before: settings{PodsPerCore: 10}, next: settings{PodsPerCore: 9}, want: []string{"podsPerCore"}},
		{
			name: "reservation", before: settings{SystemReserved: reserved("memory", "2Gi", "cpu", "500m")}, next: settings{SystemReserved: reserved("memory", "3Gi", "cpu", "0.5")},
			want: []string{"systemReserved.memory"},
		},
		{name: "the first reservation", next: settings{KubeReserved: reserved("memory", "1")}, want: []string{"kubeReserved.memory"}},
		{name: "reservation of another resource", before: settings{SystemReserved: reserved("cpu", "1")}, next: settings{SystemReserved: reserved("memory", "1")}, want: []string{"systemReserved.memory"}, back: []string{"systemReserved.cpu"}},
		{name: "the same in another unit", before: settings{SystemReserved: reserved("memory", "2Gi")}, next: settings{SystemReserved: reserved("memory", "2147483648")}},
		{name: "from the system to the kubelet", before: settings{SystemReserved: reserved("memory", "2Gi")}, next: settings{SystemReserved: reserved("memory", "1Gi"), KubeReserved: reserved("memory", "1024Mi")}},
		{name: "more from the system to the kubelet", before: settings{SystemReserved: reserved("cpu", "1")}, next: settings{KubeReserved: reserved("cpu", "1001m")}, want: []string{"systemReserved.cpu"}},
		{name: "a reservation that is none", next: settings{SystemReserved: reserved("cpu", "0")}},
		{name: "a reservation that is no quantity", next: settings{SystemReserved: reserved("cpu", "much")}, want: []string{"systemReserved.cpu"}},
		{name: "threshold in bytes", before: settings{EvictionHard: reserved("memory.available", "500Mi")}, next: settings{EvictionHard: reserved("memory.available", "1Gi")}, want: []string{"evictionHard.memory.available"}},
		{name: "threshold in percent", before: settings{EvictionHard: reserved("nodefs.available", "9%")}, next: settings{EvictionHard: reserved("nodefs.available", "10%")}, want: []string{"evictionHard.nodefs.available"}},
		{name: "fractions of a percent", before: settings{EvictionHard: reserved("nodefs.available", "9.5%")}, next: settings{EvictionHard: reserved("nodefs.available", "9.50%")}},
		{
			name: "bytes and percent", before: settings{EvictionHard: reserved("memory.available", "500Mi")}, next: settings{EvictionHard: reserved("memory.available", "1%")},
			want: []string{"evictionHard.memory.available"}, back: []string{"evictionHard.memory.available"},
		},
		{name: "a threshold that is none", before: settings{EvictionHard: reserved("memory.available", "0%")}, next: settings{EvictionHard: reserved("memory.available", "100%")}},
		{name: "the first threshold", before: settings{EvictionHard: reserved("memory.available", "100%")}, next: settings{EvictionHard: reserved("memory.available", "1%")}, want: []string{"evictionHard.memory.available"}},
		{name: "thresholds by default", next: settings{EvictionHard: reserved("memory.available", "500Mi", "nodefs.available", "10%", "imagefs.available", "15%")}},
		{
			name: "fewer thresholds than by default", next: settings{EvictionHard: reserved("memory.available", "500Mi")},
			back: []string{"evictionHard.imagefs.available", "evictionHard.nodefs.available"},
		},
		{name: "the others by default", next: settings{EvictionHard: reserved("memory.available", "500Mi"), MergeDefaultEvictionSettings: new(true)}},
		{name: "soft threshold", next: settings{EvictionSoft: reserved("memory.available", "1Gi")}, want: []string{"evictionSoft.memory.available"}},
		{name: "a percentage that is none", before: settings{EvictionSoft: reserved("x", "NaN%")}, next: settings{EvictionSoft: reserved("x", "1%")}, want: []string{"evictionSoft.x"}, back: []string{"evictionSoft.x"}},
		{name: "enforced, and by default", next: settings{EnforceNodeAllocatable: []string{"pods"}}},
		{name: "not enforced", next: settings{EnforceNodeAllocatable: []string{"none"}}, back: []string{"enforceNodeAllocatable"}},
		{name: "enforced on more", next: settings{EnforceNodeAllocatable: []string{"pods", "system-reserved"}}, want: []string{"enforceNodeAllocatable"}},
		{name: "policies by default", next: settings{CPUManagerPolicy: "none", MemoryManagerPolicy: "None", TopologyManagerPolicy: "none", TopologyManagerScope: "container", LocalStorageCapacityIsolation: new(true), FeatureGates: map[string]bool{}}},
		{name: "policy of processors", next: settings{CPUManagerPolicy: "static"}, want: []string{"cpuManagerPolicy"}, back: []string{"cpuManagerPolicy"}},
		{
			name: "memory of a NUMA node", before: settings{MemoryManagerPolicy: "Static", ReservedMemory: numa(0, "1Gi")}, next: settings{MemoryManagerPolicy: "Static", ReservedMemory: numa(1, "1Gi")},
			want: []string{"reservedMemory"}, back: []string{"reservedMemory"},
		},
		{name: "reserved processors", next: settings{ReservedSystemCPUs: "0-1"}, want: []string{"reservedSystemCPUs"}, back: []string{"reservedSystemCPUs"}},
		{name: "feature gate", next: settings{FeatureGates: map[string]bool{"WindowsCPUAndMemoryAffinity": true}}, want: []string{"featureGates"}, back: []string{"featureGates"}},
		{name: "space is not counted", next: settings{LocalStorageCapacityIsolation: new(false)}, want: []string{"localStorageCapacityIsolation"}, back: []string{"localStorageCapacityIsolation"}},
		{
			name: "several", before: settings{MaxPods: 250, KubeReserved: reserved("cpu", "1")}, next: settings{MaxPods: 200, KubeReserved: reserved("cpu", "2")},
			want: []string{"kubeReserved.cpu", "maxPods"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, next := text(t, tt.before), text(t, tt.next)
			if got, err := Less(before, next); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			want := tt.back
			if tt.back == nil && tt.want != nil {
				return // more
			}
			if got, err := Less(next, before); err != nil || !slices.Equal(got, want) {
				t.Errorf("back: got %q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestLessOfWhatCannotBeRead(t *testing.T) {
	good := text(t, settings{})
	for name, bad := range map[string]string{
		"empty": "", "YAML": "kind: KubeletConfiguration\n", "no kind": "{}", "more follows": string(good) + "{}",
		"another kind":    `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"CredentialProviderConfig"}`,
		"another version": `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"KubeletConfiguration"}`,
		"another type":    `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":"many"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Less([]byte(bad), good); err == nil {
				t.Errorf("from it: got %q", got)
			}
			if got, err := Less(good, []byte(bad)); err == nil {
				t.Errorf("to it: got %q", got)
			}
		})
	}
}

// TestQuantity compares with what Kubernetes reads.
func TestQuantity(t *testing.T) {
	texts := []string{
		"0", "1", "+1", "-1", "1.5", ".5", "5.", "0.5Gi", "500m", "100u", "100n", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
		"1e3", "1E3", "1e-3", "1E+2", "2147483648", "1.024e3Ki", "1K", "1ki", "1g", "1mi", "1x", "", "1 Gi", " 1", "0x10", "1_000", "1/2", "Inf", "NaN", "1e", "1Ee3",
	}
	for _, text := range texts {
		got, err := quantity(text)
		want, wantErr := resource.ParseQuantity(text)
		if (err != nil) != (wantErr != nil) {
			t.Errorf("%q: got %v, want %v", text, err, wantErr)
		}
		if err != nil || wantErr != nil {
			continue
		}
		for _, other := range texts {
			otherGot, err := quantity(other)
			if err != nil {
				continue
			}
			if got.Cmp(otherGot) != want.Cmp(resource.MustParse(other)) {
				t.Errorf("%q and %q: got %d, want %d", text, other, got.Cmp(otherGot), want.Cmp(resource.MustParse(other)))
			}
		}
	}
	for _, text := range []string{"1e999", "1e999999999", string(make([]byte, 1<<20))} {
		if got, err := quantity(text); err == nil {
			t.Errorf("%.20q is %v", text, got)
		}
	}
}
