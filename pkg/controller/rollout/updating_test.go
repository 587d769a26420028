// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestLastingWaits: a pool in which hosts only wait, for what may last, is not being updated, and says what all of them wait for. What is no
// part of a rollout is told apart.
func TestLastingWaits(t *testing.T) {
	const drains = v1alpha1.ImpactDrain
	onRequest := strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.Type = v1alpha1.OnRequest })
	canary := strategy(func(s *v1alpha1.PoolUpdateStrategy) { s.RollingUpdate.Canary = new(intstr.FromInt32(1)) })
	closed := strategy(func(s *v1alpha1.PoolUpdateStrategy) {
		s.Window = &v1alpha1.MaintenanceWindow{Schedule: "0 14 * * *", DurationSeconds: 3600}
	})
	wants := func(cause v1alpha1.OperationCause) func(*host) { return func(h *host) { h.restart = cause } }
	later := func(h *host) { h.due = testNow.Add(time.Hour) }
	isCordoned := func(h *host) { h.cordoned = true }
	cannotSay := func(h *host) { h.failing, h.failingSince = "The agent does not run.", testNow.Add(-planPatience) }
	unfitFor := func(name string, kind waitKind) host {
		return outdated(name, "", isUpToDate, func(h *host) { h.unfit = kind })
	}
	for _, tt := range []struct {
		name   string
		pool   *v1alpha1.WindowsNodePool
		hosts  []host
		reason string
		says   string
	}{
		{"on request", onRequest, []host{outdated("a", drains), outdated("b", "", isUpToDate)}, v1alpha1.ReasonUpdatesOnRequest, "Hosts are updated when somebody asks for it"},
		{"one is asked what it costs", onRequest, []host{outdated("a", drains), outdated("b", "")}, v1alpha1.ReasonUpdateInProgress, "Hosts are next"},
		{"canaries", canary, []host{outdated("a", drains), outdated("b", "", isUpToDate)}, v1alpha1.ReasonCanariesUpdated, "the others wait until it is raised or removed"},
		{"the window is closed", closed, []host{outdated("a", drains), outdated("b", drains)}, v1alpha1.ReasonWindowClosed, "Hosts wait for the window of the pool"},
		{"also for updates of Windows", closed, []host{outdated("a", drains), outdated("b", "", isUpToDate, wants(v1alpha1.CauseWindowsUpdates))}, v1alpha1.ReasonWindowClosed, "Hosts wait for the window of the pool"},
		{"one is tried again at a time", closed, []host{outdated("a", drains), outdated("b", drains, later)}, v1alpha1.ReasonWindowClosed, "Hosts wait for the window of the pool"},
		{"only that", closed, []host{outdated("b", drains, later)}, v1alpha1.ReasonUpdateBlocked, "Hosts wait for somebody or for a time"},
		{"somebody has asked for restarts", closed, []host{outdated("a", "", isUpToDate, wants(v1alpha1.CauseRestartRequested))}, v1alpha1.ReasonWindowClosed, "Hosts wait for the window of the pool"},
		{"one is broken", nil, []host{outdated("a", drains), outdated("b", "", isUpToDate, breaks, isDown)}, v1alpha1.ReasonHostsBroken, "the others wait for that"},
		{"only a broken one is left", nil, []host{outdated("b", "", isUpToDate, breaks, isDown)}, v1alpha1.ReasonHostsBroken, "broke hosts;"},
		{"different things", closed, []host{outdated("a", drains), unfitFor("b", waitsForLogin)}, v1alpha1.ReasonUpdateBlocked, "Hosts wait for somebody or for a time"},
		{"one is paused", closed, []host{outdated("a", drains), unfitFor("b", waitsForUnpause)}, v1alpha1.ReasonWindowClosed, "Hosts wait for the window of the pool"},
		{"only paused ones are left", nil, []host{unfitFor("b", waitsForUnpause)}, v1alpha1.ReasonUpdateBlocked, "Hosts wait for somebody or for a time"},
		{"and one of others", nil, []host{unfitFor("b", waitsForUnpause), unfitFor("c", waitsForTakeover)}, v1alpha1.ReasonUpdateBlocked, "Hosts wait for somebody or for a time"},
		{"canaries, and hosts that are never updated", canary, []host{outdated("a", drains), outdated("b", "", isUpToDate), unfitFor("c", waitsForUnpause), unfitFor("d", waitsForTakeover), unfitFor("e", waitsForDuplicate), unfitFor("f", waitsForPayload)}, v1alpha1.ReasonCanariesUpdated, "the others wait until it is raised or removed"},
		{"a Node stays cordoned", nil, []host{outdated("a", drains), outdated("b", "", isUpToDate, isCordoned)}, v1alpha1.ReasonHostsOutOfService, "Hosts wait for others that are out of service"},
		{"one does not say what its update costs", nil, []host{outdated("a", "", cannotSay)}, v1alpha1.ReasonUpdateCostUnknown, "Hosts do not say what their update costs"},
		{"on request, and one does not say what it costs", onRequest, []host{outdated("a", "", cannotSay)}, v1alpha1.ReasonUpdatesOnRequest, "Hosts are updated when somebody asks for it"},
		{"another one is paused", nil, []host{outdated("a", "", cannotSay), unfitFor("b", waitsForUnpause)}, v1alpha1.ReasonUpdateCostUnknown, "Hosts do not say what their update costs"},
		{"another one is tried again at a time", nil, []host{outdated("a", "", cannotSay), outdated("b", drains, later)}, v1alpha1.ReasonUpdateCostUnknown, "Hosts do not say what their update costs"},
		{"the others wait for a Node that stays cordoned", nil, []host{outdated("a", "", cannotSay), outdated("b", drains), outdated("c", "", isUpToDate, isCordoned)}, v1alpha1.ReasonHostsOutOfService, "Hosts wait for others that are out of service"},
		{"only updates of Windows are outstanding", closed, []host{outdated("a", "", isUpToDate, wants(v1alpha1.CauseWindowsUpdates)), outdated("b", "", isUpToDate)}, v1alpha1.ReasonAllUpdated, "Updates of Windows or restarts are outstanding. Hosts wait for the window of the pool"},
		{"and a restart that Windows waits for, later", closed, []host{outdated("a", "", isUpToDate, wants(v1alpha1.CauseWindowsUpdates)), toRestart("b", func(h *host) { h.restartDue = testNow.Add(time.Hour) })}, v1alpha1.ReasonAllUpdated, "Hosts wait for the window of the pool"},
		{"they failed on another host", nil, []host{outdated("a", "", isUpToDate, wants(v1alpha1.CauseWindowsUpdates)), outdated("b", "", isUpToDate, func(h *host) { h.lacksUpdates = true })}, v1alpha1.ReasonAllUpdated, "Updates of Windows could not be installed on hosts"},
		{"a Node that somebody has cordoned", nil, []host{outdated("a", "", isUpToDate, wants(v1alpha1.CauseWindowsUpdates)), outdated("b", "", isUpToDate, isCordoned)}, v1alpha1.ReasonAllUpdated, "Hosts wait for others that are out of service"},
		{"it is the turn of others", nil, []host{outdated("a", "", isUpToDate, wants(v1alpha1.CauseWindowsUpdates)), outdated("b", "", isUpToDate, func(h *host) { h.holds, h.active = slotDisruption, true })}, v1alpha1.ReasonUpdateInProgress, "Hosts are next"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state{hosts: tt.hosts, pools: map[poolKey]policy{}, disruptions: 1, now: testNow}
			pool := &v1alpha1.WindowsNodePool{}
			if tt.pool != nil {
				pool = tt.pool
				s.pools[poolKey{"ns", "p"}] = policyOf(pool, len(tt.hosts))
			}
			held := sumUp(decide(s).waits)
			held.text = "told elsewhere"
			var instances []*v1alpha1.WindowsInstance
			for _, h := range tt.hosts {
				instances = append(instances, edited(ready(h.key.Name), func(i *v1alpha1.WindowsInstance) {
					if h.update || h.unfit != "" {
						i.Status.DesiredRevision = "r2"
					}
				}))
			}
			status := computeStatus(pool, instances, held, nil, nil, testNow)
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionUpdating)
			if c.Reason != tt.reason || !strings.Contains(c.Message, tt.says) || !strings.HasSuffix(c.Message, "; see status.blockedBy.") || (c.Status == metav1.ConditionTrue) != (tt.reason == v1alpha1.ReasonUpdateInProgress) {
				t.Errorf("got %+v of %+v", c, held)
			}
		})
	}
}

