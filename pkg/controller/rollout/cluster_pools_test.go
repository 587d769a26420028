// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// simulatedPool is a pool of the fleet.
type simulatedPool struct {
	object  *v1alpha1.WindowsNodePool // is replaced and not changed, as others may have it
	members []*member
	// added counts those that it was made with and that have joined it, whatever has become of them.
	added int
	// size counts its instances, and away those of them that are out of service.
	size, away int
	// wanted is what its hosts are to have. templates are those that it had, and proven has those with which all of its hosts have worked.
	wanted    string
	templates []string
	proven    map[string]bool
	// woken: its status is to be computed now. due is when it is at the latest. Zero: when something changes.
	woken bool
	due   time.Time
	// told: its status was computed since it was looked at.
	told bool
}

// rolledBack is the rollback of what the hosts of a pool were to have. Nil: they are to have it.
func (p *simulatedPool) rolledBack() *v1alpha1.PoolRollback {
	return p.object.RolledBack(p.object.Status.UpdateRevision)
}

// isRolledBack says whether what the hosts of a pool were to have was rolled back, and not undone by somebody.
func (p *simulatedPool) isRolledBack() bool {
	return p.rolledBack() != nil && !p.rolledBack().ByPerson()
}

// prove notes the template of a pool if all of its hosts that stay work with it, but for those that lost their Nodes before they worked with
// anything of the pool, so that they cannot get it; and, in a pool without canaries, for as many paused ones at the most as work with it.
func (p *simulatedPool) prove() {
	work, paused := 0, 0
	for _, m := range p.members {
		switch {
		case m.instance == nil || !m.instance.DeletionTimestamp.IsZero() || m.instance.Status.Node == nil && m.instance.Status.PoolRevision == "":
		case m.worked == template(p.wanted):
			work++
		case m.instance.Spec.Paused && !m.broke && p.object.Spec.UpdateStrategy.RollingUpdate.Canary == nil:
			paused++
		default:
			return
		}
	}
	if work >= paused {
		p.proven[template(p.wanted)] = true
	}
}

// startReconciler has a controller of pools begin, which looks at all of them.
func (c *cluster) startReconciler() {
	cl := clusterClient{c: c}
	c.reconciler = &Reconciler{
		client: cl, applier: &apply.Applier{Client: cl, Live: cl, FieldManager: fieldManager}, now: time.Now, blockedBy: c.scheduler.blockedBy,
		recorder: &record.FakeRecorder{}, reporter: message.NewReporter(&record.FakeRecorder{}, runtime.NewScheme()), seen: map[types.NamespacedName]revisionSeen{},
	}
	c.scheduler.notifyPool = func(_ context.Context, key types.NamespacedName) {
		if p := c.pool(key); c.pace.rest > 0 {
			c.gather(p)
		} else {
			p.woken = true
		}
	}
	for _, p := range c.pools {
		p.woken, p.due = true, time.Time{}
	}
}

func (c *cluster) pool(key types.NamespacedName) *simulatedPool {
	for _, p := range c.pools {
		if p.object.Namespace == key.Namespace && p.object.Name == key.Name {
			return p
		}
	}
	return nil
}

// gather has the status of a pool computed in a moment, as one of its hosts has changed.
func (c *cluster) gather(p *simulatedPool) {
	p.due = earlier(p.due, time.Now().Add(max(gatherTime, c.pace.rest)))
}

// reconcile computes the status of a pool, and says whether that was due.
func (c *cluster) reconcile(p *simulatedPool) bool {
	if !p.woken && (p.due.IsZero() || p.due.After(time.Now())) {
		return false
	}
	p.woken, p.due, p.told = false, time.Time{}, true
	p.prove()
	result, err := c.reconciler.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p.object)})
	if err != nil {
		c.t.Fatal(err)
	}
	if result.RequeueAfter > 0 {
		p.due = earlier(p.due, time.Now().Add(result.RequeueAfter))
	}
	return true
}

