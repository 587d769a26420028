// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package capi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNotKnown means that it is not known yet whether this cluster has Machines of Cluster API.
var ErrNotKnown = errors.New("it is not known yet whether the cluster has Machines of Cluster API")

// Machines are those of the cluster that the controllers are in. Package source/clusterapi says which those are. It is safe for concurrent
// use; nil has none.
type Machines struct {
	mu sync.Mutex // guards the fields
	// known: somebody has found out whether there are any.
	known   bool
	reader  client.Reader
	cluster client.ObjectKey
}

// None says that there are none, or that nobody may read them.
func (m *Machines) None() { m.set(nil, client.ObjectKey{}) }

// Read says that they are those of a Cluster, and has them read through reader, a cache.
func (m *Machines) Read(reader client.Reader, cluster client.ObjectKey) { m.set(reader, cluster) }

func (m *Machines) set(reader client.Reader, cluster client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.reader, m.cluster = true, reader, cluster
}

func (m *Machines) get() (client.Reader, client.ObjectKey, error) {
	if m == nil {
		return nil, client.ObjectKey{}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		return nil, client.ObjectKey{}, ErrNotKnown
	}
	return m.reader, m.cluster, nil
}

// List returns them. They are only to be read. The error is [ErrNotKnown] for a moment after the start.
func (m *Machines) List(ctx context.Context) ([]*Machine, error) {
	reader, cluster, err := m.get()
	if err != nil || reader == nil {
		return nil, err
	}
	var machines MachineList
	if err := reader.List(ctx, &machines, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Machines of Cluster API: %w", err)
	}
	var of []*Machine
	for i := range machines.Items {
		if machines.Items[i].Spec.ClusterName == cluster.Name {
			of = append(of, &machines.Items[i])
		}
	}
	return of, nil
}

// Get returns the one of that name, nil if there is none. It is only to be read. The error is as that of [Machines.List].
func (m *Machines) Get(ctx context.Context, key client.ObjectKey) (*Machine, error) {
	reader, cluster, err := m.get()
	if err != nil || reader == nil || key.Namespace != cluster.Namespace {
		return nil, err
	}
	machine := &Machine{}
	if err := reader.Get(ctx, key, machine, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil //nolint:nilnil // none is an ordinary answer
		}
		return nil, fmt.Errorf("reading Machine %s of Cluster API: %w", key, err)
	}
	if machine.Spec.ClusterName != cluster.Name {
		return nil, nil //nolint:nilnil // it is of another cluster
	}
	return machine, nil
}
