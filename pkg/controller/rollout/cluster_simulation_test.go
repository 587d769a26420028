// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	desired "github.com/openshift/windows-instance-api/pkg/desired/revision"
	"github.com/openshift/windows-instance-api/pkg/drain"
)

// TestSimulatedCluster: what TestSimulation says of decisions holds for the objects of a fleet, whenever the controller is killed or away,
// its cache is behind, or the answer to a write is lost. It asks itself for each pass that it needs, leaves no Node cordoned, and restarts
// Windows once for whatever asks for it.
func TestSimulatedCluster(t *testing.T) {
	// Each takes ten times as long as a run of TestSimulation, and the race detector makes it longer still.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
		if err := checks.Value.Set("40"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, simulateCluster)
}

// FuzzSimulatedCluster is TestSimulatedCluster for as long as somebody wants.
func FuzzSimulatedCluster(f *testing.F) { fuzzSimulation(f, simulateCluster) }

func simulateCluster(t *rapid.T) {
	rapid.SyncTest(t, func(t *rapid.T) {
		c := &cluster{t: t, draw: func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }}
		c.disruptions = 1 + c.draw("disruptions", 4)
		namespaces := 1 + c.draw("namespaces", 2)
		for n := range 1 + c.draw("pools", 3) {
			c.addPool(n, 1+c.draw("size", 5), namespaces)
		}
		c.begin()
		defer func() { c.stop() }() // it is another one by then
		actions := map[string]func(*rapid.T){"": func(*rapid.T) { c.work() }}
		for name, act := range clusterActions {
			actions[name] = func(*rapid.T) { act(c) }
		}
		t.Repeat(actions)
		c.settle()
	})
}

// addPool adds a pool with hosts, which are to be updated, in one of some namespaces.
func (c *cluster) addPool(n, size, namespaces int) {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("ns%d", n%namespaces), Name: fmt.Sprintf("p%d", n), UID: types.UID(fmt.Sprint(n)), Generation: 1}}
	pool.Spec.Source.Instances = &v1alpha1.InstancesSource{}
	c.givePolicy(pool)
	p := &simulatedPool{object: pool, proven: map[string]bool{}}
	c.pools = append(c.pools, p)
	for range size {
		c.members = append(c.members, p.addMember())
	}
}

// addMember adds a host to a pool, which works with what it has had since long.
func (p *simulatedPool) addMember() *member {
	m := &member{in: p, key: types.NamespacedName{Namespace: p.object.Namespace, Name: fmt.Sprintf("%s-%d", p.object.Name, p.added)}, boots: map[string]int{}, repairs: map[string]int{}}
	m.node = newClusterNode(m.key, 0)
	m.instance = works(func(i *v1alpha1.WindowsInstance) {
		i.Namespace, i.Name, i.UID, i.ResourceVersion = m.key.Namespace, m.key.Name, types.UID(m.key.String()), "0"
		i.Spec.PoolRef.Name = p.object.Name
		i.Status.Node, i.Status.System = &v1alpha1.NodeReference{Name: m.node.Name, UID: m.node.UID}, nil
		i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{}
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}, metav1.Condition{Type: v1alpha1.ConditionPreflightPassed, Status: metav1.ConditionTrue})
	})
	m.has = m.instance.Status.CurrentRevision
	m.worked = m.has
	p.members, p.added = append(p.members, m), p.added+1
	return m
}

// join has a host that nobody has seen before become a Node with what it is to have.
func (c *cluster) join(p *simulatedPool) {
	m := p.addMember()
	c.members, c.byKey[m.key] = append(c.members, m), m
	slices.SortFunc(c.members, func(a, b *member) int { return compareKeys(a.key, b.key) })
	m.instance.CreationTimestamp = metav1.Now()
	c.count(m)
	c.cost(m)
	c.desire(m)
	op := v1alpha1.NewOperation(v1alpha1.OperationReconfigure, "z"+m.key.Name, v1alpha1.OriginController, v1alpha1.ControllerRequester, time.Now())
	op.Phase, op.StartedAt, op.FinishedAt, op.HostChanged, op.Revision = v1alpha1.OperationSucceeded, new(metav1.Now()), new(metav1.Now()), true, m.instance.Status.DesiredRevision
	m.has, m.worked, m.got, m.booted = op.Revision, template(op.Revision), time.Now(), time.Now()
	c.edit(m, func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation, i.Status.CurrentRevision, i.Status.PoolRevision, i.Status.RestartedAt = op, op.Revision, c.nameOf[m.worked], new(metav1.Now())
	})
	c.desire(m)
	c.asked = true
}

