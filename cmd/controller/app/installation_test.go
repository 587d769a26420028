// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/openshift/windows-instance-api/pkg/apiservice"
)

// A process leaves hosts alone as long as another installation has them, says so where its pod is
// looked at, and ends when it loses them.
func TestInstallation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registration := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": apiservice.Name},
		}}
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{apiservice.Resource: "APIServiceList"})
		settle := func() {
			<-time.After(time.Minute) // of the bubble
			synctest.Wait()
		}
		served := func(from string) {
			t.Helper()
			if err := unstructured.SetNestedField(registration.Object, from, "spec", "service", "namespace"); err != nil {
				t.Fatal(err)
			}
			if err := client.Tracker().Update(apiservice.Resource, registration.DeepCopy(), ""); err != nil {
				t.Fatal(err)
			}
			settle()
		}
		if err := client.Tracker().Create(apiservice.Resource, registration.DeepCopy(), ""); err != nil {
			t.Fatal(err)
		}
		served("theirs")
		waits := func(ctx context.Context, health *healthServer) <-chan bool {
			begins := make(chan bool, 1)
			go func() { begins <- waitForInstallation(ctx, client, "ours", health) }()
			settle()
			if err := health.checkCaches(nil); len(begins) > 0 || err == nil || !strings.Contains(err.Error(), "waiting for the hosts of this cluster: ") || !strings.Contains(err.Error(), "theirs") {
				t.Errorf("the other one has them: got %v", err)
			}
			return begins
		}
		stopped, stop := context.WithCancel(t.Context())
		begins := waits(stopped, &healthServer{})
		stop()
		if <-begins {
			t.Error("a process that is stopped begins")
		}

		health := &healthServer{}
		begins = waits(t.Context(), health)
		served("ours")
		if !<-begins {
			t.Error("it does not begin")
		}
		if err := health.checkCaches(nil); err == nil || err.Error() != "waiting for the API windows.openshift.io/v1alpha1" {
			t.Errorf("it begins: got %v", err)
		}

		lost := make(chan error, 1)
		watches := func(ctx context.Context) {
			go func() { lost <- watchInstallation(ctx, client, "ours") }()
			settle()
			if len(lost) > 0 {
				t.Fatalf("nobody else has them: %v", <-lost)
			}
		}
		stopped, stop = context.WithCancel(t.Context())
		watches(stopped)
		stop()
		if err := <-lost; err != nil {
			t.Errorf("when it is stopped: %v", err)
		}
		watches(t.Context())
		served("theirs")
		if elsewhere, ok := errors.AsType[*apiservice.ElsewhereError](<-lost); !ok || elsewhere.Namespace != "theirs" {
			t.Errorf("got %v", elsewhere)
		}
	})
}
