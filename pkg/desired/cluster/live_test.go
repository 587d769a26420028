// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

func newLive(t *testing.T, objects ...client.Object) (*Live, *fakeCluster) {
	t.Helper()
	ca := authority(t)
	c := newCluster(t, ca, append(objects, clusterInfo(ca, "https://api.example.com:6443"))...)
	if err := EnsureDigestKey(t.Context(), c, namespace); err != nil {
		t.Fatal(err)
	}
	return &Live{Cluster: c, ReadPool: c.readPool, Settings: Settings{Payloads: []*payload.Manifest{manifest()}, Namespace: namespace}}, c
}

func TestLiveBuild(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "pool"}}
	pool.Spec.Template.Kubelet = &v1alpha1.KubeletTemplate{MaxPods: new(int32(77))}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "node-1"}}
	live, _ := newLive(t, pool, node)
	for _, tt := range []struct {
		name, pool string
		node       *v1alpha1.NodeReference
		pods       string
		joins      bool
	}{
		{name: "neither", pods: `"maxPods":250`, joins: true},
		{name: "both", pool: "pool", node: &v1alpha1.NodeReference{Name: "win-1", UID: "node-1"}, pods: `"maxPods":77`},
		{name: "both are gone", pool: "another", node: &v1alpha1.NodeReference{Name: "win-2", UID: "node-1"}, pods: `"maxPods":250`, joins: true},
		{name: "a Node of the same name", node: &v1alpha1.NodeReference{Name: "win-1", UID: "node-0"}, pods: `"maxPods":250`, joins: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := instance()
			host.Status.Node = tt.node
			if tt.pool != "" {
				host.Spec.PoolRef = &v1alpha1.PoolReference{Name: tt.pool}
			}
			result, joins, err := live.Build(t.Context(), host)
			if err != nil || joins != tt.joins {
				t.Fatalf("it joins: %v, want %v, %v", joins, tt.joins, err)
			}
			if _, issued := result.Bundle.Secrets[wmco.BootstrapKubeconfigPath]; issued {
				t.Error("a dry run has credentials to join with")
			}
			for _, file := range result.Bundle.Document.Files {
				if file.Path == wmco.KubeletConfigPath && !strings.Contains(*file.Source.Text, tt.pods) {
					t.Errorf("the kubelet has no %s: %s", tt.pods, *file.Source.Text)
				}
			}
		})
	}
}

// A cluster that does not answer decides nothing.
func TestLiveBuildFails(t *testing.T) {
	live, c := newLive(t)
	away := apierrors.NewServiceUnavailable("away")
	c.setDown(away)
	if _, _, err := live.Build(t.Context(), instance()); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}

// TestAdoptable: a WMCO that ended and that OLM starts again is not gone.
func TestAdoptable(t *testing.T) {
	none := int32(0)
	ended := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: wmco.Namespace, Name: wmco.Deployment}, Spec: appsv1.DeploymentSpec{Replicas: &none}}
		change(d)
		return d
	}
	const version = "oc delete clusterserviceversions.operators.coreos.com wmco.v11 -n openshift-windows-machine-config-operator"
	for name, tt := range map[string]struct {
		deployment *appsv1.Deployment
		want       string // part of the error
	}{
		"there is none": {},
		"made by hand":  {deployment: ended(func(*appsv1.Deployment) {})},
		"label of OLM":  {ended(func(d *appsv1.Deployment) { d.Labels = map[string]string{"olm.owner": "wmco.v11"} }), version},
		"owned by OLM": {ended(func(d *appsv1.Deployment) {
			d.OwnerReferences = []metav1.OwnerReference{{Kind: "ClusterServiceVersion", Name: "wmco.v11"}}
		}), version},
		"owned by other": {deployment: ended(func(d *appsv1.Deployment) { d.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "wmco"}} })},
		"by OLM's successor": {ended(func(d *appsv1.Deployment) {
			d.Labels = map[string]string{"olm.operatorframework.io/owner-name": "wmco"}
		}), "oc delete clusterextensions.olm.operatorframework.io wmco"},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tt.deployment != nil {
				objects = append(objects, tt.deployment)
			}
			live, _ := newLive(t, objects...)
			err := live.Adoptable(t.Context(), instance())
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if _, ok := errors.AsType[*InputError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			// Who uninstalls WMCO as its documentation says ends with this, and loses all that we are.
			if want := "keep the namespace"; !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	live, c := newLive(t)
	away := apierrors.NewServiceUnavailable("away")
	c.setDown(away)
	if err := live.Adoptable(t.Context(), instance()); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
	if err := EnsureNotComingBack(t.Context(), c); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}
