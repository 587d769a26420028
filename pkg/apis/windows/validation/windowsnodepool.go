// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/maintenance"
)

// ValidateWindowsNodePool checks a new pool. That exactly one source is set, and
// required fields, are declared on the type and checked elsewhere.
func ValidateWindowsNodePool(pool *windows.WindowsNodePool) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&pool.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validateMetadata(&pool.ObjectMeta, nil)...)
	spec := field.NewPath("spec")
	errs = append(errs, forbidEvictions(pool.Spec.Template.NodeTaints, nil, taintsBelow(spec))...)
	return append(errs, validatePoolSpec(&pool.Spec, spec)...)
}

// ValidateWindowsNodePoolUpdate checks a changed pool.
func ValidateWindowsNodePoolUpdate(pool, old *windows.WindowsNodePool) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&pool.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateMetadata(&pool.ObjectMeta, &old.ObjectMeta)...)
	spec := field.NewPath("spec")
	errs = append(errs, forbidEvictions(pool.Spec.Template.NodeTaints, old.Spec.Template.NodeTaints, taintsBelow(spec))...)
	return append(errs, added(validatePoolSpec(&pool.Spec, spec), validatePoolSpec(&old.Spec, spec))...)
}

// ValidateWindowsNodePoolStatusUpdate checks a changed status.
func ValidateWindowsNodePoolStatusUpdate(pool, old *windows.WindowsNodePool) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&pool.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status", "conditions")
	return append(errs, added(metav1validation.ValidateConditions(pool.Status.Conditions, path), metav1validation.ValidateConditions(old.Status.Conditions, path))...)
}

func validatePoolSpec(spec *windows.WindowsNodePoolSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	source := path.Child("source")
	if ref := spec.Source.MachineSet; ref != nil {
		errs = append(errs, validateName(ref.Name, source.Child("machineSet", "name"))...)
	}
	if ref := spec.Source.ConfigMap; ref != nil {
		errs = append(errs, validateName(ref.Name, source.Child("configMap", "name"))...)
	}
	if ref := spec.Template.CredentialsSecretRef; ref != nil {
		errs = append(errs, validateName(ref.Name, path.Child("template", "credentialsSecretRef", "name"))...)
	}
	errs = append(errs, validateBastion(spec.Template.Bastion, path.Child("template", "bastion"))...)
	errs = append(errs, validateUpdateStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	if r := spec.Remediation; r != nil {
		errs = append(errs, validateNumberOrPercent(r.MaxUnhealthy, path.Child("remediation", "maxUnhealthy"))...)
	}
	return append(errs, validateTemplate(&spec.Template, path.Child("template"))...)
}

func validateUpdateStrategy(s *windows.PoolUpdateStrategy, path *field.Path) field.ErrorList {
	rolling := path.Child("rollingUpdate")
	errs := validateNumberOrPercent(s.RollingUpdate.MaxUnavailable, rolling.Child("maxUnavailable"))
	if n := s.RollingUpdate.MaxUnavailable; n != nil && len(errs) == 0 && (*n == intstr.FromInt32(0) || *n == intstr.FromString("0%")) {
		errs = append(errs, field.Invalid(rolling.Child("maxUnavailable"), n.String(), "must not be 0, which no update could keep; to update no host set spec.updateStrategy.type to OnRequest, or spec.paused to true"))
	}
	errs = append(errs, validateNumberOrPercent(s.RollingUpdate.Canary, rolling.Child("canary"))...)
	if w := s.Window; w != nil {
		at := path.Child("window")
		if _, err := maintenance.ParseSchedule(w.Schedule); err != nil && w.Schedule != "" { // that it is required is declared on the type
			errs = append(errs, field.Invalid(at.Child("schedule"), w.Schedule, err.Error()))
		}
		if _, err := maintenance.ParseTimeZone(w.TimeZone); err != nil {
			errs = append(errs, field.Invalid(at.Child("timeZone"), w.TimeZone, err.Error()))
		}
	}
	return errs
}

// validateNumberOrPercent checks how many hosts are meant.
func validateNumberOrPercent(n *intstr.IntOrString, path *field.Path) field.ErrorList {
	switch {
	case n == nil:
	case n.Type == intstr.Int:
		return apivalidation.ValidateNonnegativeField(int64(n.IntVal), path)
	case len(utilvalidation.IsValidPercent(n.StrVal)) > 0:
		return field.ErrorList{field.Invalid(path, n.StrVal, "must be a number of hosts, as 2, or a percentage, as 10%")}
	default:
		if percent, err := strconv.Atoi(strings.TrimSuffix(n.StrVal, "%")); err != nil || percent > 100 {
			return field.ErrorList{field.Invalid(path, n.StrVal, "must not be more than 100%")}
		}
	}
	return nil
}

// reservable are the resources that can be kept back on a host.
var reservable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// signals are what pods of Windows hosts are evicted by.
var signals = []string{"memory.available", "nodefs.available", "imagefs.available"}

func validateTemplate(t *windows.PoolTemplate, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.NodeLabels, path.Child("nodeLabels"))
	for key := range t.NodeLabels {
		if ownedByKubelet(key) {
			errs = append(errs, field.Forbidden(path.Child("nodeLabels").Key(key), "labels of kubernetes.io and k8s.io are set by kubelets, clouds and the cluster; only those of node-role.kubernetes.io and node.kubernetes.io can be added, and none that is for control planes"))
		}
	}
	errs = append(errs, validateTaints(t.NodeTaints, path.Child(nodeTaints))...)
	if k := t.Kubelet; k != nil {
		errs = append(errs, validateKubelet(k, path.Child("kubelet"))...)
	}
	if c := t.Containerd; c != nil && c.SandboxImage != "" && !imageReference.MatchString(c.SandboxImage) {
		errs = append(errs, field.Invalid(path.Child("containerd", "sandboxImage"), c.SandboxImage, "must be the reference of an image: letters, digits and . _ : / @ -"))
	}
	if r := t.LogRotation; r != nil {
		if r.MaxSize != nil && r.MaxSize.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Child("logRotation", "maxSize"), r.MaxSize.String(), "must not be negative"))
		}
		if r.MaxSize != nil && r.MaxSize.Sign() > 0 && r.MaxSize.Value() < minLogSize {
			errs = append(errs, field.Invalid(path.Child("logRotation", "maxSize"), r.MaxSize.String(), "must be at least 64Ki, or 0 for no rotation"))
		}
	}
	return errs
}

