// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Operators are stand-ins for those of OpenShift, as far as we depend on what they do.
type Operators struct {
	stop  context.CancelFunc
	ended chan error
}

// OperatorOptions are for [StartOperators].
type OperatorOptions struct {
	// ServiceCA signs certificates of Services. Required.
	ServiceCA ServiceCA
	// Cloud is what the cluster runs on. Required.
	Cloud *Cloud
	// MaxMachineAge is for how long after the creation of a Machine the cluster-machine-approver approves the first
	// certificate of its host. Zero: two hours, as the real one.
	MaxMachineAge time.Duration
}

// StartOperators starts them in a cluster that was installed, see [Cluster.Install]. The configuration is one with
// all rights.
func StartOperators(kube *rest.Config, o OperatorOptions) (*Operators, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(kube, ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		// A process may have several clusters.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("making the stand-ins for operators: %w", err)
	}
	clients, err := kubernetes.NewForConfig(kube)
	if err != nil {
		return nil, fmt.Errorf("making the stand-ins for operators: %w", err)
	}
	err = errors.Join(
		each(mgr, "serving certificates", &corev1.Service{}, o.ServiceCA.sign),
		each(mgr, "what serving certificates are with", &corev1.Secret{}, o.ServiceCA.purge),
		each(mgr, "caBundle", newAPIService(), o.ServiceCA.inject),
		each(mgr, "network", &operatorv1.Network{}, applyNetwork),
		each(mgr, "proxy", &configv1.Proxy{}, publishProxy),
		each(mgr, "trusted authorities", &corev1.ConfigMap{}, injectTrustedCA),
		each(mgr, "tokens", &corev1.Secret{}, fillToken),
		each(mgr, "overlay", &corev1.Node{}, new(overlay).annotate),
		each(mgr, "cloud", &corev1.Node{}, o.Cloud.initialize),
		each(mgr, "certificates of nodes", &certificatesv1.CertificateSigningRequest{}, machineApprover{maxAge: o.MaxMachineAge}.approve),
		keepToken(mgr),
		machineConfigOperator{client: mgr.GetClient()}.setup(mgr),
		machineSetController{client: mgr.GetClient(), live: mgr.GetAPIReader()}.setup(mgr),
		machineController{client: mgr.GetClient(), kube: clients}.setup(mgr),
		healthCheckController{client: mgr.GetClient()}.setup(mgr),
	)
	if err != nil {
		return nil, fmt.Errorf("making the stand-ins for operators: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	started := &Operators{stop: stop, ended: make(chan error, 1)}
	go func() { started.ended <- mgr.Start(ctx) }()
	return started, nil
}

// Stop ends them.
func (o *Operators) Stop() error {
	o.stop()
	if err := <-o.ended; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the stand-ins for operators: %w", err)
	}
	return nil
}

// each has do called for each object of the kind of empty when it changes, and again if that fails.
func each[T client.Object](mgr ctrl.Manager, name string, empty T, do func(context.Context, client.Client, T) error) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).Named(name).For(empty).Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		object := empty.DeepCopyObject().(T) //nolint:forcetypeassert // a copy is of the same kind
		if err := c.Get(ctx, request.NamespacedName, object); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		return reconcile.Result{}, do(ctx, c, object)
	}))
}
