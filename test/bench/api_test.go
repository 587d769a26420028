// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/test/system"
)

// objects is how many instances BenchmarkListWatch makes of each kind.
const objects = 5000

// crd is the same kind as a custom resource in another group.
const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: windowsinstances.bench.example.com}
spec:
  group: bench.example.com
  scope: Namespaced
  names: {plural: windowsinstances, singular: windowsinstance, kind: WindowsInstance, listKind: WindowsInstanceList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// BenchmarkListWatch lists 5,000 WindowsInstances, and watches while 500 of them
// change, against the same objects as a custom resource in the same kube-apiserver.
// A ratio above 1 means that ours is slower.
func BenchmarkListWatch(b *testing.B) {
	s, _, _ := startSystem(b, system.Options{WithoutController: true, APIServerArgs: []string{"--max-objects-per-namespace=0"}})
	ns := namespace(b, s, "bench")
	file := filepath.Join(b.TempDir(), "crd.yaml")
	if err := os.WriteFile(file, []byte(crd), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := s.InstallCRDs(context.Background(), file); err != nil {
		b.Fatal(err)
	}
	config := rest.CopyConfig(s.AdminConfig())
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	ours := client.Resource(schema.GroupVersionResource{Group: "windows.openshift.io", Version: "v1alpha1", Resource: "windowsinstances"}).Namespace(ns)
	peer := client.Resource(schema.GroupVersionResource{Group: "bench.example.com", Version: "v1alpha1", Resource: "windowsinstances"}).Namespace(ns)
	createOurs, createPeer := fill(b, ours, "windows.openshift.io"), fill(b, peer, "bench.example.com")

	var listOurs, listPeer, watchOurs, watchPeer time.Duration
	for b.Loop() {
		listOurs += list(b, ours)
		listPeer += list(b, peer)
		watchOurs += watchChanges(b, ours)
		watchPeer += watchChanges(b, peer)
	}
	n := float64(b.N)
	b.ReportMetric(createOurs.Seconds()/createPeer.Seconds(), "ratio-create")
	b.ReportMetric(listOurs.Seconds()/listPeer.Seconds(), "ratio-list")
	b.ReportMetric(watchOurs.Seconds()/watchPeer.Seconds(), "ratio-watch")
	b.ReportMetric(listOurs.Seconds()/n*1000, "ms-list-ours")
	b.ReportMetric(listPeer.Seconds()/n*1000, "ms-list-crd")
	b.ReportMetric(residentMiB(b, s.Server.PID()), "MiB-resident")
}

func fill(b *testing.B, client dynamic.ResourceInterface, group string) time.Duration {
	b.Helper()
	began := time.Now()
	var writers errgroup.Group
	writers.SetLimit(16)
	for i := range objects {
		writers.Go(func() error {
			_, err := client.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": group + "/v1alpha1",
				"kind":       "WindowsInstance",
				"metadata":   map[string]any{"name": fmt.Sprintf("w%04d", i), "labels": map[string]any{"rack": fmt.Sprintf("r%d", i%40)}},
				"spec": map[string]any{
					"address": fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), "port": int64(22), "username": "Administrator", "paused": true,
					"poolRef": map[string]any{"name": "pool"},
				},
			}}, metav1.CreateOptions{})
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func list(b *testing.B, client dynamic.ResourceInterface) time.Duration {
	b.Helper()
	began := time.Now()
	items, err := client.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if len(items.Items) != objects {
		b.Fatalf("got %d objects", len(items.Items))
	}
	return time.Since(began)
}

// changes is how many objects change while they are watched.
const changes = 500

// watchChanges returns how long it takes until a watch has seen the last change.
func watchChanges(b *testing.B, client dynamic.ResourceInterface) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	first, err := client.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: first.GetResourceVersion()})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	began := time.Now()
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range changes {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"changed":"%d"}}}`, began.UnixNano())
			if _, err := client.Patch(ctx, fmt.Sprintf("w%04d", i), "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	for seen := 0; seen < changes; {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				b.Fatalf("the watch ended after %d of %d changes", seen, changes)
			}
			if event.Type == watch.Modified {
				seen++
			}
		case <-ctx.Done():
			b.Fatalf("%d of %d changes were seen", seen, changes)
		}
	}
	elapsed := time.Since(began)
	writer.Wait()
	return elapsed
}

// BenchmarkServerStart measures the start of windows-apiserver with its embedded
// etcd until it is ready: cold on an empty directory, warm on one with data.
func BenchmarkServerStart(b *testing.B) {
	s, _, _ := startSystem(b, system.Options{WithoutController: true})
	var warm time.Duration
	for b.Loop() {
		if err := s.Server.Stop(); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := s.Server.Restart(context.Background()); err != nil {
			b.Fatal(err)
		}
		warm += time.Since(began)
	}
	b.ReportMetric(s.ServerStart.Seconds(), "s-cold")
	b.ReportMetric(warm.Seconds()/float64(b.N), "s-warm")
	b.ReportMetric(residentMiB(b, s.Server.PID()), "MiB-resident")
}
