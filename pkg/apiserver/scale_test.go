// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	scaleapi "k8s.io/client-go/scale/scheme"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// scaleChange is a change of the replicas that reached the MachineSet.
type scaleChange struct {
	Replicas     int32
	FieldManager string
	DryRun       []string
}

// scriptedMachineSets is a Machine API with one MachineSet, winworker.
type scriptedMachineSets struct {
	mu      sync.Mutex
	scale   scaleapi.Scale
	changes []scaleChange
	// interfere is how many updates come too late, as somebody else was first.
	interfere int
}

func (s *scriptedMachineSets) reset(replicas int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scale = scaleapi.Scale{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: "100", ManagedFields: replicasOf("me")},
		Spec:       scaleapi.ScaleSpec{Replicas: replicas},
		Status:     scaleapi.ScaleStatus{Replicas: 2, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"set": "winworker"}}},
	}
	s.changes, s.interfere = nil, 0
}

func (s *scriptedMachineSets) Get(_ context.Context, namespace, name string) (*scaleapi.Scale, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if namespace != "default" || name != "winworker" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "machine.openshift.io", Resource: "machinesets"}, name)
	}
	scale := s.scale
	return &scale, nil
}

func (s *scriptedMachineSets) Update(_ context.Context, _, _ string, change *scaleapi.Scale, options metav1.PatchOptions) (*scaleapi.Scale, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, err := strconv.Atoi(s.scale.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if s.interfere > 0 {
		s.interfere--
		version++
		s.scale.ResourceVersion = strconv.Itoa(version)
	}
	if change.ResourceVersion != s.scale.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: "machine.openshift.io", Resource: "machinesets"}, "winworker", fmt.Errorf("it has changed"))
	}
	s.changes = append(s.changes, scaleChange{change.Spec.Replicas, options.FieldManager, options.DryRun})
	updated := s.scale
	updated.Spec.Replicas = change.Spec.Replicas
	updated.ManagedFields = replicasOf(options.FieldManager)
	if len(options.DryRun) == 0 {
		updated.ResourceVersion = strconv.Itoa(version + 1)
		s.scale = updated
	}
	return &updated, nil
}

// replicasOf says whose the replicas are, as kube-apiserver records it.
func replicasOf(manager string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "autoscaling/v1", Subresource: "scale",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
	}}
}

