// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/coalesce"
	"github.com/openshift/windows-instance-api/pkg/controller/csr"
	"github.com/openshift/windows-instance-api/pkg/controller/keys"
	"github.com/openshift/windows-instance-api/pkg/controller/rollout"
	"github.com/openshift/windows-instance-api/pkg/controller/source/configmap"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/metrics"
	"github.com/openshift/windows-instance-api/pkg/host/networks"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/kubeclient"
)

const (
	// apiPollInterval is how often to look for the API as long as it does not exist.
	apiPollInterval = 2 * time.Second
)

var apiGroupVersion = v1alpha1.SchemeGroupVersion.String()

// runManager runs the controllers until ctx is done. When it returns without an error, nothing of
// them runs any more. After an error, such as that the Lease was lost, something may: the process ends then.
func runManager(ctx context.Context, config *rest.Config, cluster dynamic.Interface, o *options, health *healthServer) error {
	agents, err := o.Hosts.Agents()
	if err != nil {
		return err
	}
	if err := waitForAPI(ctx, config); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	lease, err := newLease(config, o)
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o, lease)
	if err != nil {
		return err
	}
	nodes, err := mgr.GetCache().GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("making the informer of Nodes: %w", err)
	}
	known, err := networks.WatchBeside(ctx, nodes, cluster)
	if err != nil {
		return err
	}
	defer known.Close()
	connectionOptions, err := o.Hosts.Connections(known.Kind)
	if err != nil {
		return err
	}
	connections := ssh.New(connectionOptions)
	defer func() {
		if err := connections.Close(); err != nil {
			klog.ErrorS(err, "Closing the connections to hosts")
		}
	}()
	if err := ctrlmetrics.Registry.Register(metrics.NewCollector("windows_controller", connections.Stats)); err != nil {
		return fmt.Errorf("registering the metrics of connections: %w", err)
	}
	shipped, err := openPayload(ctx, connectionOptions, o)
	if err != nil {
		return err
	}
	defer shipped.close()
	connector := host.New(host.Options{
		Pool:               connections,
		ReadSecret:         secretReader(mgr.GetAPIReader()),
		ReadPool:           poolReader(mgr.GetClient()),
		ClusterCredentials: o.Hosts.ClusterCredentials(),
	})
	client := agentclient.New(agentclient.Options{
		Hosts:        connector,
		Pool:         connections,
		Agents:       agents,
		Payload:      shipped.payload,
		Transfer:     shipped.limits,
		TransferPool: shipped.connections,
	})
	kube, err := kubeclient.New(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client for the cluster: %w", err)
	}
	recorder, closeRecorder := newRecorder(ctx, kube, mgr.GetScheme())
	defer closeRecorder()
	c := controllers{
		Manager: mgr, hosts: hosts{connector, client}, kube: kube, recorder: recorder, ready: known.Wait, leads: leads(lease, cluster, o.Hosts.Namespace), options: o,
		keys: keys.NewCurrent(o.Hosts.ClusterCredentials()),
	}
	if err := c.configure(shipped.payload); err != nil {
		return err
	}
	if err := c.add(ctx); err != nil {
		return err
	}
	health.setSynced(mgr.GetCache().WaitForCacheSync)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the controllers: %w", err)
	}
	return nil
}

func configMapOptions(o *options) configmap.Options {
	most, _ := o.maxRemovals() // it was validated
	return configmap.Options{
		Namespace: o.Hosts.Namespace, Name: o.InstancesConfigMap,
		MaxRemovals: most, RemovalWindow: o.RemovalWindow, RemoveWithoutConfirmation: o.RemoveWithoutConfirmation,
	}
}

// newManager makes the manager, without any controller.
func newManager(config *rest.Config, o *options, lease *resourcelock.LeaseLock) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, machinev1beta1.Install, cluster.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("making the scheme: %w", err)
		}
	}
	return makeManager(config, managerOptions(scheme, o, lease), o.MetricsCertDir)
}