func newClusterNode(key types.NamespacedName, generation int) *corev1.Node {
	name := key.Namespace + "-" + key.Name
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, generation)), Annotations: asConfigured()},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// begin has the controller begin on the eve of the day when the clocks of Europe change. All hosts work with what their pools have had since long,
// and are to get something else.
func (c *cluster) begin() {
	slices.SortFunc(c.members, func(a, b *member) int { return compareKeys(a.key, b.key) })
	c.byKey, c.kept = map[types.NamespacedName]*member{}, map[types.NamespacedName]*appsv1.ControllerRevision{}
	c.nameOf, c.wantedAs = map[string]string{}, map[string]string{}
	for _, m := range c.members {
		c.byKey[m.key] = m
		c.count(m)
	}
	<-time.After(time.Until(time.Date(2000, 3, 25, 20, 0, 0, 0, time.UTC)))
	for _, p := range c.pools {
		c.want(p)
		for _, m := range p.members {
			m.has, m.worked = p.wanted, template(p.wanted)
			c.edit(m, func(i *v1alpha1.WindowsInstance) {
				i.Status.CurrentRevision, i.Status.PoolRevision = m.has, c.nameOf[m.worked]
			})
			c.desire(m)
		}
	}
	c.start()
	c.run(time.Minute + 5*c.pace.rest) // until it is known that all work with it
	for _, p := range c.pools {
		c.want(p)
	}
}

// givePolicy has a pool say something about its hosts.
func (c *cluster) givePolicy(pool *v1alpha1.WindowsNodePool) {
	u := &pool.Spec.UpdateStrategy
	u.Type = pick(c, "type", v1alpha1.RollingUpdate, v1alpha1.RollingUpdate, v1alpha1.OnRequest)
	u.RollingUpdate.MaxUnavailable = pick(c, "maxUnavailable", nil, new(intstr.FromInt32(2)), new(intstr.FromString("30%")))
	u.RollingUpdate.Canary = pick(c, "canary", nil, nil, new(intstr.FromInt32(0)), new(intstr.FromInt32(2)))
	u.RollingUpdate.MaxFailures = pick(c, "maxFailures", nil, new(int32(1)))
	u.RollingUpdate.OnFailure = pick(c, "onFailure", "", v1alpha1.FailureStop, v1alpha1.FailureRollback)
	u.Window = pick(c, "window", nil, nil, &v1alpha1.MaintenanceWindow{Schedule: "0 1 * * *", DurationSeconds: 7200, TimeZone: "Europe/Berlin"})
	pool.Spec.Restarts.Policy = pick(c, "restarts", v1alpha1.RestartNever, v1alpha1.RestartWhenPending)
	pool.Spec.WindowsUpdates.Install = pick(c, "windowsUpdates", v1alpha1.InstallNone, v1alpha1.InstallSecurity)
	pool.Spec.Remediation = pick(c, "remediation", nil, &v1alpha1.PoolRemediation{}, &v1alpha1.PoolRemediation{MaxUnhealthy: new(intstr.FromInt32(3))}, &v1alpha1.PoolRemediation{MaxUnhealthy: new(pick(c, "maxUnhealthy", intstr.FromInt32(0), intstr.FromString("0%")))})
}

func pick[T any](c *cluster, what string, of ...T) T { return of[c.draw(what, len(of))] }

// want has all hosts of a pool get something else.
func (c *cluster) want(p *simulatedPool) {
	c.version++
	p.templates = append(p.templates, fmt.Sprintf("r%d", 100+c.version))
	c.edits(p, p.templates[len(p.templates)-1])
}

