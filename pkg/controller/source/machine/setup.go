// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
)

// Names of the controllers in events, logs and metrics.
const (
	machineController = "windows-machine"
	setController     = "windows-machineset"
)

const (
	// workers is how many Machines, and how many MachineSets, are worked on at the same time.
	workers = 4
	// pollInterval is how often it is checked whether the Machine API is installed, as long
	// as it is not.
	pollInterval = 30 * time.Second
)

// SetupWithManager adds the controllers to mgr. They start as soon as the Machine
// API is installed. The scheme of mgr must know machine.openshift.io/v1beta1 and
// config.openshift.io/v1, and its cache must keep managed fields of
// WindowsInstances and WindowsNodePools.
//
// RBAC it needs, in all namespaces that have Machines:
//
//	machine.openshift.io  machines machinesets      get list watch
//	machine.openshift.io  machines                  delete, to replace those whose hosts refuse the key
//	config.openshift.io   infrastructures           get
//	machineconfiguration.openshift.io controllerconfigs get
//	""                    events                    create patch
//	windows.openshift.io  windowsnodepools          get list watch create patch
//	windows.openshift.io  windowsnodepools/status   patch
//	windows.openshift.io  windowsinstances          get list watch create patch delete
//	windows.openshift.io  windowsinstances/status   update
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if err := mgr.Add(&starter{mgr: mgr, recorder: o.Recorder, outdated: o.UserDataOutdated}); err != nil {
		return fmt.Errorf("adding the Machine controllers: %w", err)
	}
	return nil
}

// starter adds the controllers once the Machine API is there.
type starter struct {
	mgr      ctrl.Manager
	recorder record.EventRecorder
	outdated func(context.Context) (string, error)
}

var _ manager.LeaderElectionRunnable = &starter{}

// NeedLeaderElection says that only the leader starts the controllers.
func (s *starter) NeedLeaderElection() bool { return true }

// Start waits for the Machine API, adds the controllers and returns.
func (s *starter) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName(machineController)
	waiting := false
	check := func(context.Context) (bool, error) {
		found, err := installed(s.mgr.GetRESTMapper())
		switch {
		case err != nil:
			logger.Error(err, "Cannot tell whether the Machine API is installed, trying again")
		case !found && !waiting:
			logger.Info("The Machine API is not installed, waiting for it", "group", machinev1beta1.GroupName)
			waiting = true
		}
		return found, nil
	}
	if wait.PollUntilContextCancel(ctx, pollInterval, true, check) != nil {
		return nil //nolint:nilerr // the manager ends, and so does the wait
	}
	platform := &platformReader{live: s.mgr.GetAPIReader()}
	if err := s.addMachines(platform); err != nil {
		return err
	}
	return s.addSets(platform)
}

// installed says whether the API server serves Machines and MachineSets.
func installed(mapper meta.RESTMapper) (bool, error) {
	for _, kind := range []string{kindMachine, kindMachineSet} {
		_, err := mapper.RESTMapping(schema.GroupKind{Group: machinev1beta1.GroupName, Kind: kind}, machinev1beta1.SchemeGroupVersion.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look up %s.%s: %w", kind, machinev1beta1.GroupName, err)
		}
	}
	return true, nil
}

func (s *starter) addMachines(platform *platformReader) error {
	r := &Reconciler{
		client:    s.mgr.GetClient(),
		applier:   &apply.Applier{Client: s.mgr.GetClient(), Live: s.mgr.GetAPIReader(), FieldManager: instanceManager},
		recorder:  s.recorder,
		conflicts: message.NewReporter(s.recorder, s.mgr.GetScheme()),
		names:     message.NewReporter(s.recorder, s.mgr.GetScheme()),
		platform:  platform.Platform,
		replacer: &replacer{
			client: s.mgr.GetClient(), live: s.mgr.GetAPIReader(), recorder: s.recorder, told: message.NewReporter(s.recorder, s.mgr.GetScheme()),
			outdated: s.outdated, now: time.Now, since: map[types.NamespacedName]refusal{},
		},
	}
	// The pool of a Machine depends on its MachineSet and on pools in its way.
	toMachinesOfSet := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		return r.machinesOf(ctx, client.ObjectKeyFromObject(obj))
	})
	err := ctrl.NewControllerManagedBy(s.mgr).
		Named(machineController).
		For(&machinev1beta1.Machine{}).
		// By name, and not by owner: an instance that has lost its owner counts too.
		Watches(&v1alpha1.WindowsInstance{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Or(watch.DesiredStateChanged(), refusalChanged))).
		Watches(&v1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(r.replacer.waiting), builder.WithPredicates(acceptedNow)).
		Watches(&machinev1beta1.MachineSet{}, toMachinesOfSet, builder.WithPredicates(watch.DesiredStateChanged())).
		Watches(&v1alpha1.WindowsNodePool{}, toMachinesOfSet, builder.WithPredicates(watch.DesiredStateChanged())).
		WithOptions(watch.Options(workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the Machine controller: %w", err)
	}
	return nil
}

// machinesOf returns the Machines that a MachineSet controls.
func (r *Reconciler) machinesOf(ctx context.Context, set types.NamespacedName) []reconcile.Request {
	var machines machinev1beta1.MachineList
	if err := r.client.List(ctx, &machines, client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the Machines of a MachineSet", "machineSet", set)
		return nil
	}
	var requests []reconcile.Request
	for i := range machines.Items {
		if setOf(&machines.Items[i]) == set.Name {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
		}
	}
	return requests
}

func (s *starter) addSets(platform *platformReader) error {
	r := &SetReconciler{
		client:    s.mgr.GetClient(),
		applier:   &apply.Applier{Client: s.mgr.GetClient(), Live: s.mgr.GetAPIReader(), FieldManager: poolManager},
		conflicts: message.NewReporter(s.recorder, s.mgr.GetScheme()),
		failures:  message.NewReporter(s.recorder, s.mgr.GetScheme()),
		platform:  platform.Platform,
		now:       time.Now,
	}
	err := ctrl.NewControllerManagedBy(s.mgr).
		Named(setController).
		For(&machinev1beta1.MachineSet{}, builder.WithPredicates(watch.DesiredStateChanged())).
		Watches(&machinev1beta1.Machine{}, handler.EnqueueRequestsFromMapFunc(toSet), builder.WithPredicates(failureChanged)).
		Watches(&v1alpha1.WindowsNodePool{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(watch.DesiredStateChanged())).
		Watches(&v1alpha1.WindowsInstance{}, handler.EnqueueRequestsFromMapFunc(watch.PoolOf), builder.WithPredicates(predicate.Or(refusalChanged, acceptedNow))).
		WithOptions(watch.Options(workers)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the MachineSet controller: %w", err)
	}
	return nil
}
