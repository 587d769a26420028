// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryapply "k8s.io/client-go/applyconfigurations/discovery/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// fieldManager owns the fields of objects that are applied here.
const fieldManager = "controlplane"

// placeholderEndpoint stands in EndpointSlices where an address is required and
// nothing is sent to it. It is from TEST-NET-1 (RFC 5737).
var placeholderEndpoint = netip.AddrFrom4([4]byte{192, 0, 2, 10})

// apiServices is spoken to without its Go types, which are in k8s.io/kube-aggregator.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// APIService describes an aggregated API and the Service its server stands
// behind.
type APIService struct {
	Group   string
	Version string

	// Namespace and Service name the Service. Both are created if missing.
	Namespace string
	Service   string

	// IP is the Service's cluster IP, one of ServiceIP, which the server listens
	// on. Port is the port of both. 0 means 443, as in production; listening
	// there takes root.
	IP   netip.Addr
	Port int

	// CABundle verifies the server's certificate, which has to be for
	// <service>.<namespace>.svc. Nil means ServingCABundle.
	CABundle []byte

	// GroupPriorityMinimum and VersionPriority order groups and versions in
	// discovery. 0 means 2000 and 15.
	GroupPriorityMinimum int32
	VersionPriority      int32

	// Endpoints are the server's addresses with Options.AggregatorRouting. Empty
	// means a placeholder: without that option an address has to be there and is
	// not used.
	Endpoints []netip.Addr
}

// Name returns the name of the APIService object, <version>.<group>.
func (s *APIService) Name() string { return s.Version + "." + s.Group }

func (s *APIService) setDefaults(cp *ControlPlane) {
	if s.Port == 0 {
		s.Port = 443
	}
	if s.CABundle == nil {
		s.CABundle = cp.ServingCABundle()
	}
	if s.GroupPriorityMinimum == 0 {
		s.GroupPriorityMinimum = 2000
	}
	if s.VersionPriority == 0 {
		s.VersionPriority = 15
	}
	if len(s.Endpoints) == 0 {
		s.Endpoints = []netip.Addr{placeholderEndpoint}
	}
}

// ServingCert issues a certificate for a server behind the Service, good for
// every name the Service has, for "localhost" and for the further host names and
// IP addresses. It is the same authority for all Services; see ServingCABundle.
// The files are <service>.<namespace>.crt and .key in the directory pki/ of the
// run directory; calling it again replaces them.
func (cp *ControlPlane) ServingCert(service, namespace string, hosts ...string) (KeyPair, error) {
	name := service + "." + namespace
	return cp.servingCA.issueFiles(name, leaf{
		commonName: name + ".svc",
		usage:      serverAuth,
		hosts:      append([]string{name + ".svc", name + ".svc.cluster.local", name, "localhost"}, hosts...),
	})
}

// ServingCABundle returns the PEM certificate of the authority behind
// ServingCert, for caBundle fields.
func (cp *ControlPlane) ServingCABundle() []byte { return cp.servingCA.bundle() }

// RegisterAPIService registers the aggregated API: Namespace, Service,
// EndpointSlice, APIService. It waits until the API server finds it available,
// so the server has to run or come up meanwhile; start it first if it can be
// done, as the API server takes its time before it looks again. When ctx ends
// first, the error has the API server's view.
func (cp *ControlPlane) RegisterAPIService(ctx context.Context, s APIService) error {
	s.setDefaults(cp)
	if err := cp.applyService(ctx, s); err != nil {
		return fmt.Errorf("registering APIService %s: %w", s.Name(), err)
	}
	if err := cp.applyAPIService(ctx, s); err != nil {
		return fmt.Errorf("registering APIService %s: %w", s.Name(), err)
	}
	return cp.WaitForAPIService(ctx, s.Name())
}

// EnsureNamespace creates the namespace if it is missing.
func (cp *ControlPlane) EnsureNamespace(ctx context.Context, name string) error {
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if _, err := client.CoreV1().Namespaces().Apply(ctx, coreapply.Namespace(name), applyOptions()); err != nil {
		return fmt.Errorf("creating Namespace %s: %w", name, err)
	}
	return nil
}

