// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// maxNamedInCondition is how many instances a condition names.
const maxNamedInCondition = 10

// enumerate names instances in a condition.
func enumerate(names []string) string {
	return words.Enumerate(slices.Sorted(slices.Values(names)), maxNamedInCondition)
}

// trouble is something that somebody has to act on.
type trouble struct{ reason, text string }

// degradedCondition sums up what somebody has to act on. Hosts that work as they did because an update failed are named, and do not
// degrade the pool. lacking says which hosts lack updates of Windows or a restart. Empty: none does, or a trouble says it.
func degradedCondition(troubles []trouble, outdated, lacking []string) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected,
		Message: "Nothing needs your attention.",
	}
	var messages []string
	for _, t := range troubles {
		if condition.Status == metav1.ConditionFalse {
			condition.Status, condition.Reason = metav1.ConditionTrue, t.reason
		}
		messages = append(messages, t.text)
	}
	if condition.Status == metav1.ConditionFalse && (len(outdated) > 0 || len(lacking) > 0) {
		condition.Reason = v1alpha1.ReasonUpdatesFailed
	}
	if len(outdated) > 0 {
		messages = append(messages, "Instances whose update failed, and which work as before: "+enumerate(outdated)+". See their condition UpToDate.")
	}
	messages = append(messages, lacking...)
	if len(messages) > 0 {
		condition.Message = message.ConditionMessage(strings.Join(messages, "\n"))
	}
	return condition
}

// troublesOfRevisions are those of the revisions of a pool: why it is refused to undo the newest one, the error of keeping that, and the name of the
// one to go back to that is gone. Each may be empty.
func troublesOfRevisions(pool *v1alpha1.WindowsNodePool, refused string, unkept error, lost string) (list []trouble) {
	if refused != "" { // first, as somebody waits for the answer
		list = append(list, trouble{v1alpha1.ReasonUndoRefused, refused})
	}
	if text := describeUnkept(pool, unkept); text != "" {
		list = append(list, trouble{v1alpha1.ReasonRevisionNotKept, text})
	}
	if lost != "" {
		list = append(list, trouble{v1alpha1.ReasonRevisionLost, fmt.Sprintf("ControllerRevision %[1]s, with which all hosts worked last, does not exist any more, or somebody has changed it: hosts that the present revision breaks stay as they are, although spec.updateStrategy.rollingUpdate.onFailure is Rollback. "+
			"Restore it from a backup: kubectl create -n %[2]s -f FILE; if it still exists, delete it before: kubectl delete controllerrevisions.apps %[1]s -n %[2]s. Or wait until all hosts work with the present one.", lost, pool.Namespace)})
	}
	return list
}

// troublesOfPool are those of a pool itself. The parameters are as in [computeStatus].
func troublesOfPool(pool *v1alpha1.WindowsNodePool, synced *metav1.Condition, back *v1alpha1.PoolRollback) (list []trouble) {
	if synced != nil && synced.Status == metav1.ConditionFalse {
		list = append(list, trouble{synced.Reason, synced.Message})
	}
	if back != nil && !back.ByPerson() {
		list = append(list, trouble{v1alpha1.ReasonRolledBack, back.Message + " " + resumes(pool.Namespace, pool.Name)})
	}
	return list
}

// settlesIn is after what time it is said of a host that a Node which went down stays so. 0: it is said, or is not down.
func settlesIn(i *v1alpha1.WindowsInstance, now time.Time) time.Duration {
	since, down := downSince(&i.Status)
	if !down {
		return 0
	}
	return max(0, since.Add(awayPatience).Sub(now))
}

// searchPatience is for how long a host may have found out nothing of updates of Windows, for which it searches every 12 hours or so.
const searchPatience = 24 * time.Hour

