// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// generateKubelets makes a MachineConfig of each KubeletConfig and pool that it selects. Each has all of kubelet.conf, so that
// of several for a pool the one with the last name counts; the real one numbers them as they come, and keeps the numbers.
func (m *machineConfigs) generateKubelets(in machineConfigInputs) error {
	kubelets := slices.Clone(in.kubelets)
	slices.SortStableFunc(kubelets, func(a, b mcfgv1.KubeletConfig) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	numbers := map[string]int{}
	for i := range kubelets {
		kubelet := &kubelets[i]
		settings, err := settingsOf(kubelet)
		if err != nil {
			m.refused[kubelet.Name] = err.Error()
			continue
		}
		pools, err := poolsOf(kubelet, in.pools)
		if err != nil {
			m.refused[kubelet.Name] = err.Error()
			continue
		}
		for _, pool := range pools {
			name := "99-" + pool.Name + "-generated-kubelet"
			if n := numbers[pool.Name]; n > 0 {
				name = fmt.Sprintf("%s-%d", name, n)
			}
			numbers[pool.Name]++
			config, err := in.worker(pool).with(kubelet, settings).generated()
			if err != nil {
				return err
			}
			owner := metav1.NewControllerRef(kubelet, mcfgv1.SchemeGroupVersion.WithKind("KubeletConfig"))
			if err := m.add(name, pool.Name, owner, config); err != nil {
				return err
			}
		}
	}
	return nil
}

// settingsOf are those of a KubeletConfig, unless the Machine Config Operator refuses them.
func settingsOf(kubelet *mcfgv1.KubeletConfig) (map[string]any, error) {
	settings := map[string]any{}
	if kubelet.Spec.KubeletConfig == nil {
		return settings, nil
	}
	var typed kubeletv1beta1.KubeletConfiguration
	if err := errors.Join(yaml.Unmarshal(kubelet.Spec.KubeletConfig.Raw, &typed), yaml.Unmarshal(kubelet.Spec.KubeletConfig.Raw, &settings)); err != nil {
		return nil, fmt.Errorf("Error: KubeletConfig could not be unmarshalled, err: %w", err)
	}
	for _, name := range []string{"cgroupDriver", "clusterDNS", "clusterDomain", "featureGates", "failSwapOn"} {
		if _, is := settings[name]; is {
			return nil, fmt.Errorf("Error: KubeletConfiguration: %s is not allowed to be set", name)
		}
	}
	if len(typed.SystemReserved) > 0 && ptr.Deref(kubelet.Spec.AutoSizingReserved, false) {
		return nil, errors.New("Error: KubeletConfiguration: autoSizingReserved and systemdReserved cannot be set together")
	}
	return settings, nil
}

// poolsOf are the pools that a KubeletConfig is for.
func poolsOf(kubelet *mcfgv1.KubeletConfig, pools []mcfgv1.MachineConfigPool) ([]*mcfgv1.MachineConfigPool, error) {
	selector, err := metav1.LabelSelectorAsSelector(kubelet.Spec.MachineConfigPoolSelector)
	if err != nil {
		return nil, fmt.Errorf("Error: invalid label selector: %w", err)
	}
	var selected []*mcfgv1.MachineConfigPool
	for i := range pools {
		if !selector.Empty() && selector.Matches(labels.Set(pools[i].Labels)) {
			selected = append(selected, &pools[i])
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("Error: KubeletConfig %s does not match any MachineConfigPools", kubelet.Name)
	}
	return selected, nil
}

// with puts the settings of a KubeletConfig over those of a worker.
func (w Worker) with(kubelet *mcfgv1.KubeletConfig, settings map[string]any) Worker {
	own, settings := maps.Clone(w.KubeletConfig), maps.Clone(settings)
	if profile := kubelet.Spec.TLSSecurityProfile; profile != nil {
		own["tlsMinVersion"], own["tlsCipherSuites"] = TLSSettings(profile)
	}
	if reserved, ok := settings["systemReserved"].(map[string]any); ok {
		w.SystemReserved = map[string]string{}
		for name, quantity := range reserved {
			w.SystemReserved[name] = fmt.Sprint(quantity)
		}
		delete(settings, "systemReserved")
	}
	override(own, settings)
	w.AutoSizingReserved = kubelet.Spec.AutoSizingReserved
	w.KubeletConfig, w.LogLevel = own, int(ptr.Deref(kubelet.Spec.LogLevel, 0))
	return w
}
