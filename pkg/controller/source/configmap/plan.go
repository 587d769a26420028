// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/ration"
)

// binaryProblem is what is wrong with everything in binaryData.
const binaryProblem = "the value is not UTF-8 text"

// plan is what a pass does.
type plan struct {
	// apply are the entries whose instance must exist.
	apply []Entry
	// waiting are the entries whose instance must exist and cannot be made yet: the
	// name was not looked up yet, or leads to no address and may be the host of another instance, or an instance of that name is still
	// being deleted.
	waiting []Entry
	// ours are the instances of the ConfigMap by their names.
	ours map[string]*v1alpha1.WindowsInstance
	// remove are the instances that no entry asks for, by the order of their names.
	remove []*v1alpha1.WindowsInstance
	// leaving has the names of the instances of the ConfigMap that are being deleted already.
	leaving map[string]bool
	// unreached is how many of these hold up no others: see [ration.Stalled].
	unreached int
	// stayed are the names of those whose host was to be removed and has its next instance in this pass,
	// before anything was done to it.
	stayed []string
	// kept is how many instances stay as they are because their entry has a problem.
	kept int
	// problems are the entries that cannot be used, in no order.
	problems []Problem
	// foreign are the entries that get no instance because another one has their host, or may have it, in no order.
	foreign []Problem
	// unready are the entries without an instance that get none in this pass, and those whose host was
	// never found because their name is not known, and why: each once, in no order. Each may be a host
	// that has an instance under another key, so that no removal begins meanwhile that nobody confirmed.
	unready []Problem
}

// makePlan decides from the ConfigMap, nil when there is none, and the instances of
// its namespace. It changes neither. deleted says of an instance whether it was deleted,
// which a cache may not know yet.
func makePlan(configMap types.NamespacedName, cm *corev1.ConfigMap, instances []v1alpha1.WindowsInstance, deleted func(*v1alpha1.WindowsInstance) bool, resolve ResolveFunc) plan {
	byName := map[string]*v1alpha1.WindowsInstance{}
	made := map[string]time.Time{}
	p := plan{ours: map[string]*v1alpha1.WindowsInstance{}, leaving: map[string]bool{}}
	for i := range instances {
		instance := &instances[i]
		byName[instance.Name] = instance
		if !belongs(instance, configMap) {
			continue
		}
		p.ours[instance.Name] = instance
		made[entryOf(instance, configMap)] = instance.CreationTimestamp.Time
	}

	var entries []Entry
	if cm != nil {
		entries, p.problems = Parse(cm.Data, made, resolve)
		for key := range cm.BinaryData {
			p.problems = append(p.problems, Problem{Key: key, Message: binaryProblem})
		}
	}
	wanted := map[string]bool{}
	for _, entry := range entries {
		current := byName[entry.Name]
		switch {
		case current == nil && entry.Resolution.Pending:
			// Made now, it might turn out to be a host that another entry has already.
			p.waiting = append(p.waiting, entry)
			p.await(Problem{Key: entry.Key, Message: "its name is being looked up", Passes: true})
		case current == nil:
			p.apply = append(p.apply, entry)
		case !belongs(current, configMap):
			message := fmt.Sprintf("a WindowsInstance %s exists and does not belong to this pool", entry.Name)
			p.problems = append(p.problems, Problem{Key: entry.Key, Message: message})
		case deleted(current):
			p.waiting = append(p.waiting, entry)
			if !entry.isOf(current) {
				p.await(formerHost(&entry, current))
			}
		default:
			p.apply = append(p.apply, entry)
		}
		if entry.nowhere() && (current == nil || !slices.Contains(current.Finalizers, v1alpha1.HostFinalizer)) {
			p.await(Problem{Key: entry.Key, Message: fmt.Sprintf("its name leads to no address: %s; correct the entry, or DNS", entry.whyNowhere())})
		}
		wanted[entry.Name] = true
	}

	bad := map[string]bool{}
	for _, problem := range p.problems {
		bad[problem.Key] = true
		if _, there := made[problem.Key]; !there {
			p.await(problem)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.ours)) {
		instance := p.ours[name]
		switch {
		case deleted(instance):
			p.leaving[name] = true
			if ration.Stalled(&instance.Status) {
				p.unreached++
			}
		case !wanted[name]:
			p.remove = append(p.remove, instance)
		}
	}
	p.keep(configMap, bad)
	return p
}

