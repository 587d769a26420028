// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// instanceManager owns what is applied to instances. It must never change.
const instanceManager = "windows-controller-machine"

// Reasons of events.
const (
	reasonInstanceConflict = "InstanceConflict"
	reasonPoolConflict     = "PoolConflict"
	reasonNameRefused      = "MachineNameRefused"
	reasonMachineFailed    = "MachineFailed"
)

// Reconciler makes the instance of each Machine what the Machine says. Its
// requests are Machines by namespace and name; instances are called like them.
type Reconciler struct {
	client    client.Client
	applier   *apply.Applier
	recorder  record.EventRecorder
	conflicts *message.Reporter // tells of an instance of that name that is not of the Machine
	names     *message.Reporter // tells of names that Windows cannot have
	replacer  *replacer
	platform  func(context.Context) (configv1.PlatformType, error)
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	machine, err := object.Get(ctx, r.client, req.NamespacedName, &machinev1beta1.Machine{})
	if err != nil {
		return reconcile.Result{}, err
	}
	instance, err := object.Get(ctx, r.client, req.NamespacedName, &v1alpha1.WindowsInstance{})
	if err != nil {
		return reconcile.Result{}, err
	}
	if machine == nil {
		r.conflicts.Forget(req.NamespacedName)
		r.names.Forget(req.NamespacedName)
		r.replacer.forget(req.NamespacedName)
		return reconcile.Result{}, r.remove(ctx, instance)
	}
	action := Decide(machine)
	if instance != nil && ofAnother(instance, machine) {
		// The host is another one, and what is known of the old one, its host keys
		// above all, must not hold for it. The deletion brings the next pass.
		action = Remove
	}
	switch action {
	case Remove:
		err = r.remove(ctx, instance)
	case Pause:
		err = r.pause(ctx, instance)
	case Apply:
		err = r.apply(ctx, machine, instance)
	}
	if err == nil && action != Remove {
		err = r.tellKept(ctx, machine, instance, action == Keep)
	}
	if err != nil || action != Apply {
		return apply.RetryStale(ctx, err)
	}
	platform, err := r.platform(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	again, err := r.replacer.replace(ctx, machine, instance, platform)
	if err != nil {
		return apply.RetryStale(ctx, err)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

func (r *Reconciler) apply(ctx context.Context, machine *machinev1beta1.Machine, instance *v1alpha1.WindowsInstance) error {
	var problems map[string]string
	if instance != nil && !belongs(instance) {
		problems = map[string]string{"": fmt.Sprintf("A WindowsInstance %s exists and does not belong to this Machine. "+
			"Delete it, so that one is made for the Machine.", instance.Name)}
	}
	r.conflicts.Report(machine, reasonInstanceConflict, problems)
	// An instance that is being deleted brings the next pass when it is gone.
	if len(problems) > 0 || instance != nil && !instance.DeletionTimestamp.IsZero() {
		return nil
	}
	platform, err := r.platform(ctx)
	if err != nil {
		return err
	}
	pool, err := r.pool(ctx, machine)
	if err != nil {
		return err
	}
	if pool == "" && instance != nil {
		if pool, err = appliedPool(instance); err != nil {
			return err
		}
	}
	name, problem := computerName(machine, instance, platform)
	if problem != "" {
		problems = map[string]string{"metadata.name": problem}
	}
	r.names.Report(machine, reasonNameRefused, problems)
	written, err := r.applier.Instance(ctx, instance, instanceFor(machine, instance, pool, name, platform))
	if err != nil {
		return err
	}
	if written {
		log.FromContext(ctx).Info("Applied the instance of a Machine", "instance", klog.KObj(machine), "created", instance == nil)
	}
	return nil
}

// pool returns the name of the pool that a Machine belongs to. Empty: none.
func (r *Reconciler) pool(ctx context.Context, machine *machinev1beta1.Machine) (string, error) {
	name := setOf(machine)
	if name == "" {
		return "", nil
	}
	key := client.ObjectKey{Namespace: machine.Namespace, Name: name}
	set, err := object.Get(ctx, r.client, key, &machinev1beta1.MachineSet{})
	if err != nil {
		return "", err
	}
	pool, err := object.Get(ctx, r.client, key, &v1alpha1.WindowsNodePool{})
	if err != nil {
		return "", err
	}
	return poolOf(set, pool), nil
}

func (r *Reconciler) pause(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	if instance == nil || !belongs(instance) || !instance.DeletionTimestamp.IsZero() {
		return nil
	}
	want, err := pausedInstance(instance)
	if err != nil {
		return err
	}
	written, err := r.applier.Instance(ctx, instance, want)
	if err != nil {
		return err
	}
	if written {
		log.FromContext(ctx).Info("Paused the instance of a Machine that is to be ignored", "instance", klog.KObj(instance))
	}
	return nil
}

func (r *Reconciler) remove(ctx context.Context, instance *v1alpha1.WindowsInstance) error {
	if instance == nil || !belongs(instance) || !instance.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := object.Delete(ctx, r.client, instance); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Deleted the instance of a Machine that is gone or going", "instance", klog.KObj(instance))
	return nil
}
