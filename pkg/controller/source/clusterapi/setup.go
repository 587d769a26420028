// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/watch"
	"github.com/openshift/windows-instance-api/pkg/controller/source/machine"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Names of the controllers in events, logs and metrics.
const (
	machineController = "windows-clusterapi-machine"
	poolController    = "windows-clusterapi-pool"
)

const (
	// workers is how many Machines, and how many pools, are worked on at the same time.
	workers = 4
	// pollInterval is how often it is checked whether Cluster API is installed and may be read, as long as it is not.
	pollInterval = 30 * time.Second
)

// SetupWithManager adds the controllers to mgr. They start as soon as Cluster API is installed and may be read. The scheme of mgr must know
// machine.openshift.io/v1beta1 and config.openshift.io/v1, and its cache must keep managed fields of WindowsInstances and
// WindowsNodePools. What they read of Cluster API has a cache of its own, which has nothing of other namespaces.
//
// RBAC it needs:
//
//	cluster.x-k8s.io      clusters machines machinesets machinedeployments  list watch    in the namespace of the Cluster
//	machine.openshift.io  machines                list watch
//	config.openshift.io   infrastructures         get
//	machineconfiguration.openshift.io controllerconfigs get
//	""                    events                  create patch
//	windows.openshift.io  windowsnodepools        get list watch create patch delete
//	windows.openshift.io  windowsnodepools/status patch
//	windows.openshift.io  windowsinstances        get list watch create patch delete
//	windows.openshift.io  windowsinstances/status update
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if err := mgr.Add(&starter{mgr: mgr, options: o}); err != nil {
		return fmt.Errorf("adding the controllers of Cluster API: %w", err)
	}
	return nil
}

// starter adds the controllers once Cluster API is there.
type starter struct {
	mgr     ctrl.Manager
	options Options
}

var _ manager.LeaderElectionRunnable = &starter{}

// NeedLeaderElection says that only the leader starts the controllers.
func (s *starter) NeedLeaderElection() bool { return true }

// Start waits for Cluster API, adds the controllers and returns.
func (s *starter) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName(machineController)
	said := ""
	var served found
	check := func(ctx context.Context) (bool, error) {
		var err error
		served, err = s.find(ctx)
		switch {
		case err != nil:
			logger.Error(err, "Cannot tell whether there are Machines of Cluster API, trying again")
			return false, nil
		case served.missing != "":
			s.options.Machines.None()
			if served.missing != said {
				logger.Info("Cluster API is no source of hosts", "cause", served.missing)
				said = served.missing
			}
		}
		return served.missing == "", nil
	}
	if wait.PollUntilContextCancel(ctx, pollInterval, true, check) != nil {
		return nil //nolint:nilerr // the manager ends, and so does the wait
	}
	logger.Info("Cluster API is a source of hosts", "cluster", served.cluster, "version", served.version)
	return s.add(served)
}

// found is what was found of Cluster API.
type found struct {
	cluster client.ObjectKey
	version string
	// missing is what is missing. Empty: nothing is.
	missing string
}

// find looks whether this cluster has Machines of Cluster API, and which these are.
func (s *starter) find(ctx context.Context) (found, error) {
	cluster, err := s.cluster(ctx)
	if err != nil {
		return found{}, err
	}
	if cluster.Name == "" {
		return found{missing: "no Cluster is said to be this one (--cluster-api-cluster)"}, nil
	}
	version, err := servedVersion(s.mgr.GetRESTMapper())
	if err != nil {
		return found{}, err
	}
	if version == "" {
		return found{missing: "group " + capi.Group + " is not served"}, nil
	}
	refused, err := s.refused(ctx, cluster.Namespace, version)
	if err != nil {
		return found{}, err
	}
	return found{cluster: cluster, version: version, missing: refused}, nil
}