// keep has instances stay as they are whose entry has a problem, by its key.
func (p *plan) keep(configMap types.NamespacedName, bad map[string]bool) {
	all := len(p.remove)
	p.remove = slices.DeleteFunc(p.remove, func(instance *v1alpha1.WindowsInstance) bool { return bad[entryOf(instance, configMap)] })
	p.kept += all - len(p.remove)
}

// await has removals wait for an entry. Of several reasons it keeps the last one, unless that passes.
func (p *plan) await(why Problem) {
	i := slices.IndexFunc(p.unready, func(entry Problem) bool { return entry.Key == why.Key })
	switch {
	case i < 0:
		p.unready = append(p.unready, why)
	case !why.Passes:
		p.unready[i] = why
	}
}

// needsCorrection says whether removals wait for an entry until somebody does something about it.
func (p *plan) needsCorrection() bool {
	return slices.ContainsFunc(p.unready, func(entry Problem) bool { return !entry.Passes })
}

// formerHost says that an entry waits for the end of another host that has the name of its instance.
func formerHost(entry *Entry, former *v1alpha1.WindowsInstance) Problem {
	if !silent(&former.Status) {
		return Problem{Key: entry.Key, Message: "the former host of its instance is still being removed", Passes: true}
	}
	return Problem{Key: entry.Key, Message: fmt.Sprintf("the former host of its instance does not answer, so that it cannot be cleaned. "+
		"To give that host up and leave everything on it (needs the verb %s on %s.%s): "+
		`kubectl patch windowsinstance %s -n %s --type=merge -p '{"spec":{"removal":{"policy":"Abandon"}}}'`,
		v1alpha1.VerbAbandon, v1alpha1.ResourceHosts, v1alpha1.GroupName, former.Name, former.Namespace)}
}

// silent says whether a host that is being removed does not answer, also while that is tried again.
func silent(status *v1alpha1.WindowsInstanceStatus) bool {
	for _, o := range status.Operations() {
		if o.Type == v1alpha1.OperationRemove && (o.HostUnreached() || !o.Untouched()) {
			return o.HostUnreached()
		}
	}
	return false
}

// leavesNone says whether the plan leaves no host. That is what emptying the ConfigMap or
// overwriting it with something else altogether looks like.
func (p *plan) leavesNone() bool { return len(p.apply)+len(p.waiting)+p.kept == 0 }

// sourceOf is the value of the source annotation on the pool of a ConfigMap.
func sourceOf(configMap types.NamespacedName) string {
	return "ConfigMap " + configMap.String()
}

const entryMark = ", entry "

// sourceOfEntry is the value of the source annotation on the instance of an entry.
func sourceOfEntry(configMap types.NamespacedName, key string) string {
	return sourceOf(configMap) + entryMark + key
}

// entryOf returns the key of the entry that an instance was made from. Empty: it was made from none,
// or somebody took the annotation away.
func entryOf(instance *v1alpha1.WindowsInstance, configMap types.NamespacedName) string {
	key, ok := strings.CutPrefix(instance.Annotations[v1alpha1.SourceAnnotation], sourceOf(configMap)+entryMark)
	if !ok {
		return ""
	}
	return key
}

// belongs says whether an instance was made from the ConfigMap: its annotation says so, or,
// if somebody took that away, its pool and the record of who applied it.
func belongs(instance *v1alpha1.WindowsInstance, configMap types.NamespacedName) bool {
	if entryOf(instance, configMap) != "" {
		return true
	}
	return inPool(instance, configMap) && slices.ContainsFunc(instance.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == fieldManager && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == ""
	})
}

func inPool(instance *v1alpha1.WindowsInstance, pool types.NamespacedName) bool {
	return instance.Namespace == pool.Namespace && instance.Spec.PoolRef != nil && instance.Spec.PoolRef.Name == pool.Name
}

// asksFor says whether a pool has the ConfigMap of its own name as its source.
func asksFor(pool *v1alpha1.WindowsNodePool, configMap types.NamespacedName) bool {
	ref := pool.Spec.Source.ConfigMap
	return pool.Name == configMap.Name && ref != nil && ref.Name == configMap.Name
}
