// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/windows-instance-api/pkg/apiservice"
)

// handlers is an informer of which only the handlers matter.
type handlers struct {
	cache.SharedInformer
	cache.ResourceEventHandler
}

func (h *handlers) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h.ResourceEventHandler = handler
	return nil, nil //nolint:nilnil // nobody asks for it
}

func TestRetireWithNamespace(t *testing.T) {
	for _, test := range []struct {
		name      string
		namespace string // that is being deleted
		of        string // the namespace of the APIService
		failures  int32  // of the first deletions
		gone      bool
	}{
		{"our namespace", "ours", "ours", 0, true},
		{"our namespace, and the API fails at first", "ours", "ours", 3, true},
		{"our namespace, and the API leads elsewhere", "ours", "other", 0, false},
		{"another namespace", "other", "ours", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewSimpleDynamicClient(runtime.NewScheme(), &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
					"metadata": map[string]any{"name": "v1alpha1.windows.openshift.io"},
					"spec":     map[string]any{"service": map[string]any{"namespace": test.of}},
				}})
				var failures atomic.Int32
				client.PrependReactor("delete", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) {
					return failures.Add(1) <= test.failures, nil, errors.New("no leader")
				})
				ctx, cancel := context.WithCancel(t.Context())
				informer := &handlers{}
				if err := RetireWithNamespace(ctx, informer, client, "ours"); err != nil {
					t.Fatal(err)
				}
				informer.OnAdd(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: test.namespace}}, true)
				going := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: test.namespace, DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
				informer.OnUpdate(nil, going)
				informer.OnUpdate(nil, going)
				time.Sleep(time.Minute) //nolint:forbidigo // the time of the bubble
				_, err := client.Resource(apiservice.Resource).Get(ctx, apiservice.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) != test.gone {
					t.Errorf("the APIService: %v, want it gone: %t", err, test.gone)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}