// makeManager makes a manager that serves metrics with the certificate of a directory, or with one
// that it signs itself.
func makeManager(config *rest.Config, o ctrl.Options, metricsCertDir string) (ctrl.Manager, error) {
	var certificate *metricsCertificate
	if metricsCertDir != "" {
		var err error
		if certificate, err = newMetricsCertificate(metricsCertDir); err != nil {
			return nil, fmt.Errorf("reading the certificate of --metrics-cert-dir: %w", err)
		}
		o.Metrics.TLSOpts = append(o.Metrics.TLSOpts, certificate.configure)
	}
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if certificate == nil {
		return mgr, nil
	}
	if err := mgr.Add(certificate); err != nil {
		return nil, fmt.Errorf("adding the certificate of metrics: %w", err)
	}
	return mgr, nil
}

// managerOptions say who works, what is kept of the cluster, and who may read the metrics.
func managerOptions(scheme *runtime.Scheme, o *options, lease *resourcelock.LeaseLock) ctrl.Options {
	byObject := map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: compactNode}, &v1alpha1.WindowsInstance{}: {Transform: compactInstance}}
	maps.Copy(byObject, configmap.CacheByObject(configMapOptions(o)))
	maps.Copy(byObject, csr.CacheByObject())
	maps.Copy(byObject, rollout.CacheByObject())
	options := ctrl.Options{
		Scheme:         scheme,
		MapperProvider: newMapper,
		Logger:         klog.Background(),
		Cache:          cache.Options{ByObject: byObject},
		Client: client.Options{Cache: &client.CacheOptions{
			// Secrets are read one by one, at the moment they are needed, and never kept.
			DisableFor: []client.Object{&corev1.Secret{}},
		}},
		LeaderElection: o.LeaderElect,
		LeaseDuration:  &o.LeaderElectLeaseDuration,
		RenewDeadline:  &o.LeaderElectRenewDeadline,
		RetryPeriod:    &o.LeaderElectRetryPeriod,
		// The process ends as soon as the manager has, so the next one need not wait for the Lease to expire.
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        "0", // see healthServer
		Metrics: metricsserver.Options{
			BindAddress:    o.MetricsBindAddress,
			SecureServing:  true,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
			TLSOpts:        []func(*tls.Config){func(config *tls.Config) { _ = o.configureTLS(config) }}, // what is wrong was said when the flags were read
		},
	}
	if lease != nil {
		options.LeaderElectionResourceLockInterface = lease
	}
	return options
}

// waitForAPI waits until the cluster serves our API, or ctx is done. Without it the manager cannot even
// be created.
func waitForAPI(ctx context.Context, config *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for the cluster: %w", err)
	}
	said := ""
	found := func(ctx context.Context) (bool, error) {
		_, err := client.ServerResourcesForGroupVersionWithContext(ctx, apiGroupVersion)
		if err != nil && err.Error() != said {
			said = err.Error()
			klog.InfoS("Waiting for the API", "groupVersion", apiGroupVersion, "cause", said)
		}
		return err == nil, nil
	}
	_ = wait.PollUntilContextCancel(ctx, apiPollInterval, true, found) // it fails only when ctx is done
	return nil
}

// newMapper makes what knows the kinds of the cluster. It has discovered all APIs at once before it is asked for ours, for which it then asks
// what serves them: what kube-apiserver says of aggregated servers among all APIs may be a minute old, and is nothing if they were away then.
func newMapper(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, err
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Kind: "Node"}, "v1"); err != nil {
		return nil, fmt.Errorf("discovering the APIs of the cluster: %w", err)
	}
	return mapper, nil
}

// secretInterval and secretBurst limit how often one Secret is read, see [coalesce.Group]: a host that becomes a node needs it two dozen times, and a hundred hosts
// share it.
const (
	secretInterval = 200 * time.Millisecond
	secretBurst    = 20
)

// secretReader reads Secrets from the cluster itself. The hosts of a pool have one, and those that are asked at the same time share what was read.
func secretReader(live client.Reader) func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	shared := coalesce.Group[client.ObjectKey, *corev1.Secret]{Interval: secretInterval, Burst: secretBurst}
	return func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
		key := client.ObjectKey{Namespace: namespace, Name: name}
		secret, err := shared.Do(ctx, key, func(ctx context.Context) (*corev1.Secret, error) {
			secret := &corev1.Secret{}
			return secret, live.Get(ctx, key, secret)
		})
		if err != nil {
			return nil, err
		}
		return secret.DeepCopy(), nil
	}
}

// poolReader reads pools from the cache, which are only to be read.
func poolReader(cached client.Reader) func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error) {
	return func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error) {
		found := &v1alpha1.WindowsNodePool{}
		if err := cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		return found, nil
	}
}
