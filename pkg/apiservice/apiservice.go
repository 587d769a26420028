// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package apiservice is about our APIService, which says where in a cluster our API is served.
// There is one for the whole cluster, so it also says which installation of our programs has
// its hosts: that in the namespace of the Service it leads to.
package apiservice

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Resource is that of APIServices. Their Go types are in k8s.io/kube-aggregator.
var Resource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// Name is that of our APIService.
var Name = v1alpha1.SchemeGroupVersion.Version + "." + v1alpha1.SchemeGroupVersion.Group

// Namespace returns the namespace of the Service that an APIService leads to. Empty: it leads to
// none, because kube-apiserver itself serves the API.
func Namespace(apiService *unstructured.Unstructured) string {
	namespace, _, _ := unstructured.NestedString(apiService.Object, "spec", "service", "namespace")
	return namespace
}

// ElsewhereError says that the API is served by another installation.
type ElsewhereError struct {
	// Namespace has the installation that serves the API; empty if none does. Own is that of
	// this process.
	Namespace, Own string
}

// Error implements error.
func (e *ElsewhereError) Error() string {
	if e.Namespace == "" {
		return fmt.Sprintf("APIService %s leads to no Service, so hosts are left alone by the installation in namespace %s; delete the APIService, and windows-apiserver creates it again after its restart", Name, e.Own)
	}
	return fmt.Sprintf("APIService %[1]s leads to namespace %[2]s, so the installation there has the hosts of this cluster, and the one in namespace %[3]s leaves them alone. "+
		"Only one may be in a cluster: remove this one (kubectl delete deployment windows-controller -n %[3]s), "+
		"or remove the other one (kubectl delete deployment/windows-controller statefulset/windows-apiserver -n %[2]s, then kubectl delete apiservice %[1]s): windows-apiserver of this one then creates the APIService. "+
		"If this process belongs to the installation in %[2]s, run it with --namespace=%[2]s: it then also reads the ConfigMap with the hosts and the Secret with their key there, "+
		"and instances in %[2]s come before those in other namespaces", Name, e.Namespace, e.Own)
}

// WaitUntilOwn returns when the APIService leads to the namespace own, or there is none. It calls
// waiting with the cause whenever another one has it. An error is that of ctx.
func WaitUntilOwn(ctx context.Context, client dynamic.Interface, own string, waiting func(cause error)) error {
	served := func(object any) bool {
		err := elsewhere(object, own)
		if err != nil {
			waiting(err)
		}
		return err == nil
	}
	absent := func(store cache.Store) (bool, error) { return len(store.ListKeys()) == 0, nil }
	_, err := watchtools.UntilWithSync(ctx, listWatch(client), &unstructured.Unstructured{}, absent, func(event watch.Event) (bool, error) {
		return event.Type == watch.Deleted || served(event.Object), nil
	})
	return err
}

// WatchOwn returns an [ElsewhereError] when the APIService leads to another namespace than own,
// or the error of ctx.
func WatchOwn(ctx context.Context, client dynamic.Interface, own string) error {
	_, err := watchtools.UntilWithSync(ctx, listWatch(client), &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		if event.Type == watch.Deleted {
			return false, nil // nobody serves it: there is nothing to act on
		}
		return false, elsewhere(event.Object, own)
	})
	return err
}

// CheckOwn returns an [ElsewhereError] if the APIService leads to another namespace than own, now. It
// needs the right to get it; any other error says that it could not be read.
func CheckOwn(ctx context.Context, client dynamic.Interface, own string) error {
	found, err := get(ctx, client)
	if found == nil || err != nil {
		return err // nobody serves it: there is nothing to act on
	}
	return elsewhere(found, own)
}

// elsewhere returns an error if an APIService leads to another namespace.
func elsewhere(object any, own string) error {
	apiService, ok := object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("reading APIService %s: it is a %T", Name, object)
	}
	if namespace := Namespace(apiService); namespace != own {
		return &ElsewhereError{Namespace: namespace, Own: own}
	}
	return nil
}

// listWatch lists and watches our APIService only.
func listWatch(client dynamic.Interface) cache.ListerWatcher {
	only := func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", Name).String()
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			only(&options)
			return client.Resource(Resource).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			only(&options)
			return client.Resource(Resource).Watch(ctx, options)
		},
	}, client)
}
