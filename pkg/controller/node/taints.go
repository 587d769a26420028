// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package node

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// defaultTaint is what Nodes have whose pool says nothing about taints, and what every
// kubelet of ours registers with: pods for Linux must not be sent to Windows by default.
var defaultTaint = corev1.Taint{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}

// templateTaints are the taints that a template asks for, in the order of their keys.
func templateTaints(template *v1alpha1.PoolTemplate) []corev1.Taint {
	if template == nil || template.NodeTaints == nil {
		return []corev1.Taint{defaultTaint}
	}
	taints := make([]corev1.Taint, len(template.NodeTaints))
	for i, taint := range template.NodeTaints {
		taints[i] = corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(taint.Effect)}
	}
	slices.SortFunc(taints, func(a, b corev1.Taint) int { return strings.Compare(formatTaint(a), formatTaint(b)) })
	return taints
}

// desiredTaints are the taints that a Node is to have by a template, the value of the annotation that lists ours, and whether the Node
// has others, or another value.
func desiredTaints(template *v1alpha1.PoolTemplate, node *corev1.Node) (taints []corev1.Taint, note string, differ bool) {
	want := templateTaints(template)
	taints, note = mergeTaints(node.Spec.Taints, lastTaints(node), want), formatTaints(want)
	noted, ok := node.Annotations[v1alpha1.ManagedTaintsAnnotation]
	same := func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }
	return taints, note, !ok || noted != note || !slices.EqualFunc(node.Spec.Taints, taints, same)
}

// mergeTaints returns the taints of a Node that has current, of which last were ours, and
// that is to have want. Each stays where it is; new ones come last.
func mergeTaints(current, last, want []corev1.Taint) []corev1.Taint {
	var merged []corev1.Taint
	for _, taint := range current {
		i := slices.IndexFunc(want, func(w corev1.Taint) bool { return w.MatchTaint(&taint) })
		switch {
		case i >= 0 && want[i].Value != taint.Value:
			merged = append(merged, want[i])
		case i >= 0 || !hasTaint(last, taint):
			merged = append(merged, taint)
		}
	}
	for _, taint := range want {
		if !hasTaint(current, taint) {
			merged = append(merged, taint)
		}
	}
	return merged
}

// hasTaint says whether there is a taint with the same key and effect, by which taints of a
// Node are told apart.
func hasTaint(taints []corev1.Taint, taint corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// lastTaints are those taints of a Node that were ours so far. On a new Node that is the
// one that its kubelet registered it with.
func lastTaints(node *corev1.Node) []corev1.Taint {
	value, ok := node.Annotations[v1alpha1.ManagedTaintsAnnotation]
	if !ok {
		return []corev1.Taint{defaultTaint}
	}
	var taints []corev1.Taint
	for text := range strings.SplitSeq(value, ",") {
		// What is nonsense matches no taint of the Node.
		identity, effect, _ := strings.Cut(text, ":")
		key, value, _ := strings.Cut(identity, "=")
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints
}

// formatTaints is the value of the annotation.
func formatTaints(taints []corev1.Taint) string {
	texts := make([]string, len(taints))
	for i, taint := range taints {
		texts[i] = formatTaint(taint)
	}
	return strings.Join(texts, ",")
}

func formatTaint(taint corev1.Taint) string {
	if taint.Value == "" {
		return taint.Key + ":" + string(taint.Effect)
	}
	return taint.Key + "=" + taint.Value + ":" + string(taint.Effect)
}
