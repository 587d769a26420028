// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiservice

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

// absent and local stand for a namespace where there is no APIService, or one without a Service.
const absent, local = "-", ""

// change changes our APIService as kubectl apply or kubectl delete would.
func change(t *testing.T, client dynamic.Interface, namespace string) {
	t.Helper()
	cluster := client.Resource(Resource)
	_, err := cluster.Get(t.Context(), Name, metav1.GetOptions{})
	switch {
	case namespace == absent:
		err = cluster.Delete(t.Context(), Name, metav1.DeleteOptions{})
	case apierrors.IsNotFound(err):
		_, err = cluster.Create(t.Context(), leadingTo(namespace), metav1.CreateOptions{})
	default:
		_, err = cluster.Update(t.Context(), leadingTo(namespace), metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	settle()
}

// settle returns when everybody in the bubble waits for something that does not come.
func settle() {
	time.Sleep(time.Minute) //nolint:forbidigo // the time of the bubble
	synctest.Wait()
}

// leadingTo is our APIService with a Service in a namespace.
func leadingTo(namespace string) *unstructured.Unstructured {
	spec := map[string]any{}
	if namespace != local {
		spec["service"] = map[string]any{"name": "windows-apiserver", "namespace": namespace}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1alpha1.windows.openshift.io"}, "spec": spec,
	}}
}

func newCluster() *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{Resource: "APIServiceList"})
}

// A controller begins in the namespace that the API is served from, or when it is not served, and in no other.
func TestWaitUntilOwn(t *testing.T) {
	for _, test := range []struct {
		name   string
		before string // where the API is served from
		later  string
		waits  []string // for whom
		ends   bool
	}{
		{"here", "ours", "ours", nil, true},
		{"nowhere", absent, absent, nil, true},
		{"elsewhere", "theirs", "theirs", []string{"theirs"}, false},
		{"by kube-apiserver itself", local, local, []string{local}, false},
		{"elsewhere, and here later", "theirs", "ours", []string{"theirs"}, true},
		{"elsewhere, and somewhere else later", "theirs", "another", []string{"theirs", "another"}, false},
		{"elsewhere, and nowhere later", "theirs", absent, []string{"theirs"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newCluster()
				if test.before != absent {
					change(t, client, test.before)
				}
				var waits []string
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- WaitUntilOwn(ctx, client, "ours", func(cause error) {
						var elsewhere *ElsewhereError
						if !errors.As(cause, &elsewhere) || elsewhere.Own != "ours" {
							t.Errorf("waits because of %v", cause)
							return
						}
						waits = append(waits, elsewhere.Namespace)
					})
				}()
				settle()
				if test.later != test.before {
					change(t, client, test.later)
				}
				if got := len(ended) == 1; got != test.ends {
					t.Errorf("ended: %t", got)
				}
				if diff := cmp.Diff(test.waits, waits); diff != "" {
					t.Errorf("waited for (-want +got)\n%s", diff)
				}
				cancel()
				if err := <-ended; (err == nil) != test.ends {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// A controller that works ends when the API is served from elsewhere, and only then.
func TestWatchOwn(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, later string
		want          string // the namespace that has it
		ends          bool
	}{
		{"it stays", "ours", "ours", "", false},
		{"it goes elsewhere", "ours", "theirs", "theirs", true},
		{"kube-apiserver itself serves it", "ours", local, local, true},
		{"it went elsewhere before anybody watched", "theirs", "theirs", "theirs", true},
		{"it is served no longer", "ours", absent, "", false},
		{"it is served from here", absent, "ours", "", false},
		{"it is served from elsewhere at last", absent, "theirs", "theirs", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newCluster()
				if test.before != absent {
					change(t, client, test.before)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- WatchOwn(ctx, client, "ours") }()
				settle()
				if test.later != test.before {
					change(t, client, test.later)
				}
				if got := len(ended) == 1; got != test.ends {
					t.Errorf("ended: %t", got)
				}
				cancel()
				err := <-ended
				var elsewhere *ElsewhereError
				if errors.As(err, &elsewhere) != test.ends || test.ends && elsewhere.Namespace != test.want {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// Who reads the message knows which installation has the hosts and how to end either.
func TestElsewhereError(t *testing.T) {
	got := (&ElsewhereError{Namespace: "theirs", Own: "ours"}).Error()
	for _, want := range []string{
		"APIService v1alpha1.windows.openshift.io leads to namespace theirs", "the one in namespace ours leaves them alone",
		"kubectl delete deployment windows-controller -n ours", "kubectl delete deployment/windows-controller statefulset/windows-apiserver -n theirs", "kubectl delete apiservice v1alpha1.windows.openshift.io", "--namespace=theirs",
		"reads the ConfigMap with the hosts and the Secret with their key there", "instances in theirs come before",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if got := (&ElsewhereError{Own: "ours"}).Error(); !strings.Contains(got, "leads to no Service") || !strings.Contains(got, "namespace ours") {
		t.Error(got)
	}
}
