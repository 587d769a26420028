// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/confirm"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
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
// leaves out, such as credentials or paused, belongs to people. The pool does not own it:
// a pool that vanishes takes no host along.
func instanceFor(configMap types.NamespacedName, entry *Entry) *acwindowsv1alpha1.WindowsInstanceApplyConfiguration {
	spec := acwindowsv1alpha1.WindowsInstanceSpec().
		WithAddress(entry.Address).
		WithPort(entry.Port).
		WithUsername(entry.Username).
		WithHostKeys(entry.HostKeys...).
		WithPoolRef(acwindowsv1alpha1.PoolReference().WithName(configMap.Name))
	return acwindowsv1alpha1.WindowsInstance(entry.Name, configMap.Namespace).
		WithAnnotations(map[string]string{v1alpha1.SourceAnnotation: sourceOfEntry(configMap, entry.Key)}).
		WithSpec(spec)
}

// maxNamed is how many hosts a message names.
const maxNamed = 30

// syncedCondition says how far the ConfigMap could be turned into instances. later is how many
// removals wait for others.
func syncedCondition(good, later int, problems []Problem) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionSourceSynced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced,
		Message: fmt.Sprintf("The ConfigMap asks for %s.", words.Count(good, "host")),
	}
	if len(problems) > 0 {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalidEntries, problemLines(problems)
	}
	if later > 0 {
		condition.Message += fmt.Sprintf("\nThe removal of %s begins when fewer than %d are being removed.", words.Count(later, "host"), ration.AtOnce)
	}
	return condition
}

// whatLacks says what is wrong with a ConfigMap that waits for a confirmation.
func whatLacks(p *plan) string {
	if p.leavesNone() {
		return "has no usable entry any more"
	}
	return "has no entry any more for some of its hosts"
}

// question asks whether hosts are to be removed. The command that confirms it comes before their
// names, so that an event has it in full.
func question(configMap types.NamespacedName, waiting []*v1alpha1.WindowsInstance) string {
	kept, they := fmt.Sprintf("%d hosts are kept until they have entries again, or until you confirm that they are to be removed", len(waiting)), "They are"
	if len(waiting) == 1 {
		kept, they = "1 host is kept until it has an entry again, or until you confirm that it is to be removed", "It is"
	}
	return fmt.Sprintf("%s. To confirm: %s\n%s %s.", kept, confirm.Command(configMap, waiting), they, words.Enumerate(namesOf(waiting), maxNamed))
}

// waitsFor says which entries removals wait for.
func waitsFor(unready []Problem) string {
	return "It waits for these entries, which have no host yet and may be the same host under another key:\n" + problemLines(sortProblems(unready))
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
