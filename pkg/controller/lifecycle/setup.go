// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package lifecycle

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

// controllerName names the controller in logs, metrics and events.
const controllerName = "windows-configuration"

// workers is how many instances are decided about at the same time. Workers never wait for a
// host, so a few are enough.
const workers = 4

// SetupWithManager adds the controller to a manager. It works while this process leads.
//
// RBAC it needs, in all namespaces:
//
//	windows.openshift.io  windowsinstances         get list watch patch delete
//	windows.openshift.io  windowshosts             abandon
//	windows.openshift.io  windowsinstances/status  update
//	windows.openshift.io  windowsnodepools         get list watch patch delete
//	windows.openshift.io  windowsnodepools/status  patch
//	(core)                namespaces               get
//	(core)                nodes                    delete
//	(core)                events                   create patch
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, o Options) error {
	r := &Reconciler{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader(), clock: clock.RealClock{}, standings: newStandings(o.Registerer), missing: map[string]time.Time{}}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.WindowsInstance{}, builder.WithPredicates(watch.MoreThanProgress)).
		Watches(&v1alpha1.WindowsNodePool{}, handler.EnqueueRequestsFromMapFunc(watch.MembersOf(r.client)), builder.WithPredicates(watch.DesiredStateChanged())).
		WithOptions(watch.Options(workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the lifecycle controller: %w", err)
	}
	return mgr.Add(manager.RunnableFunc(r.followOrphans))
}