// cluster returns the Cluster that this cluster is. Empty: none.
func (s *starter) cluster(ctx context.Context) (client.ObjectKey, error) {
	if s.options.Cluster.Name != "" {
		return s.options.Cluster, nil
	}
	infrastructure, err := object.Get(ctx, s.mgr.GetAPIReader(), client.ObjectKey{Name: object.InfrastructureName}, &configv1.Infrastructure{})
	if err != nil || infrastructure == nil || infrastructure.Status.InfrastructureName == "" {
		return client.ObjectKey{}, err
	}
	return client.ObjectKey{Namespace: wmco.ClusterAPINamespace, Name: infrastructure.Status.InfrastructureName}, nil
}

// servedVersion returns the newest version that the API server serves all kinds in, empty if there is none.
func servedVersion(mapper meta.RESTMapper) (string, error) {
	for _, version := range capi.Versions {
		all := true
		for _, kind := range []string{capi.KindCluster, capi.KindMachineDeployment, capi.KindMachineSet, capi.KindMachine} {
			_, err := mapper.RESTMapping(schema.GroupKind{Group: capi.Group, Kind: kind}, version)
			switch {
			case meta.IsNoMatchError(err):
				all = false
			case err != nil:
				return "", fmt.Errorf("look up %s.%s: %w", kind, capi.Group, err)
			}
		}
		if all {
			return version, nil
		}
	}
	return "", nil
}

// refused says which objects may not be read, empty if all may be. An informer that may not would keep the controllers from starting, and
// the process would end.
func (s *starter) refused(ctx context.Context, namespace, version string) (string, error) {
	scheme := schemeOf(version)
	reader, err := client.New(s.mgr.GetConfig(), client.Options{HTTPClient: s.mgr.GetHTTPClient(), Scheme: scheme, Mapper: s.mgr.GetRESTMapper()})
	if err != nil {
		return "", fmt.Errorf("make a client for Cluster API: %w", err)
	}
	for _, list := range []client.ObjectList{&capi.ClusterList{}, &capi.MachineDeploymentList{}, &capi.MachineSetList{}, &capi.MachineList{}} {
		err := reader.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
		switch {
		case apierrors.IsForbidden(err):
			return fmt.Sprintf("objects of it in namespace %s may not be read, see the user guide: %v", namespace, err), nil
		case err != nil:
			return "", fmt.Errorf("list %T: %w", list, err)
		}
	}
	return "", nil
}

func schemeOf(version string) *runtime.Scheme {
	scheme := runtime.NewScheme()
	capi.AddToScheme(scheme, version)
	return scheme
}

