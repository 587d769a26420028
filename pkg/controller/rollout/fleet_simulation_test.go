// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var (
	fleetHosts = flag.Int("fleet.hosts", 200, "how many hosts TestSimulatedFleet has")
	fleetSeed  = flag.Uint64("fleet.seed", 3, "what happens in TestSimulatedFleet")
)

// fleetPools is how many pools a fleet has.
const fleetPools = 20

// TestSimulatedFleet: what TestSimulatedCluster says of some hosts holds for a fleet, over two nights in one of which the clocks change. Its pools
// differ in all that they can say of their hosts. Three revisions are rolled out, the second before the first has reached all; hosts fail, go
// down, leave and are restarted, updates of Windows come, revisions are rolled back, undone and resumed, what comes from the cluster changes, and the controller is killed or away.
func TestSimulatedFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(*fleetSeed, 0))
		f := &fleet{cluster: cluster{
			t: newFleetLog(t), draw: func(_ string, n int) int { return random.IntN(n) }, disruptions: *fleetHosts / 20,
			pace: clusterPace{step: 15 * time.Minute, rest: 5 * time.Minute, luck: 5},
		}}
		for n := range fleetPools {
			f.addPool(n, *fleetHosts/fleetPools, 16)
			f.givePolicyOfFleet(n)
		}
		f.begin()
		defer func() { f.stop() }() // it is another one by then
		f.days()
		f.settle()
		f.varied()
	})
}

// fleet is a cluster of many hosts.
type fleet struct {
	cluster
	// rolledBack are the pools of which a revision was, and undone those of which somebody has undone one.
	rolledBack, undone map[*simulatedPool]bool
}

// givePolicyOfFleet has a pool say what others do not.
func (f *fleet) givePolicyOfFleet(n int) {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: f.pools[n].object.ObjectMeta}
	pool.Spec.Source.Instances = &v1alpha1.InstancesSource{}
	u := &pool.Spec.UpdateStrategy
	u.Type = v1alpha1.RollingUpdate
	if n%10 == 9 {
		u.Type = v1alpha1.OnRequest
	}
	u.RollingUpdate.MaxUnavailable = of(n, new(intstr.FromString("10%")), new(intstr.FromString("25%")), new(intstr.FromInt32(int32(max(2, *fleetHosts/200)))))
	u.RollingUpdate.Canary = of(n, nil, nil, nil, new(intstr.FromString("5%")), nil)
	u.RollingUpdate.MaxFailures = of(n, new(int32(5)), nil, new(int32(1)), new(int32(2)))
	u.RollingUpdate.OnFailure = of(n, v1alpha1.FailureStop, v1alpha1.FailureRollback, v1alpha1.FailureRollback)
	u.Window = of(n, nil,
		&v1alpha1.MaintenanceWindow{Schedule: "0 1 * * *", DurationSeconds: 2 * 3600, TimeZone: "Europe/Berlin"}, nil,
		&v1alpha1.MaintenanceWindow{Schedule: "30 2 * * *", DurationSeconds: 3 * 3600, TimeZone: "Europe/Berlin"}, // an hour that the clocks leave out
		&v1alpha1.MaintenanceWindow{Schedule: "0 20 * * *", DurationSeconds: 4 * 3600, TimeZone: "America/New_York"}, nil)
	pool.Spec.Restarts.Policy = of(n, v1alpha1.RestartWhenPending, v1alpha1.RestartNever, v1alpha1.RestartWhenPending)
	pool.Spec.WindowsUpdates.Install = of(n, v1alpha1.InstallNone, v1alpha1.InstallNone, v1alpha1.InstallSecurity, v1alpha1.InstallAll)
	pool.Spec.Remediation = of(n, nil, &v1alpha1.PoolRemediation{}, &v1alpha1.PoolRemediation{MaxUnhealthy: new(intstr.FromInt32(20))})
	f.pools[n].object = pool
}

// of is the one of some for the pool of a number.
func of[T any](n int, some ...T) T { return some[n%len(some)] }

