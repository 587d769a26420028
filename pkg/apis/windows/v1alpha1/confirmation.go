// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Unconfirmed says whether a host that is configured is left as it is until somebody confirms what it is to have: it was configured before
// its instance or its pool was made, so that nobody knows whether what is desired now is what it was to have. pool is that of the instance,
// nil if it is in none, or if that does not exist.
func (s *WindowsInstanceStatus) Unconfirmed(pool *WindowsNodePool) bool {
	return s.UnconfirmedSince != nil || s.PoolMadeAgain(pool)
}

// LeftAsItIs says whether the host of the instance gets nothing that is desired now, as nobody knows whether it was to have that: its pool does
// not exist, or it waits for a confirmation. pool is that of the instance, nil if it is in none, or if that does not exist.
func (i *WindowsInstance) LeftAsItIs(pool *WindowsNodePool) bool {
	return pool == nil && i.Spec.PoolRef != nil || i.Status.Unconfirmed(pool)
}

// PoolMadeAgain says whether a pool, nil for none, is not the one that was seen under its name.
func (s *WindowsInstanceStatus) PoolMadeAgain(pool *WindowsNodePool) bool {
	return pool != nil && s.Pool != nil && s.Pool.Name == pool.Name && s.Pool.UID != pool.UID
}

// Confirms says whether somebody has confirmed that the hosts of the pool get what it says, which wait for that since a time.
// p may be nil.
func (p *WindowsNodePool) Confirms(since *metav1.Time) bool {
	return p != nil && p.Spec.UpdateStrategy.RollingUpdate.ResumedAt != nil && !p.Spec.UpdateStrategy.RollingUpdate.ResumedAt.Before(since)
}