// cannotSearch says whether the host of an instance, whose pool wants updates of Windows, has not been able to search for them for long; and
// if not yet, after what time that is so. 0: it is, or the host can.
func cannotSearch(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, now time.Time) (so bool, in time.Duration) {
	u, install := i.Status.WindowsUpdates, pool.Spec.WindowsUpdates.Install
	if u == nil || u.Message == "" || install == "" || install == v1alpha1.InstallNone || !i.DeletionTimestamp.IsZero() {
		return false, 0
	}
	since := i.CreationTimestamp.Time
	if u.SearchedAt != nil {
		since = u.SearchedAt.Time
	}
	in = max(0, since.Add(searchPatience).Sub(now))
	return in == 0, in
}

// said are hosts, and what is said of the first of them.
type said struct {
	names       []string
	first, text string
}

func (s *said) add(name, text string) {
	if len(s.names) == 0 || name < s.first {
		s.first, s.text = name, text
	}
	s.names = append(s.names, name)
}

// String names them.
func (s *said) String() string {
	return fmt.Sprintf("%s. For example %s: %s", enumerate(s.names), s.first, s.text)
}

// troublesOfHosts are those of the hosts of a pool. failed are the instances of the phase Failed. The others may have a phase that says
// nothing of it, as a host has that was updated or restarted, and whose Node is not ready since; not of one that may be again in a moment.
// lacking names the hosts that lack updates of Windows which others do not wait for, or a restart. Empty: there are none.
func troublesOfHosts(pool *v1alpha1.WindowsNodePool, instances []*v1alpha1.WindowsInstance, failed []string, held holdup, now time.Time) (list []trouble, lacking []string) {
	for _, i := range instances {
		// One that failed is named as that also while it is tried again.
		if i.DeletionTimestamp.IsZero() && i.Status.Operation.Active() && !slices.Contains(failed, i.Name) && brokenBy(&i.Status) != nil {
			failed = append(failed, i.Name)
		}
	}
	slices.Sort(failed)
	if len(failed) > 0 {
		list = append(list, trouble{v1alpha1.ReasonInstancesFailed, "Instances that need attention: " + enumerate(failed) + ". See their conditions."})
	}
	var f findings
	for _, i := range instances {
		f.add(i, pool, failed, now)
	}
	most := policyOf(pool, len(instances)).maxFailures
	list = append(list, f.ofUpdates(pool, most)...)
	if held.updates && len(f.stop) > most {
		list = append(list, trouble{v1alpha1.ReasonUpdatesStopped, fmt.Sprintf("Updates of Windows could not be installed on more than %d hosts (spec.updateStrategy.rollingUpdate.maxFailures), and reach no further one: %s. %s",
			most, enumerate(f.stop), findOut(pool, f.stop))})
	} else { // they are tried again
		f.lack = append(f.lack, f.stop...)
	}
	return list, f.lacking(pool)
}

// findings are what is wrong with the hosts of a pool: the names of those with which it is.
type findings struct {
	// broken were broken by an update or a restart, without those that failed; brokenCount counts these as well.
	broken      []*host
	brokenCount int
	// On helpless ones spec.remediation has tried everything, and of forgotten ones it is not known any more what it has tried.
	helpless, forgotten []string
	// Of harmless ones the update failed, and they work. Those in stop lack updates of Windows for which others wait, and those in lack others.
	harmless, stop, lack                    []string
	undetermined, notRestarted, notSearched said
}

// add adds what is wrong with the host of an instance.
func (f *findings) add(i *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, failed []string, now time.Time) {
	h := newHost(i)
	if h.leaving {
		return
	}
	if h.broken != nil && settlesIn(i, now) == 0 {
		f.brokenCount++
		if _, known := slices.BinarySearch(failed, i.Name); !known {
			broken := h // on the heap, and not all of thousands
			f.broken = append(f.broken, &broken)
		}
	}
	switch r := remedyOf(i, pool); {
	case r.tried:
		f.helpless = append(f.helpless, i.Name)
	case r.forgotten:
		f.forgotten = append(f.forgotten, i.Name)
	}
	if h.broken == nil && h.failed != nil {
		f.harmless = append(f.harmless, i.Name)
	}
	if h.lacksInputs != "" {
		f.undetermined.add(i.Name, h.lacksInputs)
	}
	u, install := i.Status.WindowsUpdates, pool.Spec.WindowsUpdates.Install
	stops := stopsUpdates(i, install)
	switch {
	case stops:
		f.stop = append(f.stop, i.Name)
	case u != nil && len(u.FailedOf(install)) > 0: // others do not wait for that
		f.lack = append(f.lack, i.Name)
	}
	if op := i.Status.FailedRestartFor(pool); op != nil && h.broken == nil && (!stops || op.Cause != v1alpha1.CauseWindowsUpdates) {
		f.notRestarted.add(i.Name, message.Shorten(words.FirstSentence(op.Message), maxQuoted)+".")
	}
	if so, _ := cannotSearch(i, pool, now); so {
		f.notSearched.add(i.Name, message.Shorten(words.FirstSentence(u.Message), maxQuoted)+".")
	}
}

