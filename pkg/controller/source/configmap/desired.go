// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	acmetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// poolFor is what the controller wants of the pool of a ConfigMap.
func poolFor(configMap types.NamespacedName) *acwindowsv1alpha1.WindowsNodePoolApplyConfiguration {
	return acwindowsv1alpha1.WindowsNodePool(configMap.Name, configMap.Namespace).
		WithAnnotations(map[string]string{v1alpha1.SourceAnnotation: sourceOf(configMap)}).
		WithSpec(acwindowsv1alpha1.WindowsNodePoolSpec().
			WithSource(acwindowsv1alpha1.PoolSource().
				WithConfigMap(acwindowsv1alpha1.SourceReference().WithName(configMap.Name))))
}

// instanceFor is what the controller wants of the instance of an entry. What it
// leaves out, such as credentials or paused, belongs to people.
func instanceFor(configMap types.NamespacedName, pool types.UID, entry *Entry) *acwindowsv1alpha1.WindowsInstanceApplyConfiguration {
	spec := acwindowsv1alpha1.WindowsInstanceSpec().
		WithAddress(entry.Address).
		WithPort(entry.Port).
		WithUsername(entry.Username).
		WithPoolRef(acwindowsv1alpha1.PoolReference().WithName(configMap.Name))
	if len(entry.HostKeys) > 0 {
		spec.WithHostKeys(entry.HostKeys...)
	}
	return acwindowsv1alpha1.WindowsInstance(entry.Name, configMap.Namespace).
		WithAnnotations(map[string]string{v1alpha1.SourceAnnotation: sourceOfEntry(configMap, entry.Key)}).
		WithOwnerReferences(acmetav1.OwnerReference().
			WithAPIVersion(v1alpha1.SchemeGroupVersion.String()).
			WithKind("WindowsNodePool").
			WithName(configMap.Name).
			WithUID(pool).
			WithController(true)).
		WithSpec(spec)
}

// syncedCondition says how far the ConfigMap could be turned into instances.
func syncedCondition(good int, problems []Problem) metav1.Condition {
	if len(problems) == 0 {
		return metav1.Condition{
			Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced,
			Message: fmt.Sprintf("The ConfigMap asks for %s.", hosts(good)),
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalidEntries,
		Message: problemLines(problems),
	}
}

// confirmationCondition says that a removal waits for somebody, and how to confirm it.
func confirmationCondition(configMap types.NamespacedName, found bool, p *plan) metav1.Condition {
	what := "was deleted"
	if found {
		what = "has no usable entry any more"
	}
	message := fmt.Sprintf("The ConfigMap %s %s. Its %s are kept until it has entries again, or until you confirm that all of them are to go: %s",
		configMap, what, hosts(len(p.remove)), confirmCommand(configMap))
	if len(p.problems) > 0 {
		message += "\n" + problemLines(p.problems)
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonConfirmationNeeded, Message: message,
	}
}

func confirmCommand(configMap types.NamespacedName) string {
	return fmt.Sprintf("kubectl annotate wnp %s -n %s %s=true", configMap.Name, configMap.Namespace, v1alpha1.ConfirmRemovalAnnotation)
}

// notFoundCondition says that there is no such ConfigMap; message says more.
func notFoundCondition(message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonSourceNotFound, Message: message,
	}
}

func problemLines(problems []Problem) string {
	lines := make([]string, len(problems))
	for i, problem := range problems {
		lines[i] = problem.String()
	}
	return message.Lines(lines)
}

func areHosts(n int) string {
	if n == 1 {
		return "1 host is"
	}
	return fmt.Sprintf("%d hosts are", n)
}

func hosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}
