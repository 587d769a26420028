// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package watch

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ofServer is a manager of which only this is used.
type ofServer struct {
	ctrl.Manager // nil: nothing else is expected to be called

	config *rest.Config
	added  manager.Runnable
}

func (m *ofServer) GetConfig() *rest.Config      { return m.config }
func (m *ofServer) GetHTTPClient() *http.Client  { return http.DefaultClient }
func (m *ofServer) GetScheme() *runtime.Scheme   { return scheme.Scheme }
func (m *ofServer) Add(r manager.Runnable) error { m.added = r; return nil }
func (m *ofServer) GetRESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return mapper
}

// TestConfigMaps: a controller gets its request when it starts, and for each of the ConfigMaps, and no others are asked for.
func TestConfigMaps(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch query := r.URL.Query(); {
		case r.URL.Path != "/api/v1/namespaces/operator/configmaps" || query.Get("labelSelector") != "ours=true":
			t.Errorf("it asks for %s", r.URL)
		case query.Get("watch") != "" && query.Get("sendInitialEvents") == "":
			<-r.Context().Done()
		case query.Get("watch") != "":
			w.WriteHeader(http.StatusBadRequest) // it lists them
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[
				{"metadata":{"namespace":"operator","name":"a","labels":{"ours":"true"}},"data":{"key":"value"}}]}`)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	mgr := &ofServer{config: &rest.Config{Host: server.URL}}
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "operator", Name: "one"}}
	start, changes, err := ConfigMaps(mgr, cache.ByObject{
		Namespaces: map[string]cache.Config{"operator": {}}, Label: labels.SelectorFromSet(labels.Set{"ours": "true"}),
	}, request)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- mgr.added.Start(ctx) }()
	defer func() { cancel(); <-ended }()
	for name, from := range map[string]interface {
		Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error
	}{"its start": start, "a ConfigMap": changes} {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		if err := from.Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(time.Minute, queue.ShutDown)
		if got, _ := queue.Get(); got != request {
			t.Errorf("%s brings %v", name, got)
		}
		late.Stop()
		queue.ShutDown()
	}
	var cached corev1.ConfigMap
	if err := mgr.added.(cache.Cache).Get(ctx, client.ObjectKey{Namespace: "operator", Name: "a"}, &cached); err != nil || len(cached.Data) > 0 {
		t.Errorf("of a ConfigMap is kept: %v, %v", cached.Data, err)
	}
}