// add adds the controllers.
func (s *starter) add(served found) error {
	objects, err := cache.New(s.mgr.GetConfig(), cache.Options{
		HTTPClient: s.mgr.GetHTTPClient(), Scheme: schemeOf(served.version), Mapper: s.mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{served.cluster.Namespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject:          map[client.Object]cache.ByObject{&capi.Cluster{}: {Field: fields.OneTermEqualSelector("metadata.name", served.cluster.Name)}},
	})
	if err != nil {
		return fmt.Errorf("make the cache of Cluster API: %w", err)
	}
	if err := s.mgr.Add(objects); err != nil {
		return fmt.Errorf("add the cache of Cluster API: %w", err)
	}
	s.options.Machines.Read(objects, served.cluster)
	if err := s.addMachines(objects, served.cluster); err != nil {
		return err
	}
	return s.addPools(objects, served.cluster)
}

func (s *starter) addMachines(objects cache.Cache, cluster client.ObjectKey) error {
	platform := machine.NewPlatformReader(s.mgr.GetAPIReader())
	r := &Reconciler{
		client: s.mgr.GetClient(), reader: objects, cluster: cluster,
		applier:   &apply.Applier{Client: s.mgr.GetClient(), Live: s.mgr.GetAPIReader(), FieldManager: instanceManager},
		recorder:  s.options.Recorder,
		conflicts: message.NewReporter(s.options.Recorder, s.mgr.GetScheme()),
		names:     message.NewReporter(s.options.Recorder, s.mgr.GetScheme()),
		platform:  platform.Platform,
	}
	err := ctrl.NewControllerManagedBy(s.mgr).
		Named(machineController).
		// By name: there is no owner.
		Watches(&v1alpha1.WindowsInstance{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(watch.DesiredStateChanged())).
		Watches(&v1alpha1.WindowsNodePool{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(watch.DesiredStateChanged())).
		WatchesRawSource(crsource.Kind[client.Object](objects, &capi.Machine{}, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(crsource.Kind[client.Object](objects, &capi.MachineSet{}, handler.EnqueueRequestsFromMapFunc(r.all), watch.DesiredStateChanged())).
		WatchesRawSource(crsource.Kind[client.Object](objects, &capi.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(r.all), watch.DesiredStateChanged())).
		WatchesRawSource(crsource.Kind[client.Object](objects, &capi.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.all), watch.DesiredStateChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of Machines of Cluster API: %w", err)
	}
	return nil
}

// all returns the Machines of the Cluster, and the instances of those that are gone: any of them may be concerned.
func (r *Reconciler) all(ctx context.Context, obj client.Object) []reconcile.Request {
	if obj.GetNamespace() != r.cluster.Namespace {
		return nil
	}
	var machines capi.MachineList
	if err := r.reader.List(ctx, &machines, client.InNamespace(r.cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the Machines of Cluster API")
		return nil
	}
	var requests []reconcile.Request
	for i := range machines.Items {
		if machines.Items[i].Spec.ClusterName == r.cluster.Name {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
		}
	}
	var instances v1alpha1.WindowsInstanceList
	if err := r.client.List(ctx, &instances, client.InNamespace(r.cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the instances of Machines of Cluster API")
		return requests
	}
	for i := range instances.Items {
		if belongs(&instances.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&instances.Items[i])})
		}
	}
	return requests
}

func (s *starter) addPools(objects cache.Cache, cluster client.ObjectKey) error {
	r := &PoolReconciler{
		client: s.mgr.GetClient(), reader: objects, cluster: cluster,
		applier:   &apply.Applier{Client: s.mgr.GetClient(), Live: s.mgr.GetAPIReader(), FieldManager: poolManager},
		conflicts: message.NewReporter(s.options.Recorder, s.mgr.GetScheme()),
		now:       time.Now,
	}
	err := ctrl.NewControllerManagedBy(s.mgr).
		Named(poolController).
		Watches(&v1alpha1.WindowsNodePool{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(watch.DesiredStateChanged())).
		WatchesRawSource(crsource.Kind[client.Object](objects, &capi.MachineDeployment{}, &handler.EnqueueRequestForObject{}, watch.DesiredStateChanged())).
		WatchesRawSource(crsource.Kind[client.Object](objects, &capi.MachineSet{}, &handler.EnqueueRequestForObject{}, watch.DesiredStateChanged())).
		WatchesRawSource(crsource.Kind[client.Object](objects, &capi.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.all), watch.DesiredStateChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of pools of Cluster API: %w", err)
	}
	return nil
}

// all returns the pools of the Cluster, and its MachineDeployments and MachineSets, which may be about to get one.
func (r *PoolReconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var requests []reconcile.Request
	in := client.InNamespace(r.cluster.Namespace)
	add := func(reader client.Reader, list client.ObjectList) {
		if err := reader.List(ctx, list, in); err != nil {
			log.FromContext(ctx).Error(err, "Cannot list what pools of Cluster API are made from")
			return
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error { // the function returns no error
			if obj, ok := o.(client.Object); ok {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
			}
			return nil
		})
	}
	add(r.client, &v1alpha1.WindowsNodePoolList{})
	add(r.reader, &capi.MachineDeploymentList{})
	add(r.reader, &capi.MachineSetList{})
	return requests
}
