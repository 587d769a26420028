// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// clusterDNSOffset is the index of the address of the cluster's DNS in the service network.
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

// DefaultClusterDomain is the domain of the names of services.
const DefaultClusterDomain = "cluster.local"

// DefaultMaxPods is how many pods a host may run.
const DefaultMaxPods = 250

// Defaults of [KubeletOptions].
var (
	defaultSystemReserved = map[string]string{
		string(corev1.ResourceCPU): "500m", string(corev1.ResourceMemory): "2Gi", string(corev1.ResourceEphemeralStorage): "1Gi",
	}
	defaultEvictionHard = map[string]string{"nodefs.available": "10%", "imagefs.available": "15%"}
	defaultTaints       = []corev1.Taint{{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}}
)

// KubeletOptions are the settings in the configuration of the kubelet that hosts of
// different pools may differ in. How much it logs is in [ServiceOptions].
type KubeletOptions struct {
	// Workers are the settings of the kubelets of the cluster's own workers, where it says any: they
	// win over our defaults, and what a pool sets wins over them.
	Workers kubeletv1beta1.KubeletConfiguration
	// ClusterDomain is the domain of the names of services, which all pools share.
	// Empty: [DefaultClusterDomain].
	ClusterDomain string
	// MaxPods is how many pods a host may run. Zero: [DefaultMaxPods].
	MaxPods int32
	// SystemReserved is what is reserved for the system. Defaults by resource: cpu 500m, memory
	// 2Gi, ephemeral-storage 1Gi.
	SystemReserved map[corev1.ResourceName]string
	// KubeReserved is what is reserved for the kubelet and containerd. By default nothing.
	KubeReserved map[corev1.ResourceName]string
	// EvictionHard are the thresholds of eviction by signal. Defaults: nodefs.available 10%,
	// imagefs.available 15%.
	EvictionHard map[string]string
	// Taints are those with which the Node is registered; the kubelet does not change those of an
	// existing Node. Nil: os=Windows:NoSchedule, which repels pods of Linux. Empty: none.
	Taints []corev1.Taint
	// Version of the kubelet. Empty: not known. Build takes that of the payload.
	Version string
}

// KubeletConfiguration returns the configuration of the kubelet of a host.
func KubeletConfiguration(clusterDNS netip.Addr, o KubeletOptions) *kubeletv1beta1.KubeletConfiguration {
	taints := o.Taints
	if taints == nil {
		taints = slices.Clone(defaultTaints)
	}
	workers := o.Workers
	return &kubeletv1beta1.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletv1beta1.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},

		// Registration and authentication.
		RegisterNode:       new(true),
		RegisterWithTaints: taints,
		RotateCertificates: true,
		ServerTLSBootstrap: true,
		KubeAPIQPS:         cmp.Or(workers.KubeAPIQPS, ptr.To[int32](50)),
		KubeAPIBurst:       cmp.Or(workers.KubeAPIBurst, 100),
		TLSMinVersion:      workers.TLSMinVersion,
		TLSCipherSuites:    workers.TLSCipherSuites,
		Authentication: kubeletv1beta1.KubeletAuthentication{
			X509:      kubeletv1beta1.KubeletX509Authentication{ClientCAFile: wmco.KubeletCAPath},
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: new(false)},
		},

		// Pods.
		ContainerRuntimeEndpoint: "npipe://./pipe/containerd-containerd",
		ClusterDomain:            cmp.Or(o.ClusterDomain, DefaultClusterDomain),
		ClusterDNS:               []string{clusterDNS.String()},
		// Windows keeps its resolver in the registry, not in a file.
		ResolverConfig:        new(""),
		MaxPods:               cmp.Or(o.MaxPods, workers.MaxPods, DefaultMaxPods),
		PodsPerCore:           podsPerCore(o),
		SerializeImagePulls:   cmp.Or(workers.SerializeImagePulls, new(false)),
		MaxParallelImagePulls: workers.MaxParallelImagePulls,
		RuntimeRequestTimeout: metav1.Duration{Duration: 10 * time.Minute},

		// Resources. There are no cgroups on Windows; the thresholds still reduce what can be
		// allocated.
		CgroupsPerQOS:                    new(false),
		EnforceNodeAllocatable:           []string{"none"},
		EvictionHard:                     with(with(defaultEvictionHard, workers.EvictionHard), o.EvictionHard),
		EvictionSoft:                     workers.EvictionSoft,
		EvictionSoftGracePeriod:          workers.EvictionSoftGracePeriod,
		EvictionMinimumReclaim:           workers.EvictionMinimumReclaim,
		EvictionMaxPodGracePeriod:        workers.EvictionMaxPodGracePeriod,
		EvictionPressureTransitionPeriod: workers.EvictionPressureTransitionPeriod,
		SystemReserved:                   with(with(defaultSystemReserved, workers.SystemReserved), o.SystemReserved),
		KubeReserved:                     with(nil, o.KubeReserved),

		// Images.
		ImageMinimumGCAge:           workers.ImageMinimumGCAge,
		ImageMaximumGCAge:           workers.ImageMaximumGCAge,
		ImageGCHighThresholdPercent: workers.ImageGCHighThresholdPercent,
		ImageGCLowThresholdPercent:  workers.ImageGCLowThresholdPercent,

		// Logs.
		ContainerLogMaxSize:    cmp.Or(workers.ContainerLogMaxSize, "50Mi"),
		ContainerLogMaxFiles:   workers.ContainerLogMaxFiles,
		EnableSystemLogHandler: new(true),
		EnableSystemLogQuery:   new(true),
		FeatureGates:           featureGates(o.Version, "NodeLogQuery", "RotateKubeletServerCertificate"),
		Logging: logsapi.LoggingConfiguration{
			FlushFrequency: logsapi.TimeOrMetaDuration{Duration: metav1.Duration{Duration: 5 * time.Second}, SerializeAsString: true},
		},
	}
}

// podsPerCore is how many pods a host may run for each of its processors, if fewer than its limit. Zero: as many as that. Who sets
// the limit of a pool means it.
func podsPerCore(o KubeletOptions) int32 {
	if o.MaxPods != 0 {
		return 0
	}
	return o.Workers.PodsPerCore
}

// with returns the defaults, overridden by values. Nil: there are none at all.
func with[K ~string](defaults map[string]string, values map[K]string) map[string]string {
	all := maps.Clone(defaults)
	if all == nil && len(values) > 0 {
		all = map[string]string{}
	}
	for name, value := range values {
		all[string(name)] = value
	}
	return all
}

// kubeletConfigText returns the file kubelet.conf.
func kubeletConfigText(clusterDNS netip.Addr, o KubeletOptions) (string, error) {
	encoded, err := json.Marshal(KubeletConfiguration(clusterDNS, o))
	if err != nil {
		return "", fmt.Errorf("encode the configuration of the kubelet: %w", err)
	}
	return string(encoded), nil
}
