// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const (
	// managedByLabel and managedBy are on the ConfigMaps that are ours.
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "windows-controller"

	// eventReplaced is the reason of the event about a ConfigMap that had other content.
	eventReplaced = "ServicesReplaced"

	// interval is how often the source is read without anything having changed that is
	// watched: what the services follow from is all over the cluster.
	interval = time.Minute
)

// Reconciler publishes. See the comment of the package. There is only one thing to do, so
// what a request says does not matter.
type Reconciler struct {
	Options

	// live reads ConfigMaps from the API server: it happens rarely, and they are large.
	live client.Reader
	// client reads Nodes and writes.
	client client.Client
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes the ConfigMap of this version what it should be, and removes those of
// other versions that nobody needs.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	published, err := r.Source.Published(ctx)
	switch {
	case errors.Is(err, document.ErrOtherOperator):
		return reconcile.Result{RequeueAfter: interval}, nil // WMCO removes what it does not need, as often as that comes
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("the services that are to be published: %w", err)
	}
	want, err := published.ConfigMap(r.Namespace, r.Version)
	if err != nil {
		return reconcile.Result{}, err
	}
	want.Labels = map[string]string{managedByLabel: managedBy}
	if err := r.publish(ctx, want); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.removeOthers(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: interval}, nil
}

// publish makes a ConfigMap, unless it is there already.
func (r *Reconciler) publish(ctx context.Context, want *corev1.ConfigMap) error {
	have, err := object.Get(ctx, r.live, client.ObjectKeyFromObject(want), &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	if have != nil {
		if same(have, want) {
			return nil
		}
		// It is this one that differs which is deleted, not what somebody made since.
		preconditions := client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion}
		if err := client.IgnoreNotFound(r.client.Delete(ctx, have, preconditions)); err != nil {
			return fmt.Errorf("deleting ConfigMap %s, which has other content: %w", want.Name, err)
		}
	}
	if err := r.client.Create(ctx, want); err != nil {
		return fmt.Errorf("making ConfigMap %s: %w", want.Name, err)
	}
	if have != nil {
		r.Recorder.Event(want, corev1.EventTypeNormal, eventReplaced, "The ConfigMap had other content than the services of the hosts. As it cannot be changed, it was deleted and recreated.")
	}
	log.FromContext(ctx).Info("Services published", "configMap", want.Name, "replaced", have != nil)
	return nil
}

// same says whether a ConfigMap is as it should be. What else is in its metadata is not ours.
func same(have, want *corev1.ConfigMap) bool {
	return have.DeletionTimestamp.IsZero() && have.Labels[managedByLabel] == managedBy && ptr.Deref(have.Immutable, false) &&
		maps.Equal(have.Data, want.Data) && len(have.BinaryData) == 0
}

// removeOthers removes what was published by other releases, unless a Node is still, or
// is to be, configured by one.
func (r *Reconciler) removeOthers(ctx context.Context) error {
	var published corev1.ConfigMapList
	if err := r.live.List(ctx, &published, client.InNamespace(r.Namespace), client.MatchingLabels{managedByLabel: managedBy}); err != nil {
		return fmt.Errorf("listing the ConfigMaps that were published: %w", err)
	}
	var used map[string]bool // read when it is needed, which is once in a release
	for i := range published.Items {
		configMap := &published.Items[i]
		version, ok := document.PublishedVersion(configMap.Name)
		if !ok || version == r.Version || !configMap.DeletionTimestamp.IsZero() {
			continue
		}
		if used == nil {
			var err error
			if used, err = r.usedVersions(ctx); err != nil {
				return err
			}
		}
		if used[version] {
			continue
		}
		if err := object.Delete(ctx, r.client, configMap); err != nil {
			return err
		}
		log.FromContext(ctx).Info("Services of another release removed", "configMap", configMap.Name)
	}
	return nil
}

// usedVersions are those in the annotations of Nodes.
func (r *Reconciler) usedVersions(ctx context.Context) (map[string]bool, error) {
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Nodes: %w", err)
	}
	used := map[string]bool{}
	for i := range nodes.Items {
		for _, version := range versionsOf(&nodes.Items[i]) {
			used[version] = true
		}
	}
	return used, nil
}

// versionsOf are the versions that a Node is and is to be configured by, "" where it does
// not say.
func versionsOf(node metav1.Object) [2]string {
	annotations := node.GetAnnotations()
	return [2]string{annotations[wmco.VersionAnnotation], annotations[wmco.DesiredVersionAnnotation]}
}
