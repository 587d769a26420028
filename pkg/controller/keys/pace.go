// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
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
	// placeFor is after how long a host that still gets the key gives its place to others: longer than that takes over a slow
	// network, and shorter than a host is waited for that hangs.
	placeFor = 15 * time.Second
	// maxNamed bounds how many hosts a message names.
	maxNamed = 10
)

// pace says what the next host of a Secret waits for, with running hosts of its kind that get the key at this moment. Empty: nothing.
// again says its kind: that it was tried before, and the key did not get there. Such a host is no new risk, and has none of the
// places of the others. Before the first hosts have the key it takes few failures to stop; then it takes a tenth of all hosts,
// whether they come early or late.
func pace(p progress, running int, again bool) string {
	proven := p.current >= firstHosts
	switch {
	case running >= parallel, running >= firstHosts && !proven:
		return fmt.Sprintf("%d hosts get the key first, %d at a time after that", firstHosts, parallel)
	case again:
		return ""
	case len(p.failed) >= firstHosts && (!proven || len(p.failed)*10 > p.current+p.former):
		return fmt.Sprintf("no more hosts get the key, because %d of %d could not be given it: %s. See their condition CredentialsCurrent; it goes on when they have the key, or when the Secret has another one",
			len(p.failed), p.current+len(p.failed), words.Enumerate(p.failed, maxNamed))
	}
	return ""
}

// Pacer says when hosts get another key: a few of each namespace first, and no more of that when these fail. Hosts of other namespaces
// with the same Secret are not judged by them, nor named. Those that hang say nothing about the key, and delay no others for
// long. What it goes by is in the status of instances, so that it survives the process, but for the hosts that get a key at the moment.
type Pacer struct {
	// Client reads instances and pools from the cache.
	Client client.Reader
	// Cluster is the Secret with the cluster-wide key.
	Cluster types.NamespacedName
	// Clock says for how long hosts have their places. Required.
	Clock clock.PassiveClock

	mu sync.Mutex
	// running has when each began, the first one first.
	running map[run][]*time.Time
}

// run is a key that hosts of a Secret get in one namespace, for the first time or again.
type run struct {
	secret                 types.NamespacedName
	namespace, fingerprint string
	again                  bool
}

// Begin implements instance.Rotations.
func (p *Pacer) Begin(ctx context.Context, instance *v1alpha1.WindowsInstance, fingerprint string) (end func(), wait string, err error) {
	bySecret, err := instancesBySecret(ctx, p.Client, p.Cluster)
	if err != nil {
		return nil, "", err
	}
	secret := bySecret.of(instance)
	at := run{secret, instance.Namespace, fingerprint, triedAt(instance, fingerprint)}
	var beside []*v1alpha1.WindowsInstance
	for _, i := range bySecret.instances[secret] {
		if i.Namespace == instance.Namespace {
			beside = append(beside, i)
		}
	}
	known, now := progressOf(beside, fingerprint), p.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := pace(known, held(p.running[at], now), at.again); wait != "" {
		return nil, wait, nil
	}
	if p.running == nil {
		p.running = map[run][]*time.Time{}
	}
	place := &now
	p.running[at] = append(p.running[at], place)
	return func() { p.end(at, place) }, "", nil
}

// held is how many places are not given up yet at a time.
func held(places []*time.Time, now time.Time) int {
	n := 0
	for _, since := range places {
		if now.Sub(*since) < placeFor {
			n++
		}
	}
	return n
}

func (p *Pacer) end(at run, place *time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[at] = slices.DeleteFunc(p.running[at], func(other *time.Time) bool { return other == place })
	if len(p.running[at]) == 0 {
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
	return host.SecretOf(instance, u.poolOf(instance), u.cluster)
}

// poolOf is the pool of an instance. Nil: it is in none, or that is not there.
func (u usage) poolOf(instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsNodePool {
	if ref := instance.Spec.PoolRef; ref != nil {
		return u.pools[types.NamespacedName{Namespace: instance.Namespace, Name: ref.Name}]
	}
	return nil
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
