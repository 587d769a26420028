// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package clusterapi

import (
	"context"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/capi"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/controller/source/machine"
	acwindowsv1alpha1 "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
)

// instanceManager owns what is applied to instances. It must never change.
const instanceManager = "windows-controller-clusterapi-machine"

// Reasons of events, which are those of package machine.
const (
	reasonInstanceConflict = "InstanceConflict"
	reasonPoolConflict     = "PoolConflict"
	reasonNameRefused      = "MachineNameRefused"
)

// alsoInterval is when to look again at a Machine that is left to the Machine API, whose Machines are not watched here.
const alsoInterval = time.Minute

// Reconciler makes the instance of each Machine of a Cluster what the Machine says. Its requests are Machines by namespace and name;
// instances are called like them.
type Reconciler struct {
	client    client.Client
	reader    client.Reader // of Cluster API
	cluster   client.ObjectKey
	applier   *apply.Applier
	recorder  record.EventRecorder
	conflicts *message.Reporter // tells of an instance of that name that is not of the Machine
	names     *message.Reporter // tells of names that Windows cannot have
	platform  func(context.Context) (configv1.PlatformType, error)
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Namespace != r.cluster.Namespace {
		return reconcile.Result{}, nil // of other sources
	}
	found, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsInstance{})
	if err != nil {
		return reconcile.Result{}, err
	}
	s, err := r.look(ctx, req.NamespacedName, found)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s.machine == nil {
		r.conflicts.Forget(req.NamespacedName)
		r.names.Forget(req.NamespacedName)
	}
	action, why := decide(s)
	var condition *metav1.Condition
	switch action {
	case machine.Remove:
		return apply.RetryStale(ctx, r.remove(ctx, s.instance))
	case machine.Pause:
		err = r.pause(ctx, s.instance)
		if why != "" && s.instance != nil {
			condition = paused(s.instance, r.cluster, why)
		}
	case machine.Keep:
		if s.instance != nil {
			condition = kept(s.instance)
		}
	case machine.Apply:
		err = r.apply(ctx, s.machine, found)
	}
	if err == nil {
		err = r.tell(ctx, s.machine, s.instance, condition)
	}
	if err == nil && s.alsoOfMachineAPI {
		return reconcile.Result{RequeueAfter: alsoInterval}, nil
	}
	return apply.RetryStale(ctx, err)
}

// look reads what decides about an instance.
func (r *Reconciler) look(ctx context.Context, key client.ObjectKey, instance *v1alpha1.WindowsInstance) (s snapshot, err error) {
	if s.cluster, err = object.Get(ctx, r.reader, r.cluster, &capi.Cluster{}); err != nil {
		return s, err
	}
	if s.machine, err = object.Get(ctx, r.reader, key, &capi.Machine{}); err != nil {
		return s, err
	}
	if s.machine != nil && s.machine.Spec.ClusterName != r.cluster.Name {
		s.machine, s.ofAnotherCluster = nil, true
	}
	if instance != nil && belongs(instance) {
		s.instance = instance
	}
	if s.machine != nil {
		s.alsoOfMachineAPI, err = r.alsoOfMachineAPI(ctx, s.machine)
	}
	return s, err
}

// alsoOfMachineAPI says whether the host of a Machine has one of the Machine API as well.
func (r *Reconciler) alsoOfMachineAPI(ctx context.Context, m *capi.Machine) (bool, error) {
	var machines machinev1beta1.MachineList
	if err := r.client.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return false, fmt.Errorf("list the Machines of the Machine API: %w", err)
	}
	for i := range machines.Items {
		if m.IsAlso(&machines.Items[i]) {
			return true, nil
		}
	}
	return false, nil
}

func (r *Reconciler) apply(ctx context.Context, m *capi.Machine, instance *v1alpha1.WindowsInstance) error {
	var problems map[string]string
	if instance != nil && !belongs(instance) {
		problems = map[string]string{"": fmt.Sprintf("A WindowsInstance %s exists and does not belong to this Machine. "+
			"Delete it, so that one is made for the Machine.", instance.Name)}
	}
	r.conflicts.Report(m, reasonInstanceConflict, problems)
	// An instance that is being deleted brings the next pass when it is gone.
	if len(problems) > 0 || instance != nil && !instance.DeletionTimestamp.IsZero() {
		return nil
	}
	platform, err := r.platform(ctx)
	if err != nil {
		return err
	}
	pool, err := r.pool(ctx, m)
	if err != nil {
		return err
	}
	if pool == "" && instance != nil {
		if pool, err = machine.AppliedPool(instance, instanceManager); err != nil {
			return err
		}
	}
	name, problem := "", ""
	if managementOf(m) == v1alpha1.ManagementManaged {
		name, problem = machine.ComputerName(m.AsOfMachineAPI(), instance, platform)
	}
	if problem != "" {
		problems = map[string]string{"metadata.name": problem}
	}
	r.names.Report(m, reasonNameRefused, problems)
	written, err := r.applier.Instance(ctx, instance, instanceFor(m, instance, pool, name, platform))
	if err != nil {
		return err
	}
	if written {
		log.FromContext(ctx).Info("Applied the instance of a Machine", "instance", klog.KObj(m), "created", instance == nil)
	}
	return nil
}

// pool returns the name of the pool that a Machine belongs to. Empty: none.
func (r *Reconciler) pool(ctx context.Context, m *capi.Machine) (string, error) {
	set := controlledBy(m, capi.KindMachineSet)
	if set == "" {
		return "", nil
	}
	owner, err := object.Get(ctx, r.reader, client.ObjectKey{Namespace: m.Namespace, Name: set}, &capi.MachineSet{})
	if err != nil || owner == nil {
		return "", err
	}
	name := controlledBy(owner, capi.KindMachineDeployment)
	if name == "" {
		name = set
	}
	key := client.ObjectKey{Namespace: m.Namespace, Name: name}
	s, err := sourceOf(ctx, r.reader, key, r.cluster)
	if err != nil || s == nil || !s.windows {
		return "", err
	}
	pool, err := object.Get(ctx, r.client, key, &v1alpha1.WindowsNodePool{})
	if err != nil || pool != nil && !asksFor(pool, s) {
		return "", err
	}
	return name, nil
}

func (r *Reconciler) pause(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	if instance == nil || !instance.DeletionTimestamp.IsZero() {
		return nil
	}
	want, err := machine.Paused(instance, instanceManager)
	if err != nil {
		return err
	}
	written, err := r.applier.Instance(ctx, instance, want)
	if err != nil {
		return err
	}
	if written {
		log.FromContext(ctx).Info("Paused the instance of a Machine that is to be left alone", "instance", klog.KObj(instance))
	}
	return nil
}

func (r *Reconciler) remove(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	if instance == nil || !instance.DeletionTimestamp.IsZero() {
		return nil
	}
	// What this controller has paused would not be cleaned.
	want, err := acwindowsv1alpha1.ExtractWindowsInstance(instance, instanceManager)
	if err != nil {
		return fmt.Errorf("read managed fields of WindowsInstance %s: %w", client.ObjectKeyFromObject(instance), err)
	}
	if want.Spec != nil && want.Spec.Paused != nil {
		want.Spec.Paused, want.Status = nil, nil
		if _, err := r.applier.Instance(ctx, instance, want); err != nil {
			return err
		}
	}
	if err := object.Delete(ctx, r.client, instance); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Deleted the instance of a Machine that is gone or going", "instance", klog.KObj(instance))
	return nil
}