// edits has somebody edit the template of a pool, which it may have had before.
func (c *cluster) edits(p *simulatedPool, to string) {
	c.editPool(p, func(pool *v1alpha1.WindowsNodePool) { pool.Spec.Template.NodeLabels = map[string]string{"r": to} })
	name, err := desired.NameOf(p.object, document.Payload{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.nameOf[to], c.wantedAs[name] = name, to
	c.wantAll(p, to)
}

// changeInputs has all hosts of all pools get something else that comes from the cluster. That is no other revision of their pools.
func (c *cluster) changeInputs() {
	c.inputs++
	for _, p := range c.pools {
		c.wantAll(p, template(p.wanted))
	}
}

// wantAll has the hosts of a pool be to have a template, and what comes from the cluster, at another cost.
func (c *cluster) wantAll(p *simulatedPool, template string) {
	p.wanted = c.withInputs(template)
	for _, m := range p.members {
		if m.instance != nil {
			c.cost(m)
		}
	}
	c.desireAll(p)
}

// withInputs is what hosts are to have with a template.
func (c *cluster) withInputs(template string) string { return fmt.Sprintf("%s.%d", template, c.inputs) }

// cost says what it costs a host to be given what it is to have.
func (c *cluster) cost(m *member) {
	m.costs = pick(c, "costs", impacts...)
	if m.says = m.costs; c.draw("differs", 8) == 0 { // it finds out more when it is done
		m.says = pick(c, "says", impacts...)
	}
}

// toHave is what the hosts of a pool are to have, but for those that keep, or get back, what they had because a revision was rolled back.
func (c *cluster) toHave(p *simulatedPool) string {
	if back := p.rolledBack(); back.ByPerson() {
		return c.withInputs(c.wantedAs[back.To])
	}
	return p.wanted
}

// goesBack says whether a host is to go back by itself: somebody has undone what it has, or that has broken it.
func (c *cluster) goesBack(m *member) bool {
	back := m.in.rolledBack()
	switch {
	case back == nil:
		return false
	case back.ByPerson():
		return m.worked != c.wantedAs[back.To]
	}
	return back.Broke(m.key.Name) && m.worked == template(m.in.wanted) && template(m.instance.Status.DesiredRevision) != m.worked
}

// undo has somebody undo the revision of a pool, if there is one to go back to.
func (c *cluster) undo(p *simulatedPool) {
	status, others := &p.object.Status, []string(nil)
	for _, name := range status.WorkedRevisions {
		if name != status.UpdateRevision {
			others = append(others, name)
		}
	}
	if len(others) == 0 || status.UpdateRevision != c.nameOf[template(p.wanted)] {
		return
	}
	to := pick(c, "to", others...)
	c.editPool(p, func(p *v1alpha1.WindowsNodePool) {
		p.Spec.UpdateStrategy.RollingUpdate.Undo = &v1alpha1.PoolUndo{Revision: status.UpdateRevision, To: to, RequestedBy: "alice", RequestedAt: new(metav1.NewTime(time.Now().Truncate(time.Second)))}
	})
}

// resume has a revision of a pool rolled out again that was rolled back, or undone.
func (c *cluster) resume(p *simulatedPool) {
	if p.rolledBack() == nil {
		return
	}
	c.editPool(p, func(p *v1alpha1.WindowsNodePool) {
		p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(metav1.Now())
	})
	c.desireAll(p)
}

// desireAll writes it of all hosts of a pool.
func (c *cluster) desireAll(p *simulatedPool) {
	for _, m := range p.members {
		if m.instance != nil {
			c.desire(m)
		}
	}
}

// desire writes what the controller of instances says of what a host is to have: what its pool wants, or what it goes back to.
func (c *cluster) desire(m *member) {
	want := m.in.wanted
	of := c.nameOf[template(want)]
	if name := desired.BackTo(m.instance, m.in.object, of); name != "" {
		want, of = c.withInputs(c.wantedAs[name]), name
	}
	if m.instance.Status.DesiredRevision != want {
		m.lacksSince = time.Now()
	}
	upToDate := metav1.Condition{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRevisionCurrent}
	if m.instance.Status.CurrentRevision != want {
		upToDate.Status, upToDate.Reason = metav1.ConditionFalse, v1alpha1.ReasonRevisionOutdated
	}
	if known := meta.FindStatusCondition(m.instance.Status.Conditions, upToDate.Type); m.instance.Status.DesiredRevision == want && m.instance.Status.DesiredPoolRevision == of && known != nil && known.Status == upToDate.Status {
		return
	}
	c.edit(m, func(i *v1alpha1.WindowsInstance) {
		i.Status.DesiredRevision, i.Status.DesiredPoolRevision = want, of
		meta.SetStatusCondition(&i.Status.Conditions, upToDate)
	})
}

func (c *cluster) any() *member { return c.members[c.draw("host", len(c.members))] }

func (c *cluster) anyPool() *simulatedPool { return c.pools[c.draw("pool", len(c.pools))] }

func (c *cluster) nodeGoesDown(m *member) {
	if m.instance != nil && m.node != nil {
		m.down = true
		c.setReady(m, false)
	}
}

// comesUp has the kubelet of a host report again, unless the host is being restarted.
func (c *cluster) comesUp(m *member) {
	m.down = false
	c.setReady(m, true)
	c.search(m)
}

// search has a host that works look for updates of Windows again after it has installed some, and find none.
func (c *cluster) search(m *member) {
	if m.instance == nil || !m.ready() || m.installs == "" || m.instance.Status.Operation.Active() {
		return
	}
	m.installs = ""
	c.edit(m, func(i *v1alpha1.WindowsInstance) { i.Status.WindowsUpdates.SearchedAt = new(metav1.Now()) })
}

// cordonByHand has a person cordon a Node, or drain it with an operation, or uncordon it.
func (c *cluster) cordonByHand(m *member) {
	if m.node == nil || m.marked() && !m.drained() {
		return
	}
	mark := ""
	if !m.node.Spec.Unschedulable && c.draw("drains", 2) == 1 && !m.instance.Status.Operation.Active() {
		op := v1alpha1.NewOperation(v1alpha1.OperationDrain, "w"+m.instance.ResourceVersion, v1alpha1.OriginUser, "alice", time.Now())
		op.Phase, op.StartedAt, op.FinishedAt = v1alpha1.OperationSucceeded, new(metav1.Now()), new(metav1.Now())
		c.record(m, op)
		m.next = time.Time{}
		mark = op.ID + " " + drain.AskedForBy(op.RequestedBy)
	}
	c.setCordon(m, !m.node.Spec.Unschedulable, mark)
}

// setCordon has a Node be cordoned with a mark, or not.
func (c *cluster) setCordon(m *member, cordoned bool, mark string) {
	c.editNode(m, func(n *corev1.Node) {
		n.Spec.Unschedulable = cordoned
		if delete(n.Annotations, v1alpha1.CordonedByAnnotation); mark != "" {
			n.Annotations[v1alpha1.CordonedByAnnotation] = mark
		}
	})
}

// clusterActions are what may happen to a cluster.
var clusterActions = map[string]func(*cluster){
	"time goes by": func(c *cluster) { c.run(time.Duration(1+c.draw("seconds", 1800)) * time.Second) },
	"a night":      func(c *cluster) { c.run(time.Until(time.Now().Truncate(24 * time.Hour).Add(25 * time.Hour))) },
	"something else is wanted": func(c *cluster) {
		c.want(c.anyPool())
	},
	"a pool is edited back": func(c *cluster) {
		p := c.anyPool()
		if to := pick(c, "to", p.templates...); to != template(p.wanted) {
			c.edits(p, to)
		}
	},
	"something else comes from the cluster": func(c *cluster) { c.changeInputs() },
	"somebody undoes a revision":            func(c *cluster) { c.undo(c.anyPool()) },
	"somebody resumes a revision":           func(c *cluster) { c.resume(c.anyPool()) },
	"a host joins": func(c *cluster) {
		if p := c.anyPool(); len(p.members) < 12 {
			c.join(p)
		}
	},
	"a Node goes down or comes up": func(c *cluster) {
		if m := c.any(); m.down {
			c.comesUp(m)
		} else {
			c.nodeGoesDown(m)
		}
	},
	"somebody cordons a Node or uncordons it": func(c *cluster) { c.cordonByHand(c.any()) },
	"a Node is deleted or made again": func(c *cluster) {
		m := c.any()
		if m.instance == nil || m.instance.Status.Operation.Active() || !m.instance.DeletionTimestamp.IsZero() {
			return
		}
		if m.node != nil {
			c.setNode(m, nil)
		} else {
			c.makeNode(m)
		}
		c.observe(m)
	},
	"a host does not answer, or does again": func(c *cluster) {
		m := c.any()
		m.refuses = !m.refuses
	},
	"a pool is to be restarted": func(c *cluster) {
		c.editPool(c.anyPool(), func(p *v1alpha1.WindowsNodePool) { p.Spec.Restarts.After = new(metav1.Now()) })
	},
	"Windows waits for a restart": func(c *cluster) {
		if m := c.any(); m.instance != nil && m.pendingSince == "" {
			m.pendingSince = time.Now().String()
			c.edit(m, func(i *v1alpha1.WindowsInstance) {
				meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRebootRequired, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRebootPending})
			})
		}
	},
	"there are updates of Windows": func(c *cluster) { c.findUpdates(c.anyPool()) },
	"a person asks for an update": func(c *cluster) {
		m := c.any()
		if m.instance == nil || m.instance.Status.Operation.Active() || !m.instance.DeletionTimestamp.IsZero() || m.node == nil || c.paused(m) {
			return
		}
		op := v1alpha1.NewOperation(v1alpha1.OperationReconfigure, "y"+m.instance.ResourceVersion, v1alpha1.OriginUser, "alice", time.Now())
		op.Revision, op.PoolRevision = m.instance.Status.DesiredRevision, m.instance.Status.DesiredPoolRevision
		c.record(m, op)
	},
	"a host is to be removed": func(c *cluster) {
		m := c.any()
		if m.instance == nil || !m.instance.DeletionTimestamp.IsZero() {
			return
		}
		if c.draw("confirmed", 2) == 0 {
			c.editPool(m.in, func(p *v1alpha1.WindowsNodePool) {
				p.Status.RecentRemovals = append(p.Status.RecentRemovals, v1alpha1.PoolRemoval{Name: m.key.Name, Time: metav1.Now(), Confirmed: true})
			})
		}
		c.edit(m, func(i *v1alpha1.WindowsInstance) {
			i.DeletionTimestamp, i.Finalizers = new(metav1.Now()), []string{v1alpha1.HostFinalizer}
		})
	},
	"a Node asks for a restart, or not any more":       func(c *cluster) { c.askForRestart(c.any()) },
	"a Node asks for a configuration, or not any more": func(c *cluster) { c.askForConfiguration(c.any()) },
	"an instance is paused or not":                     func(c *cluster) { c.pause(c.any()) },
	"an instance goes over to another pool":            func(c *cluster) { c.goOver(c.any()) },
	"a pool gets another policy":                       func(c *cluster) { c.editPool(c.anyPool(), c.givePolicy) },
	"a pool is paused or not": func(c *cluster) {
		c.editPool(c.anyPool(), func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused = !p.Spec.Paused })
	},
	"the controller is killed": func(c *cluster) {
		c.stop()
		c.start()
	},
	"the controller is away": func(c *cluster) {
		c.stop()
		for range c.draw("happens", 4) {
			if m := c.any(); c.draw("what", 2) == 0 {
				c.nodeGoesDown(m)
			} else {
				c.cordonByHand(m)
			}
		}
		<-time.After(time.Duration(c.draw("seconds", 3600)) * time.Second)
		c.start()
		c.pass() // before anybody has written what was seen of the Nodes
		for _, m := range c.members {
			c.observe(m)
		}
	},
	"the cache is behind": func(c *cluster) {
		c.cached = c.instances()
		c.run(time.Duration(1+c.draw("seconds", 600)) * time.Second)
		c.cached, c.asked = nil, true
		for _, p := range c.pools {
			p.woken = true
		}
	},
	"the answer to a write is lost": func(c *cluster) { c.loses = true },
}

