// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Slots decide which hosts may be disrupted at the same time, and who waits, and why. They
// read nothing. Their methods are called concurrently.
type Slots interface {
	// Take takes a slot for the host of an instance, or a place in the queue. It returns
	// what the host waits for, empty if it has a slot. instances are all there are, as a
	// cache knows them.
	Take(instance *v1alpha1.WindowsInstance, instances []v1alpha1.WindowsInstance) (waitsFor string)
	// Confirm judges once more by the instances of the namespace as the API server has them.
	// A host that is to wait has given its slot back.
	Confirm(instance *v1alpha1.WindowsInstance, instances []v1alpha1.WindowsInstance) (waitsFor string)
	// Resume takes the slot again that an execution before this one took, if the record of
	// the operation says that there was one.
	Resume(instance *v1alpha1.WindowsInstance)
	// Hold takes a slot whatever the limit is and whoever waits.
	Hold(key types.NamespacedName)
	// Awaited says whether the host has a slot that hosts of other namespaces wait for.
	Awaited(key types.NamespacedName) bool
	// Release gives back the slot, or the place in the queue, if there is one.
	Release(key types.NamespacedName)
}

// certificateInterval is how often a host that waits, and whose kubelet does not report, is asked
// whether that has a certificate.
const certificateInterval = time.Minute

// waitForSlot waits until the host may be disrupted as far as was planned. Nothing is touched
// before. Uncordon gives a slot for disruptions back; everything else does the end of the
// execution, when it is known whether the host works with the change.
func (e *execution) waitForSlot(ctx context.Context) (result, error) {
	if e.operation().Node == nil {
		return noNode, nil
	}
	if e.joins() {
		return result{skipped: true, message: "No slot is needed: the kubelet cannot report, so that the host is out of service already."}, nil
	}
	if e.slots() == nil {
		return result{skipped: true, message: "No slot is needed: the change disturbs no pod, or a person asked for it."}, nil
	}
	if lost, err := e.takeSlot(ctx); err != nil || lost != "" {
		return planAgain(lost), err
	}
	return result{message: "The host may be disrupted now."}, nil
}

// slots are those of which the host needs one for what was planned. Nil: it needs none. A host that
// joins needs none: it is out of service already.
func (e *execution) slots() Slots {
	op := e.operation()
	switch {
	case e.joins():
	case disruptive(op.Impact):
		return e.Disruptions
	case op.Impact == v1alpha1.ImpactRestart && op.ByController():
		return e.Restarts
	}
	return nil
}

// takeSlot waits until the host has the slot that it needs. A host that is half way has
// one at once: that others are being changed, or have failed, is no reason to leave it so. Nor
// does a host wait any longer that is out of service by now: lost says why it has to join again.
func (e *execution) takeSlot(ctx context.Context) (lost string, err error) {
	slots := e.slots()
	if slots == nil {
		return "", nil
	}
	if op := e.operation(); op.FindStep(v1alpha1.StepWaitForSlot) != nil && (op.HostChanged || cordonedByUs(op)) {
		slots.Hold(e.key)
		return "", nil
	}
	for asked := e.clock.Now(); ; {
		waitsFor, err := e.trySlot(ctx, slots)
		if err != nil || waitsFor == "" {
			return "", err
		}
		e.yield()
		if e.clock.Now().Sub(asked) >= certificateInterval {
			if lost, err := e.lostCertificate(ctx); err != nil || lost != "" {
				slots.Release(e.key)
				return lost, err
			}
			asked = e.clock.Now()
		}
		if err := e.pause(ctx, "%s", waitsFor); err != nil {
			return "", err
		}
	}
}

// planAgain has the operation go on at the step Plan, for a host that has to join again.
func planAgain(why string) result {
	return result{again: v1alpha1.StepPlan, message: fmt.Sprintf("While it waited, the host has lost its place in the cluster: %s. A new plan is being made.", why)}
}

// trySlot takes a slot if there is one, and returns otherwise what the host waits for.
func (e *execution) trySlot(ctx context.Context, slots Slots) (waitsFor string, err error) {
	known, err := e.listInstances(ctx, e.client)
	if err != nil {
		return "", err
	}
	if waitsFor = slots.Take(e.instance, known); waitsFor != "" {
		return waitsFor, nil
	}
	// The host that had the slot before may just have failed, which the cache need not
	// know yet.
	current, err := e.listInstances(ctx, e.live, client.InNamespace(e.key.Namespace))
	if err != nil {
		slots.Release(e.key)
		return "", err
	}
	return slots.Confirm(e.instance, current), nil
}

// listInstances reads instances that nobody changes.
func (e *execution) listInstances(ctx context.Context, from client.Reader, opts ...client.ListOption) ([]v1alpha1.WindowsInstance, error) {
	list := &v1alpha1.WindowsInstanceList{}
	if err := retryAPI(ctx, e.clock, "Reading the instances", isFinal, func() error {
		return from.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...)
	}); err != nil {
		return nil, fmt.Errorf("finding out whether the host may be disrupted now: %w", err)
	}
	return list.Items, nil
}