// ofUpdates are the troubles with updates, restarts and repairs, of which most hosts may fail.
func (f *findings) ofUpdates(pool *v1alpha1.WindowsNodePool, most int) (list []trouble) {
	if len(f.broken) > 0 {
		names := make([]string, len(f.broken))
		for i, h := range f.broken {
			names[i] = h.key.Name
		}
		text := f.broken[0].brokenText()
		if len(f.broken) > 1 {
			text = fmt.Sprintf("Updates or restarts broke %d hosts: %s.", len(f.broken), enumerate(names))
		}
		if f.brokenCount > most {
			text += fmt.Sprintf(" No further host is updated or restarted while more than %d are broken (spec.updateStrategy.rollingUpdate.maxFailures).", most)
		}
		list = append(list, trouble{v1alpha1.ReasonHostsBroken, text + " " + findOut(pool, names)})
	}
	if len(f.undetermined.names) > 0 {
		list = append(list, trouble{v1alpha1.ReasonInputsMissing, "Something is missing or wrong that these hosts are configured with, so that they stay as they are: " + f.undetermined.String()})
	}
	if len(f.helpless) > 0 {
		list = append(list, trouble{v1alpha1.ReasonRemediationExhausted, fmt.Sprintf("spec.remediation has tried everything, and the Nodes of these hosts are not ready: %s. %s",
			enumerate(f.helpless), findOut(pool, f.helpless))})
	}
	if len(f.forgotten) > 0 {
		list = append(list, trouble{v1alpha1.ReasonRemediationExhausted, fmt.Sprintf("spec.remediation tries nothing on hosts whose Nodes are not ready and on which so many operations have failed since that it is not known any more what was tried: %s. %s",
			enumerate(f.forgotten), findOut(pool, f.forgotten))})
	}
	if most := max(most, harmlessFailures); len(f.harmless) > most {
		list = append(list, trouble{v1alpha1.ReasonUpdatesStopped, fmt.Sprintf("The update failed on more than %d hosts, and reaches no further one: %s. %s",
			most, enumerate(f.harmless), findOut(pool, f.harmless))})
	}
	return list
}

// lacking names the hosts that lack updates of Windows, a restart, or a search for updates, for which others do not wait.
func (f *findings) lacking(pool *v1alpha1.WindowsNodePool) (texts []string) {
	if len(f.lack) > 0 {
		texts = append(texts, fmt.Sprintf("Instances on which updates of Windows could not be installed, and which work as before: %s. %s", enumerate(f.lack), findOut(pool, f.lack)))
	}
	if len(f.notRestarted.names) > 0 {
		texts = append(texts, fmt.Sprintf("Instances that could not be restarted, for updates of Windows or because the pool asks for it, and which work as before: %s %s", &f.notRestarted, findOut(pool, f.notRestarted.names)))
	}
	if len(f.notSearched.names) > 0 {
		texts = append(texts, fmt.Sprintf("Instances that have not been able to search for updates of Windows for more than a day: %s %s", &f.notSearched, findOut(pool, f.notSearched.names)))
	}
	return texts
}

// findOut says how to find out what is wrong with one of these hosts of a pool.
func findOut(pool *v1alpha1.WindowsNodePool, names []string) string {
	return fmt.Sprintf("Find out why: kubectl windows describe %s -n %s", slices.Min(names), pool.Namespace)
}
