// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package kubeletconfig compares configurations of the kubelet.
//
// A kubelet that is restarted admits all pods of its Node again, and what no longer fits
// fails without a PodDisruptionBudget being asked. So whoever replaces its configuration has to know
// whether pods get less by it.
//
// It imports the standard library only.
package kubeletconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
)

// Defaults of the kubelet for what a configuration does not set.
const defaultMaxPods = 110

var (
	defaultEnforced     = []string{"pods"}
	defaultEvictionHard = map[string]string{"memory.available": "500Mi", "nodefs.available": "10%", "imagefs.available": "15%"}
)

// notComparable are the fields that decide which pods are admitted, and of which a different value may be
// less or more, with the defaults of the kubelet.
var notComparable = map[string]any{
	"cpuManagerPolicy": "none", "cpuManagerPolicyOptions": map[string]any{},
	"memoryManagerPolicy": "None", "reservedMemory": []any{}, "reservedSystemCPUs": "",
	"topologyManagerPolicy": "none", "topologyManagerScope": "container", "topologyManagerPolicyOptions": map[string]any{},
	"qosReserved": map[string]any{}, "localStorageCapacityIsolation": true, "featureGates": map[string]any{},
}

// configuration is the part of a KubeletConfiguration that can be compared.
type configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	MaxPods                      int64             `json:"maxPods"`
	PodsPerCore                  int64             `json:"podsPerCore"`
	SystemReserved               map[string]string `json:"systemReserved"`
	KubeReserved                 map[string]string `json:"kubeReserved"`
	EvictionHard                 map[string]string `json:"evictionHard"`
	EvictionSoft                 map[string]string `json:"evictionSoft"`
	MergeDefaultEvictionSettings bool              `json:"mergeDefaultEvictionSettings"`
	EnforceNodeAllocatable       []string          `json:"enforceNodeAllocatable"`

	// fields are all of it.
	fields map[string]any
}

// Unusable says whether no kubelet can have been started with a content, as one that was cut off or overwritten when a host lost its
// power: it names no configuration of a kubelet, has bytes in it that neither JSON nor YAML allows, or does not end. False says
// nothing.
func Unusable(content []byte) bool {
	text := bytes.TrimSpace(content)
	return !bytes.Contains(text, []byte("KubeletConfiguration")) || bytes.ContainsRune(text, 0) || text[0] == '{' && text[len(text)-1] != '}'
}

// parse reads a configuration in JSON, and sets the defaults of the kubelet.
func parse(text []byte) (*configuration, error) {
	var c configuration
	for _, target := range []any{&c, &c.fields} {
		decoder := json.NewDecoder(bytes.NewReader(text))
		if err := decoder.Decode(target); err != nil {
			return nil, fmt.Errorf("it is no configuration in JSON: %w", err)
		}
		if _, err := decoder.Token(); err != io.EOF {
			return nil, fmt.Errorf("something follows its end")
		}
	}
	if c.APIVersion != "kubelet.config.k8s.io/v1beta1" || c.Kind != "KubeletConfiguration" {
		return nil, fmt.Errorf("it is a %s of %s", c.Kind, c.APIVersion)
	}
	if c.MaxPods == 0 {
		c.MaxPods = defaultMaxPods
	}
	if c.EnforceNodeAllocatable == nil {
		c.EnforceNodeAllocatable = defaultEnforced
	}
	switch {
	case c.EvictionHard == nil:
		c.EvictionHard = defaultEvictionHard
	case c.MergeDefaultEvictionSettings:
		all := maps.Clone(defaultEvictionHard)
		maps.Copy(all, c.EvictionHard)
		c.EvictionHard = all
	}
	return &c, nil
}

// Less names the fields, sorted, by which pods get less with the configuration next than with before,
// or may do: a value that cannot be compared counts. None: the kubelet admits again whatever it ran. The error
// says why one of the two cannot be read.
func Less(before, next []byte) ([]string, error) {
	old, err := parse(before)
	if err != nil {
		return nil, fmt.Errorf("the configuration before: %w", err)
	}
	now, err := parse(next)
	if err != nil {
		return nil, fmt.Errorf("the next configuration: %w", err)
	}
	var less []string
	if now.MaxPods < old.MaxPods {
		less = append(less, "maxPods")
	}
	if now.PodsPerCore != 0 && (old.PodsPerCore == 0 || now.PodsPerCore < old.PodsPerCore) {
		less = append(less, "podsPerCore")
	}
	if slices.ContainsFunc(now.EnforceNodeAllocatable, func(what string) bool {
		return what != "none" && !slices.Contains(old.EnforceNodeAllocatable, what)
	}) {
		less = append(less, "enforceNodeAllocatable")
	}
	less = append(less, moreReserved(old, now)...)
	less = append(less, earlierEviction("evictionHard", old.EvictionHard, now.EvictionHard)...)
	less = append(less, earlierEviction("evictionSoft", old.EvictionSoft, now.EvictionSoft)...)
	for field, byDefault := range notComparable {
		if !reflect.DeepEqual(valueOf(old.fields, field, byDefault), valueOf(now.fields, field, byDefault)) {
			less = append(less, field)
		}
	}
	slices.Sort(less)
	return less, nil
}

func valueOf(fields map[string]any, name string, byDefault any) any {
	if value := fields[name]; value != nil && value != "" {
		return value
	}
	return byDefault
}

// moreReserved names the reservations of which more is reserved. It is the sum that pods do not get.
func moreReserved(old, now *configuration) []string {
	var more []string
	for _, resource := range slices.Sorted(maps.Keys(names(now.SystemReserved, now.KubeReserved))) {
		was, wasErr := sum(old.SystemReserved[resource], old.KubeReserved[resource])
		is, isErr := sum(now.SystemReserved[resource], now.KubeReserved[resource])
		if wasErr == nil && isErr == nil && is.Cmp(was) <= 0 {
			continue
		}
		field := "systemReserved."
		if old.SystemReserved[resource] == now.SystemReserved[resource] {
			field = "kubeReserved."
		}
		more = append(more, field+resource)
	}
	return more
}

// earlierEviction names the signals for which pods are evicted, or not admitted, earlier than before.
func earlierEviction(field string, old, now map[string]string) []string {
	var earlier []string
	for signal, value := range now {
		if threshold(value).above(threshold(old[signal])) {
			earlier = append(earlier, field+"."+signal)
		}
	}
	return earlier
}

func names(of ...map[string]string) map[string]bool {
	all := map[string]bool{}
	for _, m := range of {
		for name := range m {
			all[name] = true
		}
	}
	return all
}