// findUpdates has the hosts of a pool find updates of Windows.
func (c *cluster) findUpdates(p *simulatedPool) {
	for _, m := range p.members {
		if m.instance != nil && len(m.instance.Status.WindowsUpdates.Failed) == 0 {
			if m.updatesSince == "" {
				m.updatesSince = time.Now().String()
			}
			c.edit(m, func(i *v1alpha1.WindowsInstance) {
				i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{SearchedAt: new(metav1.Now()), Pending: 2, Security: 1}
			})
		}
	}
}

func (c *cluster) makeNode(m *member) {
	m.down = false
	c.version++
	c.setNode(m, newClusterNode(m.key, c.version))
}

// settle lets time go by until nothing more happens. Whoever is not updated, restarted or removed then waits for something that is true.
func (c *cluster) settle() {
	c.well = true
	for _, p := range c.pools {
		c.editPool(p, func(p *v1alpha1.WindowsNodePool) { p.Spec.Paused = false })
	}
	for _, m := range c.members {
		if m.refuses = false; m.instance == nil {
			continue
		}
		if m.instance.Spec.Paused {
			c.pause(m)
		}
		if m.node == nil {
			c.makeNode(m)
			c.observe(m)
		}
		if m.node.Spec.Unschedulable && (!m.marked() || m.drained()) {
			c.cordonByHand(m)
		}
		c.comesUp(m)
	}
	c.run(time.Minute + 5*c.pace.rest) // also if nothing is left to be done, the pools have to say so
	// A window opens each day, and what has failed is tried again within two.
	for version, quiet := c.version, 0; quiet < 3*24 && !c.over(); quiet++ {
		c.run(time.Hour)
		if c.version != version {
			version, quiet = c.version, 0
		}
	}
	c.run(time.Second + 5*c.pace.rest) // until the pools have said it, also of what has just ended
	for _, m := range c.members {
		if m.instance != nil {
			c.explained(m)
		}
	}
	for _, p := range c.pools {
		c.tells(p)
	}
}