// minLogSize keeps a mistake of units from rotating a log with each line.
const minLogSize = 64 << 10

// imageReference matches what can be in a configuration file as it is.
var imageReference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)

// ownedByKubelet says whether a label is one that we would fight about with somebody else,
// or one with which a host would draw what belongs to control planes, and the Secrets of that.
func ownedByKubelet(key string) bool {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok || prefix == "node-role.kubernetes.io" && name != "control-plane" && name != "master" ||
		prefix == "node.kubernetes.io" && name != "exclude-from-external-load-balancers" {
		return false
	}
	for _, domain := range []string{"kubernetes.io", "k8s.io"} {
		if prefix == domain || strings.HasSuffix(prefix, "."+domain) {
			return true
		}
	}
	return false
}

// nodeTaints is the name of the field.
const nodeTaints = "nodeTaints"

// taintsBelow is where the taints of a pool are whose spec is at a path.
func taintsBelow(spec *field.Path) *field.Path { return spec.Child("template", nodeTaints) }

// forbidEvictions refuses taints that evict pods: they are set on all Nodes of a pool at once, and the eviction of a taint
// asks no PodDisruptionBudget. A pool of an earlier release may keep those that it had, in any order.
func forbidEvictions(taints, before []windows.NodeTaint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, taint := range taints {
		if taint.Effect == windows.NodeTaintEffect(corev1.TaintEffectNoExecute) && !slices.Contains(before, taint) {
			errs = append(errs, field.Forbidden(path.Index(i).Child("effect"), "NoExecute would evict the pods of all hosts of the pool at once, without regard to PodDisruptionBudgets; "+
				"use NoSchedule, which keeps new pods away, and then have those that run leave one host after the other: kubectl windows rollout restart POOL -n NAMESPACE, or kubectl windows drain HOST for some"))
		}
	}
	return errs
}

func validateTaints(taints []windows.NodeTaint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, taint := range taints {
		at := path.Index(i)
		if taint.Key != "" { // that it is required is declared on the type
			errs = append(errs, metav1validation.ValidateLabelName(taint.Key, at.Child("key"))...)
		}
		for _, problem := range utilvalidation.IsValidLabelValue(taint.Value) {
			errs = append(errs, field.Invalid(at.Child("value"), taint.Value, problem))
		}
	}
	return errs
}

func validateKubelet(k *windows.KubeletTemplate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, list := range map[string]corev1.ResourceList{"systemReserved": k.SystemReserved, "kubeReserved": k.KubeReserved} {
		for resource, quantity := range list {
			at := path.Child(name).Key(string(resource))
			if !slices.Contains(reservable, resource) {
				errs = append(errs, field.NotSupported(at, resource, reservable))
			}
			if quantity.Sign() < 0 {
				errs = append(errs, field.Invalid(at, quantity.String(), "must not be negative"))
			}
		}
	}
	for signal, value := range k.EvictionHard {
		at := path.Child("evictionHard").Key(signal)
		if !slices.Contains(signals, signal) {
			errs = append(errs, field.NotSupported(at, signal, signals))
		}
		if err := validateThreshold(value); err != nil {
			errs = append(errs, field.Invalid(at, value, err.Error()))
		}
	}
	return errs
}

// validateThreshold checks what the kubelet would refuse to start with.
func validateThreshold(value string) error {
	if number, ok := strings.CutSuffix(value, "%"); ok {
		percent, err := strconv.ParseFloat(number, 32)
		if err != nil || percent < 0 || percent >= 100 {
			return errors.New("must be from 0% to less than 100%")
		}
		return nil
	}
	quantity, err := resource.ParseQuantity(value)
	if err != nil || quantity.Sign() <= 0 {
		return errors.New("must be a quantity of bytes above zero, as 200Mi, or a percentage, as 10%; 0% is no threshold")
	}
	return nil
}
