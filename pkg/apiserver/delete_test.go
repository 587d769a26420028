// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	typed "github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/typed/windows/v1alpha1"
)

func newPool(name string, annotations map[string]string) *v1alpha1.WindowsNodePool {
	return &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{ConfigMap: &v1alpha1.SourceReference{Name: name}}},
	}
}

// testDeletePools deletes pools that have hosts, or a source, or neither.
func testDeletePools(t *testing.T, s *testServer) {
	const ns = "delete-pools"
	people, own := s.client(t, jane).WindowsNodePools(ns), s.client(t, controller).WindowsNodePools(ns)
	for _, pool := range []*v1alpha1.WindowsNodePool{
		newPool("empty", nil), newPool("made", map[string]string{v1alpha1.SourceAnnotation: "ConfigMap x"}), newPool("full", nil),
	} {
		if _, err := own.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	member := newInstance("a", "10.0.0.1")
	member.Spec.PoolRef = &v1alpha1.PoolReference{Name: "full"}
	mustCreate(t, s.client(t, controller).WindowsInstances(ns), member)
	// One in a pool of that name elsewhere is no member.
	mustCreate(t, s.client(t, controller).WindowsInstances(ns+"-2"), newInstance("b", "10.0.0.2"))

	refused := func(who string, pools typed.WindowsNodePoolInterface, pool, want string) {
		t.Helper()
		if err := pools.Delete(t.Context(), pool, metav1.DeleteOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("pool %s, deleted by %s: %v", pool, who, err)
		}
	}
	refused("a person", people, "full", "instance a")
	refused("the controller", own, "full", "instance a")
	refused("somebody with the account of the namespace controller", s.client(t, namespaceController).WindowsNodePools(ns), "full", "instance a")
	refused("a person", people, "made", "ConfigMap x")
	if err := people.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=full"}); !apierrors.IsConflict(err) {
		t.Errorf("collection deleted by a person: %v", err)
	}
	if err := people.Delete(t.Context(), "empty", metav1.DeleteOptions{}); err != nil {
		t.Errorf("an empty pool: %v", err)
	}
	if err := own.Delete(t.Context(), "made", metav1.DeleteOptions{}); err != nil {
		t.Errorf("an empty pool, deleted by the controller: %v", err)
	}
}

// testDeleteNamespace deletes what is in a namespace as the namespace controller does.
func testDeleteNamespace(t *testing.T, s *testServer) {
	running := &v1alpha1.Operation{ID: "abcdefgh", Type: v1alpha1.OperationRemove, Phase: v1alpha1.OperationRunning, RequestedAt: metav1.Unix(1, 0), StartedAt: &metav1.Time{Time: time.Unix(1, 0)}}
	ended := running.DeepCopy()
	ended.Phase, ended.FinishedAt = v1alpha1.OperationFailed, &metav1.Time{Time: time.Unix(2, 0)}
	for _, test := range []struct {
		name string
		user string
		// ago is how long ago the deletion of the namespace began. Zero: it did not.
		ago       time.Duration
		deleted   bool // the deletion of the instance had begun
		operation *v1alpha1.Operation
		gone      bool
	}{
		{"a host of ours", namespaceController, time.Second, false, nil, true},
		{"its deletion had begun", namespaceController, time.Second, true, nil, true},
		{"a removal runs", namespaceController, time.Second, true, running, false},
		{"a removal runs, and does not end", namespaceController, 6 * time.Minute, true, running, true},
		{"a removal has failed", namespaceController, time.Second, true, ended, true},
		{"without accounts for each controller", "system:kube-controller-manager", time.Second, false, nil, true},
		{"the namespace stays", namespaceController, 0, false, nil, false},
		{"somebody else", admin, time.Second, false, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns := "ending-" + strings.ReplaceAll(strings.NewReplacer(",", "").Replace(strings.ToLower(test.name)), " ", "-")
			own := s.client(t, controller).WindowsInstances(ns)
			instance := newInstance("a", "10.0.0.1")
			instance.Finalizers = []string{v1alpha1.HostFinalizer}
			created := mustCreate(t, own, instance)
			if test.operation != nil {
				created.Status.Operation = test.operation
				if _, err := own.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if test.deleted {
				if err := own.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if test.ago > 0 {
				s.deleted.Store(ns, time.Now().Add(-test.ago))
			}
			client := s.client(t, test.user).WindowsInstances(ns)
			if err := client.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := own.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
				t.Fatalf("after a dry run: %v", err)
			}
			if err := client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := own.Get(t.Context(), "a", metav1.GetOptions{}); apierrors.IsNotFound(err) != test.gone {
				t.Errorf("the instance: %v, want it gone: %t", err, test.gone)
			}
			if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil && !test.gone {
				t.Errorf("deleting it by its name: %v", err)
			}
		})
	}
}
