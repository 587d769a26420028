// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/words"
)

const (
	// firstHosts is how many hosts get a key before others do.
	firstHosts = 3
	// parallel is how many hosts get it at a time after that. It takes about a second each.
	parallel = 64
	// maxNamed bounds how many hosts a message names.
	maxNamed = 10
)

// pace says what the next host of a Secret waits for, with running hosts that get the key at this moment. Empty: nothing.
// again says that the host itself failed before: it is no new risk.
func pace(p progress, running int, again bool) string {
	tried, first := p.current+len(p.failed), firstHosts
	if again {
		first-- // those that hang leave a place to others
	}
	switch {
	case running >= parallel, running >= first && p.current < firstHosts:
		return fmt.Sprintf("%d hosts get the key first, %d at a time after that", firstHosts, parallel)
	case again:
		return ""
	case len(p.failed) >= firstHosts && len(p.failed)*10 > tried:
		return fmt.Sprintf("no more hosts get the key, because %d of %d could not be given it: %s. See their condition CredentialsCurrent; it goes on when they have the key, or when the Secret has another one",
			len(p.failed), tried, words.Enumerate(p.failed, maxNamed))
	}
	return ""
}

// Pacer says when hosts get another key: a few of each namespace first, and no more of that when these fail. Hosts of other namespaces
// with the same Secret are not judged by them, nor named. What it goes by is in the status of instances, so that it survives the process,
// but for the hosts that get a key at the moment.
type Pacer struct {
	// Client reads instances and pools from the cache.
	Client client.Reader
	// Cluster is the Secret with the cluster-wide key.
	Cluster types.NamespacedName

	mu      sync.Mutex
	running map[run]int
}

// run is a key that hosts of a Secret get in one namespace.
type run struct {
	secret                 types.NamespacedName
	namespace, fingerprint string
}

// Begin implements instance.Rotations.
func (p *Pacer) Begin(ctx context.Context, instance *v1alpha1.WindowsInstance, fingerprint string) (end func(), wait string, err error) {
	bySecret, err := instancesBySecret(ctx, p.Client, p.Cluster)
	if err != nil {
		return nil, "", err
	}
	secret := bySecret.of(instance)
	at := run{secret, instance.Namespace, fingerprint}
	var beside []*v1alpha1.WindowsInstance
	for _, i := range bySecret.instances[secret] {
		if i.Namespace == instance.Namespace {
			beside = append(beside, i)
		}
	}
	known := progressOf(beside, fingerprint)
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := pace(known, p.running[at], failedAt(instance, fingerprint)); wait != "" {
		return nil, wait, nil
	}
	if p.running == nil {
		p.running = map[run]int{}
	}
	p.running[at]++
	return func() { p.end(at) }, "", nil
}

func (p *Pacer) end(at run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[at]--; p.running[at] == 0 {
		delete(p.running, at)
	}
}

// usage is which Secret has the credentials of which instances.
type usage struct {
	cluster   types.NamespacedName
	pools     map[types.NamespacedName]*v1alpha1.WindowsNodePool
	instances map[types.NamespacedName][]*v1alpha1.WindowsInstance
}

// of is the Secret of an instance.
func (u usage) of(instance *v1alpha1.WindowsInstance) types.NamespacedName {
	var pool *v1alpha1.WindowsNodePool
	if ref := instance.Spec.PoolRef; ref != nil {
		pool = u.pools[types.NamespacedName{Namespace: instance.Namespace, Name: ref.Name}]
	}
	return host.SecretOf(instance, pool, u.cluster)
}

// instancesBySecret reads the cache. What it returns belongs to that.
func instancesBySecret(ctx context.Context, cached client.Reader, cluster types.NamespacedName) (usage, error) {
	u := usage{cluster: cluster, pools: map[types.NamespacedName]*v1alpha1.WindowsNodePool{}, instances: map[types.NamespacedName][]*v1alpha1.WindowsInstance{}}
	var pools v1alpha1.WindowsNodePoolList
	if err := cached.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return u, fmt.Errorf("listing pools: %w", err)
	}
	for i := range pools.Items {
		u.pools[client.ObjectKeyFromObject(&pools.Items[i])] = &pools.Items[i]
	}
	var instances v1alpha1.WindowsInstanceList
	if err := cached.List(ctx, &instances, client.UnsafeDisableDeepCopy); err != nil {
		return u, fmt.Errorf("listing instances: %w", err)
	}
	for i := range instances.Items {
		instance := &instances.Items[i]
		ref := instance.Spec.PoolRef
		if instance.Spec.CredentialsSecretRef == nil && ref != nil && u.pools[types.NamespacedName{Namespace: instance.Namespace, Name: ref.Name}] == nil {
			continue // it is not logged in to without its pool
		}
		secret := u.of(instance)
		u.instances[secret] = append(u.instances[secret], instance)
	}
	return u, nil
}
