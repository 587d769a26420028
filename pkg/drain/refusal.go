// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"errors"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/openshift/windows-instance-api/pkg/words"
)

// judge returns the stage of a pod after the answer to its eviction, or deletion, and why for
// people: stageLeaving; stageWaiting if it may be let go later; stageRefused if it will not be
// as things are. terminating says whether the pod is known to be being deleted. That the same answer may be another one soon, as the API server
// has just started, is for the caller to know, see package forbidden.
func judge(err error, terminating bool) (next stage, message string) {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return stageLeaving, ""
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// No eviction succeeds there any more. The pod is deleted with its namespace.
		if terminating {
			return stageLeaving, ""
		}
		return stageWaiting, "its namespace is being deleted, but the pod is not yet"
	case apierrors.IsTooManyRequests(err):
		if causes := budgetCauses(err); len(causes) > 0 {
			return stageWaiting, causes[0].Message
		}
		return stageWaiting, words.Steady(err.Error())
	case words.DeniedByWebhook(err.Error()):
		// Operators of databases and of storage deny the eviction of their pods, and let them go when they have moved what these do.
		return stageWaiting, words.Steady(err.Error())
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
		if terminating { // it was only asked to go sooner
			return stageLeaving, ""
		}
		return stageRefused, err.Error()
	}
	// The pod was replaced by another of its name, which the next look tells; or the
	// server is in trouble; or the pod has several budgets, which somebody may correct.
	return stageWaiting, words.Steady(err.Error())
}

// budgetCauses are the causes of a refusal that are about a PodDisruptionBudget.
func budgetCauses(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []metav1.StatusCause
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == policyv1.DisruptionBudgetCause {
			out = append(out, cause)
		}
	}
	return out
}

// budgetInMessage finds the name where the API server puts it. There is no field for it.
var budgetInMessage = regexp.MustCompile(`^The disruption budget (\S+) `)

// budgetNamed is the name of the budget that the refusal speaks of, empty if it cannot be told.
func budgetNamed(err error) string {
	for _, cause := range budgetCauses(err) {
		if match := budgetInMessage.FindStringSubmatch(cause.Message); match != nil {
			return match[1]
		}
	}
	return ""
}

// budgetOf is the one budget that selects a pod with these labels, empty if there is none or several.
func budgetOf(budgets []policyv1.PodDisruptionBudget, pod labels.Set) string {
	name := ""
	for i := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(budgets[i].Spec.Selector)
		if err != nil || !selector.Matches(pod) {
			continue // the API server would not have taken a selector that cannot be read
		}
		if name != "" {
			return ""
		}
		name = budgets[i].Name
	}
	return name
}