// over says whether nothing more is to be done to any host, but for what people have to ask for.
func (c *cluster) over() bool {
	for _, m := range c.members {
		if m.instance == nil {
			continue
		}
		op := m.instance.Status.Operation
		if goesOn := op.Active() && !op.At(v1alpha1.StepWaitForSlot); goesOn || !c.done(m) && !c.isUpToPeople(m) {
			return false
		}
	}
	return true
}

// isUpToPeople says whether a host works, and waits for what a person has to do.
func (c *cluster) isUpToPeople(m *member) bool {
	u := c.poolOf(m).Spec.UpdateStrategy
	if m.outOfService() || m.marked() || c.toRestart(m) || c.goesBack(m) {
		return false
	}
	switch c.scheduler.last.waits[m.key].kind {
	case waitsForRequest:
		return u.Type == v1alpha1.OnRequest
	case waitsForCanary:
		return u.RollingUpdate.Canary != nil
	case waitsForResume:
		return m.in.isRolledBack()
	}
	return false
}

// done says whether a host has what it is to have, works, and is not to be restarted.
func (c *cluster) done(m *member) bool {
	return m.instance.DeletionTimestamp.IsZero() && !m.instance.Status.Operation.Active() && m.has == m.instance.Status.DesiredRevision && !c.toRestart(m) && !object.AsksForConfiguration(m.node) && !m.outOfService() && !m.marked()
}

// toRestart says whether Windows is to be restarted on a host.
func (c *cluster) toRestart(m *member) bool {
	spec := c.poolOf(m).Spec
	after, waits := spec.Restarts.After, spec.Restarts.Policy == v1alpha1.RestartWhenPending && m.pendingSince != ""
	return after != nil && m.booted.Before(after.Time) || waits || object.AsksForRestart(m.node) || spec.WindowsUpdates.Install != v1alpha1.InstallNone && m.updatesSince != ""
}

// explained fails the test if a host is not as it should be, and it is not said why, or that is not true.
func (c *cluster) explained(m *member) {
	if c.done(m) {
		return
	}
	if !c.isUpToPeople(m) {
		c.t.Fatalf("%s waits in vain, %q: %+v %+v %+v", m.key, c.scheduler.WaitsFor(m.key), m.node, m.instance.Status, m.instance.Status.Operation)
	}
	if c.scheduler.WaitsFor(m.key) == "" || c.scheduler.blockedBy(poolKey{m.key.Namespace, m.instance.Spec.PoolRef.Name}).text == "" {
		c.t.Fatalf("nobody says what %s waits for", m.key)
	}
}
