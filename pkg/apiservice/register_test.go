// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiservice

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// applying is a cluster in which an object that is applied and does not exist is created.
func applying(t *testing.T) *fake.FakeDynamicClient {
	t.Helper()
	client := newCluster()
	client.PrependReactor("patch", Resource.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := action.(clienttesting.PatchAction)
		if !ok || patch.GetPatchType() != types.ApplyPatchType {
			return false, nil, nil
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(patch.GetPatch(), &object.Object); err != nil {
			return true, nil, err
		}
		return true, object, client.Tracker().Create(Resource, object, "")
	})
	return client
}

func registered(t *testing.T, client dynamic.Interface) *unstructured.Unstructured {
	t.Helper()
	found, err := client.Resource(Resource).Get(t.Context(), Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func caBundleOf(t *testing.T, client dynamic.Interface) string {
	t.Helper()
	encoded, _, _ := unstructured.NestedString(registered(t, client).Object, "spec", "caBundle")
	bundle, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return string(bundle)
}

// Where there is no APIService, one is made that leads here.
func TestCreate(t *testing.T) {
	client := applying(t)
	for range 2 {
		if err := Create(t.Context(), client, "ours", []byte("authority")); err != nil {
			t.Fatal(err)
		}
	}
	if found := registered(t, client); Namespace(found) != "ours" || caBundleOf(t, client) != "authority" || len(found.GetAnnotations()) != 0 {
		t.Errorf("%v", found)
	}
}

// OpenShift's service CA knows what verifies a certificate that it has made.
func TestCreateInjected(t *testing.T) {
	client := applying(t)
	if err := Create(t.Context(), client, "ours", nil); err != nil {
		t.Fatal(err)
	}
	if found := registered(t, client); caBundleOf(t, client) != "" || found.GetAnnotations()["service.beta.openshift.io/inject-cabundle"] != "true" {
		t.Errorf("%v", found)
	}
}

// What leads to another installation is left as it is, and so is what somebody else has written.
func TestOfOthers(t *testing.T) {
	client := applying(t)
	if _, err := client.Resource(Resource).Create(t.Context(), leadingTo("theirs"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var elsewhere *ElsewhereError
	if err := Create(t.Context(), client, "ours", []byte("authority")); !errors.As(err, &elsewhere) || elsewhere.Namespace != "theirs" {
		t.Error(err)
	}
	if already, err := Trust(t.Context(), client, "ours", []byte("authority")); !already || err != nil {
		t.Errorf("%t, %v", already, err)
	}
	if bundle := caBundleOf(t, client); bundle != "" {
		t.Error(bundle)
	}
}

// A bundle is written when there is another one, or when another authority would write its own.
func TestTrust(t *testing.T) {
	client := applying(t)
	trust := func(bundle string, want bool) {
		t.Helper()
		if already, err := Trust(t.Context(), client, "ours", []byte(bundle)); already != want || err != nil {
			t.Errorf("%s: %t, %v", bundle, already, err)
		}
	}
	trust("first", true) // nobody asks
	if err := Create(t.Context(), client, "ours", nil); err != nil {
		t.Fatal(err)
	}
	trust("first", false)
	trust("first", true)
	trust("second", false)
	if found := registered(t, client); Namespace(found) != "ours" || caBundleOf(t, client) != "second" || len(found.GetAnnotations()) != 0 {
		t.Errorf("%v", found)
	}
	patches := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "patch" {
			patches++
		}
	}
	if patches != 3 {
		t.Errorf("%d patches", patches)
	}
}

// TestCreateDelegates: an installation that had an authority of its own, and has its certificate from the service CA now, has that
// say what verifies it. What an administrator or another program wrote stays.
func TestCreateDelegates(t *testing.T) {
	testDelegates(t, func(client dynamic.Interface) error { return Create(t.Context(), client, "ours", nil) })
}

// TestDelegate: a server of the former release, which is there for a while longer, does not have the last word. One of another namespace is left alone.
func TestDelegate(t *testing.T) {
	testDelegates(t, func(client dynamic.Interface) error {
		if err := Delegate(t.Context(), client, "theirs"); err != nil || caBundleOf(t, client) == "" {
			t.Errorf("that of another installation: %v, bundle %q", err, caBundleOf(t, client))
		}
		return Delegate(t.Context(), client, "ours")
	})
	if err := Delegate(t.Context(), applying(t), "ours"); err != nil {
		t.Errorf("without an APIService: %v", err)
	}
}

func testDelegates(t *testing.T, delegate func(dynamic.Interface) error) {
	t.Helper()
	for manager, ours := range map[string]bool{"windows-apiserver": true, "windows-apiserver.ours": true, "kubectl-edit": false} {
		client := applying(t)
		if err := Create(t.Context(), client, "ours", []byte("authority")); err != nil {
			t.Fatal(err)
		}
		found := registered(t, client)
		found.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:caBundle":{}}}`)}})
		if err := client.Tracker().Update(Resource, found, ""); err != nil {
			t.Fatal(err)
		}
		if err := delegate(client); err != nil {
			t.Fatal(err)
		}
		found = registered(t, client)
		if delegated := found.GetAnnotations()[injectAnnotation] == "true" && caBundleOf(t, client) == ""; delegated != ours {
			t.Errorf("written by %s: %v", manager, found)
		}
	}
}