// editPool changes a pool.
func (c *cluster) editPool(p *simulatedPool, change func(*v1alpha1.WindowsNodePool)) {
	before := p.object
	changed := before.DeepCopy()
	change(changed)
	if !equality.Semantic.DeepEqual(before.Spec, changed.Spec) {
		changed.Generation++
	}
	c.version++
	changed.ResourceVersion = fmt.Sprint(c.version)
	p.object, p.woken = changed, true
	c.asked = c.asked || predicate.Or(watch.PoolChanged, poolStatusChanges).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: changed})
}

// poolIn is the pool whose instances are listed. Nil: those of all are.
func (c *cluster) poolIn(of client.ListOptions) *simulatedPool {
	for _, p := range c.pools {
		if of.FieldSelector != nil && p.object.Namespace == of.Namespace && of.FieldSelector.Matches(fields.Set(object.InPool(p.object.Name))) {
			return p
		}
	}
	return nil
}

// instances are those of a pool that are in the cache. That is nil if it has them as they are.
func (p *simulatedPool) instances(cached []*v1alpha1.WindowsInstance) []*v1alpha1.WindowsInstance {
	var own []*v1alpha1.WindowsInstance
	for _, i := range cached {
		if i.Namespace == p.object.Namespace && object.PoolName(i) == p.object.Name {
			own = append(own, i)
		}
	}
	if cached != nil {
		return own
	}
	for _, m := range p.members {
		if m.instance != nil {
			own = append(own, m.instance)
		}
	}
	return own
}

// Get implements [client.Reader].
func (l clusterClient) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *v1alpha1.WindowsNodePool:
		l.c.pool(key).object.DeepCopyInto(into)
	case *appsv1.ControllerRevision:
		kept := l.c.kept[key]
		if kept == nil {
			return apierrors.NewNotFound(appsv1.Resource("controllerrevisions"), key.Name)
		}
		kept.DeepCopyInto(into)
	default:
		return fmt.Errorf("it reads %T", into)
	}
	return nil
}

// Create implements [client.Writer].
func (l clusterClient) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return l.keep(obj)
}

// Update implements [client.Writer].
func (l clusterClient) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return l.keep(obj)
}

// Delete implements [client.Writer].
func (l clusterClient) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	delete(l.c.kept, client.ObjectKeyFromObject(obj))
	return nil
}

func (l clusterClient) keep(obj client.Object) error {
	kept, ok := obj.(*appsv1.ControllerRevision)
	if !ok {
		return fmt.Errorf("it writes %T", obj)
	}
	l.c.kept[client.ObjectKeyFromObject(obj)] = kept.DeepCopy()
	l.c.pool(types.NamespacedName{Namespace: kept.Namespace, Name: metav1.GetControllerOf(kept).Name}).woken = true
	return nil
}

// Apply implements [client.SubResourceWriter]. What others have in the status stays there.
func (w clusterStatus) Apply(_ context.Context, obj runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	want, ok := obj.(*acwindowsv1alpha1.WindowsNodePoolApplyConfiguration)
	if !ok {
		return fmt.Errorf("it applies %T", obj)
	}
	p := w.c.pool(types.NamespacedName{Namespace: *want.Namespace, Name: *want.Name})
	if p == nil || *want.UID != p.object.UID {
		return errors.New("it applies the status of another pool")
	}
	data, err := json.Marshal(want.Status)
	if err != nil {
		return err
	}
	var status v1alpha1.WindowsNodePoolStatus
	if err := json.Unmarshal(data, &status); err != nil {
		return err
	}
	before := p.rolledBack()
	w.c.editPool(p, func(pool *v1alpha1.WindowsNodePool) {
		status.RecentRemovals = pool.Status.RecentRemovals
		pool.Status = status
	})
	if !equality.Semantic.DeepEqual(before, p.rolledBack()) {
		w.c.desireAll(p)
	}
	return nil
}
