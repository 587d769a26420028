// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machineconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// What a kubelet takes for these settings when they are not set (k8s.io/kubelet/config/v1beta1).
const (
	defaultImageGCHigh = 85
	defaultImageGCLow  = 80
)

// check says with which of the settings no kubelet would start. The Machine Config Operator leaves that to the kubelets.
func check(c *kubeletv1beta1.KubeletConfiguration) error {
	var errs []error
	wrong := func(is bool, format string, arguments ...any) {
		if is {
			errs = append(errs, fmt.Errorf("file %s: "+format, append([]any{kubeletConfig}, arguments...)...))
		}
	}
	wrong(c.MaxPods < 0, "maxPods %d is negative", c.MaxPods)
	wrong(c.PodsPerCore < 0, "podsPerCore %d is negative", c.PodsPerCore)
	wrong(ptr.Deref(c.KubeAPIQPS, 0) < 0, "kubeAPIQPS %d is negative", ptr.Deref(c.KubeAPIQPS, 0))
	wrong(c.KubeAPIBurst < 0, "kubeAPIBurst %d is negative", c.KubeAPIBurst)
	high, low := ptr.Deref(c.ImageGCHighThresholdPercent, defaultImageGCHigh), ptr.Deref(c.ImageGCLowThresholdPercent, defaultImageGCLow)
	wrong(high < 0 || high > 100 || low < 0 || low >= high, "imageGCLowThresholdPercent %d and imageGCHighThresholdPercent %d must be between 0 and 100, the former below the latter", low, high)
	youngest, oldest := c.ImageMinimumGCAge.Duration, c.ImageMaximumGCAge.Duration
	wrong(youngest < 0, "imageMinimumGCAge %s is negative", youngest)
	wrong(oldest < 0 || oldest > 0 && oldest <= youngest, "imageMaximumGCAge %s must be 0, or more than imageMinimumGCAge %s", oldest, youngest)
	pulls := ptr.Deref(c.MaxParallelImagePulls, 1)
	wrong(pulls < 1 || pulls > 1 && ptr.Deref(c.SerializeImagePulls, false), "maxParallelImagePulls %d must be positive, and 1 with serializeImagePulls", pulls)
	wrong(ptr.Deref(c.ContainerLogMaxFiles, 2) < 2, "containerLogMaxFiles %d must be 2 or more", ptr.Deref(c.ContainerLogMaxFiles, 2))
	if c.ContainerLogMaxSize != "" {
		size, err := resource.ParseQuantity(c.ContainerLogMaxSize)
		wrong(err != nil || size.Sign() <= 0, "containerLogMaxSize %q is not a size", c.ContainerLogMaxSize)
	}
	values := func(setting string, bySignal map[string]string, valid func(string) bool, what string) {
		for _, signal := range slices.Sorted(maps.Keys(bySignal)) {
			wrong(!valid(bySignal[signal]), "%s has %q for %s, which is "+what, setting, bySignal[signal], signal)
		}
	}
	values("evictionHard", c.EvictionHard, isThreshold, "neither a percentage nor a quantity")
	values("evictionSoft", c.EvictionSoft, isThreshold, "neither a percentage nor a quantity")
	values("evictionSoftGracePeriod", c.EvictionSoftGracePeriod, isPeriod, "no time, such as 90s")
	values("evictionMinimumReclaim", c.EvictionMinimumReclaim, isReclaim, "neither a percentage nor a quantity")
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionSoft)) {
		_, has := c.EvictionSoftGracePeriod[signal]
		value := c.EvictionSoft[signal]
		wrong(!has && value != "0%" && value != "100%", "evictionSoft has a threshold for %s, and evictionSoftGracePeriod none", signal) // the two are none
	}
	return errors.Join(errs...)
}

// isThreshold says whether something is a threshold of eviction.
func isThreshold(text string) bool {
	if percentage, is := strings.CutSuffix(text, "%"); is {
		value, err := strconv.ParseFloat(percentage, 32)
		return err == nil && value >= 0 && value <= 100
	}
	quantity, err := resource.ParseQuantity(text)
	return err == nil && quantity.Sign() > 0
}

// isPeriod says whether something is a time for which a soft threshold is passed.
func isPeriod(text string) bool {
	period, err := time.ParseDuration(text)
	return err == nil && period >= 0
}

// isReclaim says whether something is an amount to reclaim at least. No percentage is zero, but a quantity may be.
func isReclaim(text string) bool {
	quantity, err := resource.ParseQuantity(text)
	if percentage, is := strings.CutSuffix(text, "%"); is {
		value, err := strconv.ParseFloat(percentage, 32)
		return err == nil && value > 0
	}
	return err == nil && quantity.Sign() >= 0
}