// testScale scales a pool in every way that HTTP has.
func testScale(t *testing.T, s *testServer) {
	sets := s.config.Extra.MachineSets.(*scriptedMachineSets)
	pools := s.client(t, jane).WindowsNodePools("default")
	uids := map[string]string{}
	for name, source := range map[string]v1alpha1.PoolSource{
		"scaled":    {MachineSet: &v1alpha1.SourceReference{Name: "winworker"}},
		"orphan":    {MachineSet: &v1alpha1.SourceReference{Name: "gone"}},
		"entries":   {ConfigMap: &v1alpha1.SourceReference{Name: "windows-instances"}},
		"hand-made": {Instances: &v1alpha1.InstancesSource{}},
	} {
		pool, err := pools.Create(t.Context(), &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.WindowsNodePoolSpec{Source: source}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		uids[name] = string(pool.UID)
		t.Cleanup(func() {
			if err := pools.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	path := func(pool string) string { return groupPath + "/namespaces/default/windowsnodepools/" + pool + "/scale" }
	body := func(metadata, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"scaled","namespace":"default"%s},"spec":{%s}}`, metadata, spec)
	}
	const merge, jsonPatch, apply = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"

	t.Run("get", func(t *testing.T) {
		sets.reset(3)
		var scale autoscalingv1.Scale
		s.do(t, http.MethodGet, path("scaled"), "").into(t, &scale)
		if scale.CreationTimestamp.IsZero() {
			t.Error("it has no age")
		}
		want := autoscalingv1.Scale{
			TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
			ObjectMeta: metav1.ObjectMeta{Name: "scaled", Namespace: "default", UID: scale.UID, ResourceVersion: "100", CreationTimestamp: scale.CreationTimestamp, ManagedFields: replicasOf("me")},
			Spec:       autoscalingv1.ScaleSpec{Replicas: 3},
			Status:     autoscalingv1.ScaleStatus{Replicas: 2, Selector: "set=winworker"},
		}
		if diff := cmp.Diff(want, scale); diff != "" || string(scale.UID) != uids["scaled"] {
			t.Errorf("the scale differs (-want +got):\n%s", diff)
		}
	})
	for _, test := range []struct {
		name         string
		method, path string
		mediaType    string
		body         string
		interfere    int
		code         int
		message      string       // in the Status; empty: success
		want         *scaleChange // what reached the MachineSet
	}{
		{"put", http.MethodPut, path("scaled") + "?fieldManager=me", "", body(`,"resourceVersion":"100"`, `"replicas":5`), 0, 200, "", &scaleChange{Replicas: 5, FieldManager: "me"}},
		{"put by nobody in particular", http.MethodPut, path("scaled"), "", body(`,"resourceVersion":"100"`, `"replicas":5`), 0, 200, "", &scaleChange{Replicas: 5, FieldManager: "Go-http-client"}},
		{"put with the UID", http.MethodPut, path("scaled") + "?fieldManager=me", "", body(fmt.Sprintf(`,"uid":%q`, uids["scaled"]), `"replicas":5`), 0, 200, "", &scaleChange{Replicas: 5, FieldManager: "me"}},
		{"put to nothing", http.MethodPut, path("scaled") + "?fieldManager=me", "", body("", `"replicas":0`), 0, 200, "", &scaleChange{FieldManager: "me"}},
		{"put, dry run", http.MethodPut, path("scaled") + "?fieldManager=me&dryRun=All", "", body("", `"replicas":5`), 0, 200, "", &scaleChange{Replicas: 5, FieldManager: "me", DryRun: []string{"All"}}},
		{"put whatever it is, against somebody else", http.MethodPut, path("scaled") + "?fieldManager=me", "", body("", `"replicas":5`), 2, 200, "", &scaleChange{Replicas: 5, FieldManager: "me"}},
		{"put, too late", http.MethodPut, path("scaled"), "", body(`,"resourceVersion":"99"`, `"replicas":5`), 0, 409, "has been changed", nil},
		{"put, overtaken", http.MethodPut, path("scaled"), "", body(`,"resourceVersion":"100"`, `"replicas":5`), 1, 409, "has been changed", nil},
		{"put against somebody who never stops", http.MethodPut, path("scaled"), "", body("", `"replicas":5`), 99, 409, `scaling WindowsNodePool "scaled" by MachineSet default/winworker`, nil},
		{"put of another pool", http.MethodPut, path("scaled"), "", body(`,"uid":"other"`, `"replicas":5`), 0, 409, "UID other", nil},
		{"put less than none", http.MethodPut, path("scaled"), "", body("", `"replicas":-1`), 0, 422, "spec.replicas", nil},
		{"put of another name", http.MethodPut, path("scaled"), "", strings.Replace(body("", `"replicas":1`), `"scaled"`, `"x"`, 1), 0, 400, "does not match", nil},
		{"put of another kind", http.MethodPut, path("scaled"), "", `{"apiVersion":"windows.openshift.io/v1alpha1","kind":"WindowsNodePool","metadata":{"name":"scaled"}}`, 0, 400, "", nil},
		{"merge patch", http.MethodPatch, path("scaled") + "?fieldManager=me", merge, `{"spec":{"replicas":7}}`, 0, 200, "", &scaleChange{Replicas: 7, FieldManager: "me"}},
		{"merge patch against somebody else", http.MethodPatch, path("scaled") + "?fieldManager=me", merge, `{"spec":{"replicas":7}}`, 2, 200, "", &scaleChange{Replicas: 7, FieldManager: "me"}},
		{"merge patch, too late", http.MethodPatch, path("scaled"), merge, `{"metadata":{"resourceVersion":"1"},"spec":{"replicas":7}}`, 0, 409, "has been changed", nil},
		{"JSON patch", http.MethodPatch, path("scaled") + "?fieldManager=me", jsonPatch, `[{"op":"test","path":"/spec/replicas","value":3},{"op":"replace","path":"/spec/replicas","value":4}]`, 0, 200, "", &scaleChange{Replicas: 4, FieldManager: "me"}},
		{"apply", http.MethodPatch, path("scaled") + "?fieldManager=me", apply, body("", `"replicas":6`), 0, 200, "", &scaleChange{Replicas: 6, FieldManager: "me"}},
		{"MachineSet is missing", http.MethodPut, path("orphan"), "", strings.Replace(body("", `"replicas":1`), `"scaled"`, `"orphan"`, 1), 0, 404, `"gone" not found`, nil},
		{"MachineSet is missing, get", http.MethodGet, path("orphan"), "", "", 0, 404, `scaling WindowsNodePool "orphan" by MachineSet default/gone`, nil},
		{"pool is missing", http.MethodGet, path("nope"), "", "", 0, 404, `"nope" not found`, nil},
		{"pool is missing, apply", http.MethodPatch, path("nope") + "?fieldManager=me", apply, strings.Replace(body("", `"replicas":6`), `"scaled"`, `"nope"`, 1), 0, 404, `"nope" not found`, nil},
		{"ConfigMap", http.MethodGet, path("entries"), "", "", 0, 405, "entries of ConfigMap default/windows-instances: add or remove entries there", nil},
		{"ConfigMap, patch", http.MethodPatch, path("entries"), merge, `{"spec":{"replicas":7}}`, 0, 405, "entries of ConfigMap", nil},
		{"made by hand", http.MethodGet, path("hand-made"), "", "", 0, 405, "create or delete those that name the pool in spec.poolRef", nil},
		{"create", http.MethodPost, path("scaled"), "", body("", `"replicas":1`), 0, 405, "", nil},
		{"delete", http.MethodDelete, path("scaled"), "", "", 0, 405, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			sets.reset(3)
			sets.interfere = test.interfere
			var header []string
			if test.mediaType != "" {
				header = []string{"Content-Type", test.mediaType}
			}
			got := s.do(t, test.method, test.path, test.body, header...)
			if got.code != test.code {
				t.Fatalf("got code %d, want %d: %s", got.code, test.code, got.body)
			}
			var want []scaleChange
			if test.want != nil {
				want = append(want, *test.want)
			}
			if diff := cmp.Diff(want, sets.changes); diff != "" {
				t.Errorf("changes of the MachineSet differ (-want +got):\n%s", diff)
			}
			if test.code != 200 {
				if status := got.status(t); !strings.Contains(status.Message, test.message) {
					t.Errorf("the message is %q, want %q", status.Message, test.message)
				}
				return
			}
			var scale autoscalingv1.Scale
			got.into(t, &scale)
			if scale.Spec.Replicas != test.want.Replicas || scale.Status.Selector != "set=winworker" || string(scale.UID) != uids["scaled"] {
				t.Errorf("the answer is %s", got.body)
			}
		})
	}
	t.Run("apply what somebody else has set", func(t *testing.T) {
		sets.reset(3)
		s.do(t, http.MethodPut, path("scaled")+"?fieldManager=autoscaler", body("", `"replicas":4`)).into(t, &autoscalingv1.Scale{})
		got := s.do(t, http.MethodPatch, path("scaled")+"?fieldManager=me", body("", `"replicas":6`), "Content-Type", apply)
		if status := got.status(t); got.code != 409 || !strings.Contains(status.Message, "autoscaler") {
			t.Errorf("code %d: %s", got.code, status.Message)
		}
		var scale autoscalingv1.Scale
		s.do(t, http.MethodPatch, path("scaled")+"?fieldManager=me&force=true", body("", `"replicas":6`), "Content-Type", apply).into(t, &scale)
		if scale.Spec.Replicas != 6 {
			t.Errorf("there are %d", scale.Spec.Replicas)
		}
		// Now it is mine, and I may change it.
		s.do(t, http.MethodPatch, path("scaled")+"?fieldManager=me", body("", `"replicas":8`), "Content-Type", apply).into(t, &scale)
		if scale.Spec.Replicas != 8 {
			t.Errorf("there are %d", scale.Spec.Replicas)
		}
	})
	t.Run("typed client", func(t *testing.T) {
		sets.reset(3)
		scale, err := pools.GetScale(t.Context(), "scaled", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		scale.Spec.Replicas++
		if scale, err = pools.UpdateScale(t.Context(), "scaled", scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 4 {
			t.Fatalf("got %v, %v", scale, err)
		}
	})
	t.Run("table", func(t *testing.T) {
		sets.reset(3)
		var table metav1.Table
		s.do(t, http.MethodGet, path("scaled"), "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").into(t, &table)
		if len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
			t.Fatalf("got %+v", table)
		}
		if diff := cmp.Diff([]any{"scaled", float64(3), float64(2)}, table.Rows[0].Cells[:3]); diff != "" {
			t.Errorf("cells differ (-want +got):\n%s", diff)
		}
	})
}

// testCredentials sets credentials through every way that writes.
func testCredentials(t *testing.T, s *testServer) {
	instances, pools := groupPath+"/namespaces/default/windowsinstances", groupPath+"/namespaces/default/windowsnodepools"
	const apply = "application/apply-patch+yaml"
	object := func(kind, name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"windows.openshift.io/v1alpha1","kind":%q,"metadata":{"name":%q},"spec":{%s}}`, kind, name, spec)
	}
	secret := `"credentialsSecretRef":{"name":"s"}`
	s.do(t, http.MethodPost, pools, object("WindowsNodePool", "with", `"source":{"instances":{}},"template":{`+secret+`}`)).into(t, &v1alpha1.WindowsNodePool{})
	s.do(t, http.MethodPost, instances, object("WindowsInstance", "there", `"address":"10.0.0.1"`)).into(t, &v1alpha1.WindowsInstance{})
	const cluster, ofSecret = `windowscredentials.windows.openshift.io "cluster" in namespace "default"`, `get on secrets "s" in namespace "default"`
	for _, test := range []struct {
		name               string
		method, path, body string
		mediaType          string
		want               string // the right that is missing; empty: allowed
	}{
		{"create an instance", http.MethodPost, instances, object("WindowsInstance", "w", `"address":"10.0.0.2"`), "", cluster},
		{"create an instance, dry run", http.MethodPost, instances + "?dryRun=All", object("WindowsInstance", "w", `"address":"10.0.0.2"`), "", cluster},
		{"create an instance by apply", http.MethodPatch, instances + "/w?fieldManager=m", object("WindowsInstance", "w", `"address":"10.0.0.2"`), apply, cluster},
		{"create an instance with a Secret", http.MethodPost, instances, object("WindowsInstance", "w", `"address":"10.0.0.2",`+secret), "", ofSecret},
		{"create an instance with a Secret by apply", http.MethodPatch, instances + "/w?fieldManager=m", object("WindowsInstance", "w", `"address":"10.0.0.2",`+secret), apply, ofSecret},
		{"create an instance of a pool with a Secret", http.MethodPost, instances, object("WindowsInstance", "w", `"address":"10.0.0.2","poolRef":{"name":"with"}`), "", ofSecret},
		{"change the address", http.MethodPatch, instances + "/there", `{"spec":{"address":"10.0.0.2"}}`, "application/merge-patch+json", cluster},
		{"change the address by apply", http.MethodPatch, instances + "/there?fieldManager=m&force=true", object("WindowsInstance", "there", `"address":"10.0.0.2"`), apply, cluster},
		{"change something else", http.MethodPatch, instances + "/there", `{"spec":{"paused":true}}`, "application/merge-patch+json", ""},
		{"create a pool", http.MethodPost, pools, object("WindowsNodePool", "p", `"source":{"instances":{}}`), "", cluster},
		{"create a pool by apply", http.MethodPatch, pools + "/p?fieldManager=m", object("WindowsNodePool", "p", `"source":{"instances":{}}`), apply, cluster},
		{"create a pool with a Secret", http.MethodPost, pools, object("WindowsNodePool", "p", `"source":{"instances":{}},"template":{`+secret+`}`), "", ofSecret},
		{"take the Secret off a pool", http.MethodPatch, pools + "/with", `{"spec":{"template":{"credentialsSecretRef":null}}}`, "application/merge-patch+json", cluster},
		{"pause a pool", http.MethodPatch, pools + "/with", `{"spec":{"paused":true}}`, "application/merge-patch+json", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := []string{"X-Test-User", mallory}
			if test.mediaType != "" {
				header = append(header, "Content-Type", test.mediaType)
			}
			got := s.do(t, test.method, test.path, test.body, header...)
			if test.want == "" {
				if got.code != http.StatusOK {
					t.Fatalf("code %d: %s", got.code, got.body)
				}
				return
			}
			if status := got.status(t); got.code != http.StatusForbidden || !strings.Contains(status.Message, test.want) {
				t.Errorf("code %d: %s", got.code, status.Message)
			}
		})
	}
}
