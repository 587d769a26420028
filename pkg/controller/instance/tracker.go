// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
)

// remembered is what this process remembers of an instance. It is the part of what is
// known that is not worth a write to the API: times, counts and the last observation.
type remembered struct {
	uid     types.UID
	contact string
	// instance is [contacted] of the object as it was last contacted or seen; it names the connections to close.
	instance *v1alpha1.WindowsInstance
	last     *observation
	history  history
}

// tracker remembers hosts. It is safe for concurrent use; what it hands out are copies.
type tracker struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]*remembered
	// well is how many of them are probed as those with which all is well.
	well int
}

func newTracker() *tracker {
	return &tracker{hosts: map[types.NamespacedName]*remembered{}}
}

// sync notes the present object and returns what is remembered of it. When the
// host is to be contacted in another way than before, what is remembered is
// worthless: replaced is the object with which it was contacted until now.
func (t *tracker) sync(key types.NamespacedName, instance *v1alpha1.WindowsInstance, contact string, start func() history) (h remembered, replaced *v1alpha1.WindowsInstance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.hosts[key]
	switch {
	case !ok:
		known = &remembered{uid: instance.UID, contact: contact}
		t.hosts[key] = known
		t.set(known, start())
	case known.uid != instance.UID || known.contact != contact:
		replaced = known.instance
		t.set(known, history{})
		known = &remembered{uid: instance.UID, contact: contact}
		t.hosts[key] = known
	}
	known.instance = contacted(instance)
	return *known, replaced
}

// countWell is how many hosts are probed as those with which all is well.
func (t *tracker) countWell() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.well
}

// set replaces the history of a host. Its caller has the lock.
func (t *tracker) set(h *remembered, to history) {
	if h.history.isWell() {
		t.well--
	}
	if to.isWell() {
		t.well++
	}
	h.history = to
}

// contacted is what of an instance says which host is contacted. The rest, which is much over thousands of hosts, is not kept a second time.
func contacted(instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: instance.Namespace, Name: instance.Name, UID: instance.UID}, Spec: instance.Spec}
}

// observe notes what a probe saw, unless the host is meanwhile to be contacted in another way.
func (t *tracker) observe(key types.NamespacedName, o *observation, jitter float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.hosts[key]
	if !ok || h.uid != o.uid || h.contact != o.contact {
		return
	}
	if o.err != nil && diagnose.IsInconclusive(o.err) {
		// It says nothing about the host: what was seen before stays.
		t.set(h, h.history.after(outcomeFailed, false, o.finished, jitter))
		return
	}
	h.last = o
	t.set(h, h.history.after(o.outcome(), o.hung, o.finished, jitter))
}

// renew has the host probed as soon as that is allowed.
func (t *tracker) renew(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, ok := t.hosts[key]; ok {
		t.set(h, history{hung: h.history.hung})
	}
}

// forget drops a host and returns the object that it was last contacted with.
func (t *tracker) forget(key types.NamespacedName) *v1alpha1.WindowsInstance {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.hosts[key]
	if !ok {
		return nil
	}
	t.set(h, history{})
	delete(t.hosts, key)
	return h.instance
}