// TestUpdatingSettles: a template that was set a moment ago is about to be rolled out, also while updates of Windows are kept from the hosts.
func TestUpdatingSettles(t *testing.T) {
	outdated := metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdateOutstanding, Message: "It was changed a moment ago."}
	for _, tt := range []struct {
		name string
		held holdup
		want metav1.ConditionStatus
	}{
		{"nothing waits", holdup{settles: true}, metav1.ConditionTrue},
		{"updates of Windows do", holdup{settles: true, stays: true, upkeep: true, kind: waitsForFailedUpdates}, metav1.ConditionTrue},
		{"the update before does", holdup{settles: true, stays: true, kind: waitsForWindow}, metav1.ConditionFalse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if c := updatingCondition(&v1alpha1.WindowsNodePool{}, outdated, nil, tt.held); c.Status != tt.want {
				t.Errorf("got %+v", c)
			}
		})
	}
}

// TestWaitingOperations: a host whose operation only waits is not being changed.
func TestWaitingOperations(t *testing.T) {
	waits := edited(ready("b"), func(i *v1alpha1.WindowsInstance) {
		i.Status.DesiredRevision, i.Status.Node = "r2", &v1alpha1.NodeReference{Name: "b"}
		i.Status.Operation = &v1alpha1.Operation{
			Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning, Origin: v1alpha1.OriginController, Revision: "r2", Impact: v1alpha1.ImpactDrain, AdmittedImpact: v1alpha1.ImpactNone,
			Node: &v1alpha1.OperationNode{Name: "b"}, Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepWaitForSlot, State: v1alpha1.StepRunning}},
		}
	})
	admitted := edited(waits.DeepCopy(), func(i *v1alpha1.WindowsInstance) { i.Status.Operation.AdmittedImpact = v1alpha1.ImpactDrain })
	window := holdup{text: "b waits", stays: true, kind: waitsForWindow}
	for _, tt := range []struct {
		name   string
		host   *v1alpha1.WindowsInstance
		held   holdup
		reason string
	}{
		{"for the window", waits, window, v1alpha1.ReasonWindowClosed},
		{"for other hosts", waits, holdup{text: "b waits", moves: true}, v1alpha1.ReasonUpdateInProgress},
		{"nobody knows yet for what", waits, holdup{}, v1alpha1.ReasonUpdateInProgress},
		{"no more, and others do", admitted, window, v1alpha1.ReasonUpdateInProgress},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status := computeStatus(&v1alpha1.WindowsNodePool{}, []*v1alpha1.WindowsInstance{ready("a"), tt.host}, tt.held, nil, nil, testNow)
			if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionUpdating); c.Reason != tt.reason || (c.Status == metav1.ConditionTrue) != (tt.reason == v1alpha1.ReasonUpdateInProgress) {
				t.Errorf("got %+v", c)
			}
		})
	}
}