// days lets one and a half go by.
func (f *fleet) days() {
	f.rolledBack, f.undone = map[*simulatedPool]bool{}, map[*simulatedPool]bool{}
	for halfHour := range 3 * 24 {
		switch halfHour {
		case 5: // it moves on in the middle
			for n := 0; n < fleetPools; n += 4 {
				f.want(f.pools[n])
			}
		case 28: // one that fails often
			f.pace.luck = 1
			for _, p := range f.pools {
				f.want(p)
			}
		case 36, 66:
			f.pace.luck = 5
		case 29, 60:
			clusterActions["the cache is behind"](&f.cluster)
		case 34:
			for n := 0; n < fleetPools; n += 3 {
				f.editPool(f.pools[n], func(p *v1alpha1.WindowsNodePool) { p.Spec.Restarts.After = new(metav1.Now()) })
			}
		case 3, 11, 30, 61: // in the middle of it, and of a window
			clusterActions["the controller is killed"](&f.cluster)
		case 14, 38, 58: // while one is rolled out, when it was rolled back, and when others were undone
			f.changeInputs()
		case 40:
			clusterActions["the controller is away"](&f.cluster)
		case 8, 44:
			for _, p := range f.pools {
				f.findUpdates(p)
			}
		case 50:
			f.editPool(f.pools[3], func(p *v1alpha1.WindowsNodePool) { p.Spec.UpdateStrategy.RollingUpdate.Canary = nil })
			f.editPool(f.pools[8], func(p *v1alpha1.WindowsNodePool) {
				p.Spec.UpdateStrategy.RollingUpdate.Canary = new(intstr.FromString("60%"))
			})
		case 52: // and windows open, in which what has failed often is rolled out to others
			f.pace.luck = 1
			for n := 0; n < fleetPools; n += 3 {
				f.undo(f.pools[n])
			}
		case 56: // those of other pools stay as they are
			for _, p := range f.pools[:fleetPools/2] {
				f.resume(p)
			}
		case 62:
			for n := 1; n < fleetPools; n += 5 {
				f.want(f.pools[n])
			}
		}
		f.happens()
		f.run(30 * time.Minute)
		for _, p := range f.pools {
			if p.isRolledBack() {
				f.rolledBack[p] = true
			} else if p.rolledBack() != nil {
				f.undone[p] = true
			}
		}
	}
}

// happens has something happen to some hosts, and ends most of what did before.
func (f *fleet) happens() {
	for _, m := range f.members {
		if m.instance == nil || f.draw("ends", 3) == 0 {
			continue
		}
		m.refuses = false
		if m.instance.Spec.Paused {
			f.pause(m)
		}
		if m.down {
			f.comesUp(m)
		}
		if m.node != nil && m.node.Spec.Unschedulable {
			f.cordonByHand(m)
		}
		if m.node == nil && m.instance.DeletionTimestamp.IsZero() && !m.instance.Status.Operation.Active() {
			f.makeNode(m)
			f.observe(m)
		}
	}
	for range *fleetHosts / 100 {
		clusterActions[pick(&f.cluster, "what",
			"a Node goes down or comes up", "a Node goes down or comes up", "somebody cordons a Node or uncordons it", "a Node is deleted or made again",
			"a host does not answer, or does again", "Windows waits for a restart", "Windows waits for a restart", "a person asks for an update",
			"a person asks for an update", "a host is to be removed", "the answer to a write is lost",
			"a Node asks for a restart, or not any more", "a Node asks for a configuration, or not any more", "an instance is paused or not", "an instance goes over to another pool", "an instance goes over to another pool",
		)](&f.cluster)
	}
}

// varied fails the test if too little has happened for it to say something.
func (f *fleet) varied() {
	var removed, restarted, asked, moved, repaired, current, waiting int
	for _, m := range f.members {
		if m.instance == nil {
			removed++
			continue
		}
		restarted += number(len(m.boots) > 0)
		asked += m.boots[string(v1alpha1.CauseRestartAnnotated)+m.restartAsked]
		moved += number(!strings.HasPrefix(m.key.Name, m.in.object.Name+"-"))
		repaired += number(len(m.repairs) > 0)
		current += number(m.has == m.in.wanted)
		waiting += number(m.has != m.in.wanted)
	}
	rolledBack, undone := len(f.rolledBack), len(f.undone)
	text := fmt.Sprintf("until %s %d hosts were removed, %d restarted, %d because their Nodes asked for it, %d repaired, and %d are in another pool than before; %d have what their pools want, and %d wait for somebody; %d pools were rolled back, and %d undone",
		time.Now().UTC().Format(time.DateTime), removed, restarted, asked, repaired, moved, current, waiting, rolledBack, undone)
	f.t.Log(text)
	if slices.Min([]int{removed, restarted, asked, repaired, moved, current, waiting, rolledBack, undone}) == 0 {
		f.t.Fatal(text)
	}
}

// fleetLog keeps the end of the log of a fleet until the test fails.
type fleetLog struct {
	rapid.TB
	lines []string
}

// newFleetLog returns one that prints what it has kept if the test has failed.
func newFleetLog(t *testing.T) *fleetLog {
	l := &fleetLog{TB: t}
	t.Cleanup(func() {
		if t.Failed() {
			for _, line := range l.lines {
				t.Log(line)
			}
		}
	})
	return l
}

// Logf implements [rapid.TB].
func (l *fleetLog) Logf(format string, args ...any) {
	const most = 1000
	if len(l.lines) >= 2*most {
		l.lines = slices.Delete(l.lines, 0, most)
	}
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}
