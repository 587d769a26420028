// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machineconfig

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// windowsSignals are the signals of eviction that the kubelet has on Windows and on Linux.
// Others, such as those of inodes, are of Linux.
var windowsSignals = []string{memorySignal, "nodefs.available", "imagefs.available", "containerfs.available"}

// memorySignal is about memory that can still be committed on Windows, with the page file, and about memory outside the working
// set on Linux. That is not the same number, but the same purpose: without a threshold no pod is evicted while memory
// runs out, because the kubelet adds its own thresholds only where none at all is given (unless mergeDefaultEvictionSettings is set).
const memorySignal = "memory.available"

// leastMemory is the lowest threshold of [memorySignal] for hosts: the default of kubelets on Windows, whose system needs more
// than that of Linux, where it is 100Mi (pkg/kubelet/eviction/defaults_windows.go of Kubernetes).
var leastMemory = resource.MustParse("500Mi")

// leastReserved is the least memory that is reserved for the system of hosts: Windows and its services need it (Kubernetes recommends 2 GiB or
// more, and WMCO reserves that), or pods get memory that is not there. The file of workers has 1Gi, enough for Linux, wherever nobody has said how
// much: also where only cpu was set.
var leastReserved = resource.MustParse("2Gi")

// readConfiguration reads the settings of the kubelet that hold for Windows, too.
//
// They are listed one by one, because most of the file is of Linux or of OpenShift alone: cgroups,
// paths, and gates that no kubelet of Windows knows and with which none starts.
func (w *Worker) readConfiguration(files files) error {
	text, err := files.read(kubeletConfig)
	if err != nil {
		return err
	}
	var c kubeletv1beta1.KubeletConfiguration
	if err := yaml.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("file %s: %w", kubeletConfig, err)
	}
	reserved, err := systemReserved(files)
	if err != nil {
		return err
	}
	w.Kubelet = kubeletv1beta1.KubeletConfiguration{
		ClusterDNS:                       c.ClusterDNS,
		ClusterDomain:                    c.ClusterDomain,
		MaxPods:                          c.MaxPods,
		PodsPerCore:                      c.PodsPerCore,
		KubeAPIQPS:                       c.KubeAPIQPS,
		KubeAPIBurst:                     c.KubeAPIBurst,
		ContainerLogMaxSize:              c.ContainerLogMaxSize,
		ContainerLogMaxFiles:             c.ContainerLogMaxFiles,
		SerializeImagePulls:              c.SerializeImagePulls,
		MaxParallelImagePulls:            c.MaxParallelImagePulls,
		ImageMinimumGCAge:                c.ImageMinimumGCAge,
		ImageMaximumGCAge:                c.ImageMaximumGCAge,
		ImageGCHighThresholdPercent:      c.ImageGCHighThresholdPercent,
		ImageGCLowThresholdPercent:       c.ImageGCLowThresholdPercent,
		EvictionHard:                     enoughMemory(ofWindows(c.EvictionHard)),
		EvictionSoft:                     enoughMemory(ofWindows(c.EvictionSoft)),
		EvictionSoftGracePeriod:          ofWindows(c.EvictionSoftGracePeriod),
		EvictionMinimumReclaim:           ofWindows(c.EvictionMinimumReclaim),
		EvictionMaxPodGracePeriod:        c.EvictionMaxPodGracePeriod,
		EvictionPressureTransitionPeriod: c.EvictionPressureTransitionPeriod,
		SystemReserved:                   reserved,
	}
	return errors.Join(check(&w.Kubelet), w.takeTLS(&c))
}

// ofWindows returns what is set about the signals that Windows has. Nil: nothing.
func ofWindows(bySignal map[string]string) map[string]string {
	var kept map[string]string
	for _, signal := range windowsSignals {
		if value, ok := bySignal[signal]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[signal] = value
		}
	}
	return kept
}

// enoughMemory has the threshold of memory be at least [leastMemory], if there is one. A percentage stays: what it is of, only the host knows.
func enoughMemory(thresholds map[string]string) map[string]string {
	// What is no threshold, such as 0, stays, so that it is refused.
	if least, err := resource.ParseQuantity(thresholds[memorySignal]); err == nil && least.Sign() > 0 && least.Cmp(leastMemory) < 0 {
		thresholds[memorySignal] = leastMemory.String()
	}
	return thresholds
}

// reservations are the variables of [nodeSizing] by the resource that they reserve.
var reservations = map[string]corev1.ResourceName{
	"SYSTEM_RESERVED_CPU": corev1.ResourceCPU, "SYSTEM_RESERVED_MEMORY": corev1.ResourceMemory, "SYSTEM_RESERVED_ES": corev1.ResourceEphemeralStorage,
}

// systemReserved returns what a KubeletConfig reserves for the system, of memory at least [leastReserved]. It is never in the configuration of
// the kubelet: the Machine Config Operator moves it to a file that a script on each worker reads, with its own defaults for what is missing.
// Nil: nobody said anything, and workers compute it from the size of a Linux host.
func systemReserved(files files) (map[string]string, error) {
	if _, ok := files[nodeSizing]; !ok {
		return nil, nil //nolint:nilnil // older releases have no such file
	}
	text, err := files.read(nodeSizing)
	if err != nil {
		return nil, err
	}
	own, reserved := false, map[string]string{}
	var errs []error
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		if name == "NODE_SIZING_ENABLED" {
			own = value == "false"
		}
		if r, ok := reservations[name]; ok && value != "" {
			reserved[string(r)] = value
		}
	}
	if !own {
		return nil, nil //nolint:nilnil // nothing was set
	}
	for name, value := range reserved {
		switch quantity, err := resource.ParseQuantity(value); {
		case err != nil:
			errs = append(errs, fmt.Errorf("file %s: %q for %s is not a quantity", nodeSizing, value, name))
		case name == string(corev1.ResourceMemory) && quantity.Cmp(leastReserved) < 0:
			reserved[name] = leastReserved.String()
		}
	}
	return reserved, errors.Join(errs...)
}
