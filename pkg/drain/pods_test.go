// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// TestLargePods: however large the pods of a Node are, few of them are in memory at a time, and of those to evict only what that needs.
func TestLargePods(t *testing.T) {
	const much = 1 << 20
	client := fake.NewClientset()
	var limits []int64
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		o := action.(clienttesting.ListActionImpl).ListOptions //nolint:forcetypeassert // the action is one
		limits = append(limits, o.Limit)
		pod := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web-" + fmt.Sprint(len(limits)), UID: "u", Labels: map[string]string{"app": "web"},
				Annotations:     map[string]string{"large": strings.Repeat("a", much)},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}, {Name: strings.Repeat("o", much)}},
				ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("m", much)}},
			},
			Spec: corev1.PodSpec{
				NodeName: testNode, Containers: []corev1.Container{{Args: []string{strings.Repeat("a", much)}}},
				Tolerations: []corev1.Toleration{{Key: strings.Repeat("t", much)}, {Operator: corev1.TolerationOpExists}},
				Volumes:     []corev1.Volume{{Name: strings.Repeat("v", much)}, {Name: "d", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			},
		}
		if len(limits) == 2 {
			pod.Labels["large"] = strings.Repeat("l", much)
		}
		list := &corev1.PodList{Items: []corev1.Pod{pod}}
		if len(limits) < 3 {
			list.Continue = "more"
		}
		return true, list, nil
	})
	pods, err := New(client).selectPods(t.Context(), testNode, Options{Force: true, DeleteEmptyDirData: true, IgnoreDaemonSets: true})
	if err != nil || len(pods) != 3 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	for i := range pods {
		data, err := pods[i].Marshal()
		if err != nil || len(data) > 1024 {
			t.Errorf("of %s %d bytes are kept: %v", pods[i].Name, len(data), err)
		}
		if !toleratesCordon(&pods[i]) || !hasEmptyDir(&pods[i]) || unmanaged(&pods[i]) || (pods[i].Labels["app"] == "") != (i == 1) {
			t.Errorf("what is needed is lost: %+v", pods[i])
		}
	}
	for _, limit := range limits {
		if limit != podsPage {
			t.Errorf("pages of %d", limit)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPagesAtOnce: so many pages are read at a time, by whomever, and who waits for its turn ends with its context.
func TestPagesAtOnce(t *testing.T) {
	reading, goOn := make(chan struct{}), make(chan struct{})
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://localhost", QPS: -1, Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		reading <- struct{}{}
		<-goOn
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"kind":"PodList","apiVersion":"v1"}`))}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for range maxPages {
		go func() { ended <- EachPod(t.Context(), client, testNode, "", func(*corev1.Pod) {}) }()
	}
	for range maxPages {
		<-reading
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := EachPod(ctx, client, testNode, "", func(*corev1.Pod) {}); !errors.Is(err, enough) {
		t.Errorf("one more page: %v", err)
	}
	close(goOn)
	for range maxPages {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	go func() { ended <- EachPod(t.Context(), client, testNode, "", func(*corev1.Pod) {}) }()
	<-reading
	if err := <-ended; err != nil {
		t.Errorf("none is read any more: %v", err)
	}
}
