// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package hostconfig

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/legacy"
)

// clusterDNSOffset is which address of the service network is that of the cluster's DNS.
const clusterDNSOffset = 10

// ClusterDNS returns the address of the DNS of a cluster: the tenth of its service network.
func ClusterDNS(serviceCIDR string) (netip.Addr, error) {
	prefix, err := netip.ParsePrefix(serviceCIDR)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("service network %q: %w", serviceCIDR, err)
	}
	address := prefix.Masked().Addr()
	for range clusterDNSOffset {
		address = address.Next()
	}
	if !prefix.Contains(address) {
		return netip.Addr{}, fmt.Errorf("service network %s has no tenth address", prefix)
	}
	return address, nil
}

// KubeletOptions are the settings of the kubelet that hosts of different pools may differ in.
type KubeletOptions struct {
	// MaxPods is how many pods a host may run. Zero: 250.
	MaxPods int32
	// SystemReserved is what the host keeps for itself. A resource that is missing:
	// cpu 500m, memory 2Gi, ephemeral-storage 1Gi.
	SystemReserved map[corev1.ResourceName]string
}

// KubeletConfiguration returns the configuration of the kubelet of a host.
func KubeletConfiguration(clusterDNS netip.Addr, o KubeletOptions) *kubeletv1beta1.KubeletConfiguration {
	reserved := map[string]string{
		string(corev1.ResourceCPU):              "500m",
		string(corev1.ResourceMemory):           "2Gi",
		string(corev1.ResourceEphemeralStorage): "1Gi",
	}
	for name, quantity := range o.SystemReserved {
		reserved[string(name)] = quantity
	}
	maxPods := o.MaxPods
	if maxPods == 0 {
		maxPods = 250
	}
	return &kubeletv1beta1.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletv1beta1.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},

		// Who it is, and who may talk to it.
		RegisterNode:       ptr.To(true),
		RegisterWithTaints: []corev1.Taint{{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}},
		RotateCertificates: true,
		ServerTLSBootstrap: true,
		KubeAPIQPS:         ptr.To[int32](50),
		KubeAPIBurst:       100,
		Authentication: kubeletv1beta1.KubeletAuthentication{
			X509:      kubeletv1beta1.KubeletX509Authentication{ClientCAFile: legacy.KubeletCAPath},
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
		},

		// Pods.
		ContainerRuntimeEndpoint: "npipe://./pipe/containerd-containerd",
		ClusterDomain:            "cluster.local",
		ClusterDNS:               []string{clusterDNS.String()},
		// Windows keeps its resolver in the registry, not in a file.
		ResolverConfig:        ptr.To(""),
		MaxPods:               maxPods,
		SerializeImagePulls:   ptr.To(false),
		RuntimeRequestTimeout: metav1.Duration{Duration: 10 * time.Minute},

		// Resources. There are no cgroups on Windows; the thresholds are taken off what
		// can be allocated all the same.
		CgroupsPerQOS:          ptr.To(false),
		EnforceNodeAllocatable: []string{"none"},
		EvictionHard:           map[string]string{"nodefs.available": "10%", "imagefs.available": "15%"},
		SystemReserved:         reserved,

		// Logs.
		ContainerLogMaxSize:    "50Mi",
		EnableSystemLogHandler: ptr.To(true),
		EnableSystemLogQuery:   ptr.To(true),
		FeatureGates:           map[string]bool{"NodeLogQuery": true, "RotateKubeletServerCertificate": true},
		Logging: logsapi.LoggingConfiguration{
			FlushFrequency: logsapi.TimeOrMetaDuration{Duration: metav1.Duration{Duration: 5 * time.Second}, SerializeAsString: true},
		},
	}
}

// kubeletConfigText returns the file kubelet.conf.
func kubeletConfigText(clusterDNS netip.Addr, o KubeletOptions) (string, error) {
	encoded, err := json.Marshal(KubeletConfiguration(clusterDNS, o))
	if err != nil {
		return "", fmt.Errorf("encode the configuration of the kubelet: %w", err)
	}
	return string(encoded), nil
}
