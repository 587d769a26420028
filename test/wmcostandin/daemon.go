// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

const (
	daemonName = "windows-instance-config-daemon"
	// servicesPrefix begins the name of the ConfigMap with the services of a version.
	servicesPrefix = "windows-services-"
)

// daemons are those that WMCO has put on hosts. They run on when it ends, and each as long as its host has its service.
type daemons struct {
	mu sync.Mutex // held while they work, so that one that is taken off writes nothing any more
	// hosts by the names of their Nodes.
	hosts map[string]Host
}

func (d *daemons) put(h Host) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hosts == nil {
		d.hosts = map[string]Host{}
	}
	d.hosts[h.Name] = h
}

func (d *daemons) remove(h Host) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hosts, h.Name)
}

// runDaemons has the daemons work until ctx ends.
func (o *Operator) runDaemons(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		o.daemons.mu.Lock()
		defer o.daemons.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(o.daemons.hosts)) {
			if err := o.configureAsDesired(ctx, o.daemons.hosts[name]); err != nil && ctx.Err() == nil {
				o.fails(fmt.Sprintf("the daemon of Node %s: %v", name, err))
			}
		}
	}, interval)
}

// configureAsDesired is what the daemon of a host does: where its Node is to have another version, it configures the services of that one
// and says so when the Node is ready.
func (o *Operator) configureAsDesired(ctx context.Context, h Host) error {
	if s, err := h.System.Service(daemonName); err != nil || s == nil || s.State != engine.ServiceRunning {
		return err
	}
	node := &corev1.Node{}
	if err := o.client.Get(ctx, client.ObjectKey{Name: h.Name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	desired := node.Annotations[desiredName]
	if desired == "" || node.Annotations[versionName] == desired || !isReady(node) {
		return nil
	}
	if err := o.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: servicesPrefix + desired}, &corev1.ConfigMap{}); err != nil {
		return err
	}
	return o.change(ctx, node, func(n *corev1.Node) { setAnnotation(n, versionName, desired) })
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
