// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
)

// Current is which keys hosts are to accept, as the controller has read them last. It is safe for concurrent use.
type Current struct {
	cluster types.NamespacedName
	// changed takes one event, which stands for all that have not been taken.
	changed chan event.GenericEvent

	mu sync.Mutex
	// fingerprints of the Secrets that were looked at. Empty: there is none that can be read and used.
	fingerprints map[types.NamespacedName][]string
}

// NewCurrent returns one that knows nothing yet. cluster is the Secret with the cluster-wide key.
func NewCurrent(cluster types.NamespacedName) *Current {
	return &Current{cluster: cluster, changed: make(chan event.GenericEvent, 1), fingerprints: map[types.NamespacedName][]string{}}
}

// Of returns the fingerprints of the keys of which the host of an instance is to accept one; pool is its pool, nil if there is none.
// That of a password is empty. There is none if the Secret cannot be read, or cannot be used. It reports false while that is not known.
func (c *Current) Of(instance *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) (fingerprints []string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fingerprints, ok = c.fingerprints[host.SecretOf(instance, pool, c.cluster)]
	return fingerprints, ok
}

// Changed gets an event when Secrets have other keys. Its object says nothing.
func (c *Current) Changed() <-chan event.GenericEvent { return c.changed }

// set is for a Secret that was looked at.
func (c *Current) set(secret types.NamespacedName, fingerprints []string) {
	c.mu.Lock()
	before, known := c.fingerprints[secret]
	c.fingerprints[secret] = fingerprints
	c.mu.Unlock()
	if known && slices.Equal(before, fingerprints) {
		return
	}
	select {
	case c.changed <- event.GenericEvent{Object: &v1alpha1.WindowsNodePool{}}:
	default: // one is waiting to be taken
	}
}

// keep forgets the Secrets of a namespace but some.
func (c *Current) keep(namespace string, names []types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for secret := range c.fingerprints {
		if secret.Namespace == namespace && !slices.Contains(names, secret) {
			delete(c.fingerprints, secret)
		}
	}
}