func (cp *ControlPlane) applyService(ctx context.Context, s APIService) error {
	if err := cp.EnsureNamespace(ctx, s.Namespace); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	service := coreapply.Service(s.Service, s.Namespace).WithSpec(coreapply.ServiceSpec().
		WithClusterIP(s.IP.String()).
		WithPorts(coreapply.ServicePort().WithName("https").WithProtocol(corev1.ProtocolTCP).WithPort(int32(s.Port))))
	if _, err := client.CoreV1().Services(s.Namespace).Apply(ctx, service, applyOptions()); err != nil {
		return fmt.Errorf("creating Service %s/%s: %w", s.Namespace, s.Service, err)
	}
	// The Service has no selector, so nobody else makes a slice for it, and
	// without one the API server does not even try.
	slice := discoveryapply.EndpointSlice(s.Service, s.Namespace).
		WithLabels(map[string]string{discoveryv1.LabelServiceName: s.Service}).
		WithAddressType(discoveryv1.AddressTypeIPv4).
		WithPorts(discoveryapply.EndpointPort().WithName("https").WithProtocol(corev1.ProtocolTCP).WithPort(int32(s.Port)))
	for _, addr := range s.Endpoints {
		slice.WithEndpoints(discoveryapply.Endpoint().
			WithAddresses(addr.String()).
			WithConditions(discoveryapply.EndpointConditions().WithReady(true)))
	}
	if _, err := client.DiscoveryV1().EndpointSlices(s.Namespace).Apply(ctx, slice, applyOptions()); err != nil {
		return fmt.Errorf("creating EndpointSlice %s/%s: %w", s.Namespace, s.Service, err)
	}
	return nil
}

func (cp *ControlPlane) applyAPIService(ctx context.Context, s APIService) error {
	client, err := dynamic.NewForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiServices.GroupVersion().String(),
		"kind":       "APIService",
		"metadata":   map[string]any{"name": s.Name()},
		"spec": map[string]any{
			"group":                s.Group,
			"version":              s.Version,
			"groupPriorityMinimum": int64(s.GroupPriorityMinimum),
			"versionPriority":      int64(s.VersionPriority),
			"caBundle":             base64.StdEncoding.EncodeToString(s.CABundle),
			"service": map[string]any{
				"namespace": s.Namespace,
				"name":      s.Service,
				"port":      int64(s.Port),
			},
		},
	}}
	if _, err := client.Resource(apiServices).Apply(ctx, s.Name(), object, applyOptions()); err != nil {
		return fmt.Errorf("creating the APIService: %w", err)
	}
	return nil
}

// WaitForAPIService waits until the API server finds the aggregated API
// available. name is <version>.<group>.
func (cp *ControlPlane) WaitForAPIService(ctx context.Context, name string) error {
	client, err := dynamic.NewForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	err = cp.poll(ctx, func(ctx context.Context) error {
		object, err := client.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return conditionTrue(object, "Available")
	})
	if err != nil {
		return fmt.Errorf("waiting for APIService %s: %w", name, err)
	}
	return nil
}

// poll calls condition until it returns nil. It gives up when ctx ends or a
// process of the control plane dies.
func (cp *ControlPlane) poll(ctx context.Context, condition func(ctx context.Context) error) error {
	err := poll(ctx, cp.failed, condition)
	if errors.Is(err, errEnded) {
		return cp.failure
	}
	return err
}

// conditionTrue returns nil when the object has the condition with status True,
// and what the object says about it otherwise.
func conditionTrue(object *unstructured.Unstructured, conditionType string) error {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return fmt.Errorf("reading the conditions of %s: %w", object.GetName(), err)
	}
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok || condition["type"] != conditionType {
			continue
		}
		if condition["status"] == string(metav1.ConditionTrue) {
			return nil
		}
		return fmt.Errorf("%s is %v, %v: %v", conditionType, condition["status"], condition["reason"], condition["message"])
	}
	return fmt.Errorf("there is no condition %s yet", conditionType)
}

func applyOptions() metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
}
