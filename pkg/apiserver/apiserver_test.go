// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	apply "github.com/openshift/windows-instance-api/pkg/generated/applyconfiguration/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/version"
)

// TestServer drives one server over HTTP. Each part has a namespace of its own.
func TestServer(t *testing.T) {
	s := newTestServer(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *testServer)
	}{
		{"discovery", testDiscovery},
		{"long-running requests", testLongRunning},
		{"openapi", testOpenAPI},
		{"objects", testObjects},
		{"invalid objects", testInvalid},
		{"status", testStatus},
		{"server-side apply", testApply},
		{"tables", testTables},
		{"field selectors", testFieldSelectors},
		{"chunks", testChunks},
		{"watch", testWatch},
		{"guards", testGuards},
		{"deletion of pools", testDeletePools},
		{"deletion of namespaces", testDeleteNamespace},
		{"actions", testActions},
		{"logs", testLogs},
		{"follow", testFollow},
		{"pools", testPools},
		{"no taints", testNoTaints},
		{"operations are written as a whole", testOperationIsWhole},
		{"durations", testDurations},
		{"scale", testScale},
		{"credentials", testCredentials},
		{"exec", testExec},
		{"port forward", testPortForward},
		{"who may open sessions", testSessionAuthorization},
		{"session limits", testSessionLimits},
		{"session recording", testSessionRecording},
		{"drain", testDrain}, // the last: no stream is admitted afterwards
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, s) })
	}
}

func testDiscovery(t *testing.T, s *testServer) {
	var list metav1.APIResourceList
	s.do(t, http.MethodGet, groupPath, "").into(t, &list)
	standard := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	want := map[string]metav1.APIResource{
		"windowsinstances":             {SingularName: "windowsinstance", Namespaced: true, Kind: "WindowsInstance", Verbs: standard, ShortNames: []string{"wi"}, Categories: []string{"windows"}},
		"windowsinstances/status":      {Namespaced: true, Kind: "WindowsInstance", Verbs: []string{"get", "patch", "update"}},
		"windowsinstances/log":         {Namespaced: true, Kind: "WindowsInstance", Verbs: []string{"get"}},
		"windowsinstances/logs":        {Namespaced: true, Kind: "WindowsInstance", Verbs: []string{"get"}},
		"windowsinstances/exec":        {Namespaced: true, Kind: "WindowsInstanceExecOptions", Verbs: []string{"create", "get"}},
		"windowsinstances/portforward": {Namespaced: true, Kind: "WindowsInstancePortForwardOptions", Verbs: []string{"create", "get"}},
		"windowsinstances/drain":       {Namespaced: true, Kind: "WindowsInstanceDrain", Verbs: []string{"create"}},
		"windowsinstances/uncordon":    {Namespaced: true, Kind: "WindowsInstanceUncordon", Verbs: []string{"create"}},
		"windowsinstances/reboot":      {Namespaced: true, Kind: "WindowsInstanceReboot", Verbs: []string{"create"}},
		"windowsinstances/release":     {Namespaced: true, Kind: "WindowsInstanceRelease", Verbs: []string{"create"}},
		"windowsinstances/adopt":       {Namespaced: true, Kind: "WindowsInstanceAdopt", Verbs: []string{"create"}},
		"windowsinstances/reconfigure": {Namespaced: true, Kind: "WindowsInstanceReconfigure", Verbs: []string{"create"}},
		"windowsinstances/cancel":      {Namespaced: true, Kind: "WindowsInstanceCancel", Verbs: []string{"create"}},
		"windowsinstances/check":       {Namespaced: true, Kind: "WindowsInstanceCheck", Verbs: []string{"create"}},
		"windowsinstances/inspect":     {Namespaced: true, Kind: "WindowsInstanceInspection", Verbs: []string{"get"}},
		"windowsnodepools":             {SingularName: "windowsnodepool", Namespaced: true, Kind: "WindowsNodePool", Verbs: standard, ShortNames: []string{"wnp"}, Categories: []string{"windows"}},
		"windowsnodepools/scale":       {Group: "autoscaling", Version: "v1", Namespaced: true, Kind: "Scale", Verbs: []string{"get", "patch", "update"}},
		"windowsnodepools/status":      {Namespaced: true, Kind: "WindowsNodePool", Verbs: []string{"get", "patch", "update"}},
	}
	got := map[string]metav1.APIResource{}
	for _, r := range list.APIResources {
		name := r.Name
		r.Name, r.StorageVersionHash = "", ""
		got[name] = r
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources differ (-want +got):\n%s", diff)
	}
	var group metav1.APIGroup
	s.do(t, http.MethodGet, "/apis/windows.openshift.io", "").into(t, &group)
	if group.PreferredVersion.Version != "v1alpha1" {
		t.Errorf("the preferred version is %v", group.PreferredVersion)
	}
}

// testLongRunning finds streaming subresources that the server would cut.
func testLongRunning(t *testing.T, s *testServer) {
	var list metav1.APIResourceList
	s.do(t, http.MethodGet, groupPath, "").into(t, &list)
	for _, r := range list.APIResources {
		resource, subresource, _ := strings.Cut(r.Name, "/")
		info := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "get", Resource: resource, Subresource: subresource}
		want := slices.Contains([]string{"log", "logs", "exec", "portforward"}, subresource)
		if got := s.config.Generic.LongRunningFunc(&http.Request{}, info); got != want {
			t.Errorf("get %s may run for ever: %v, want %v", r.Name, got, want)
		}
	}
	if !s.config.Generic.LongRunningFunc(&http.Request{}, &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "watch", Resource: "windowsinstances"}) {
		t.Error("a watch may not run for ever")
	}
}

func testOpenAPI(t *testing.T, s *testServer) {
	v3 := s.do(t, http.MethodGet, "/openapi/v3"+groupPath, "")
	if v3.code != http.StatusOK {
		t.Fatalf("v3: code %d: %s", v3.code, v3.body)
	}
	for _, part := range []string{
		groupPath + "/namespaces/{namespace}/windowsinstances/{name}/log", `"case-sensitive"`,
		"com.github.openshift.windows-instance-api.pkg.apis.windows.v1alpha1.WindowsNodePool",
		`"x-kubernetes-group-version-kind"`, "TCP port of the SSH server",
		`"version":"` + version.Version + `"`, // which kubectl windows version tells
	} {
		if !strings.Contains(v3.body, part) {
			t.Errorf("v3 does not mention %s", part)
		}
	}
	v2 := s.do(t, http.MethodGet, "/openapi/v2", "")
	if v2.code != http.StatusOK || !strings.Contains(v2.body, "Windows instances") {
		t.Errorf("v2: code %d", v2.code)
	}
}

func testObjects(t *testing.T, s *testServer) {
	client := s.client(t, jane).WindowsInstances("objects")
	created := mustCreate(t, client, &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1", Generation: 7},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.0.0.1"},
		Status:     v1alpha1.WindowsInstanceStatus{Phase: v1alpha1.InstanceReady},
	})
	if created.Spec.Port != 22 || created.Spec.Username != "Administrator" {
		t.Errorf("without defaults: %+v", created.Spec)
	}
	if created.Generation != 1 || created.Status.Phase != "" {
		t.Errorf("generation %d, phase %q", created.Generation, created.Status.Phase)
	}
	if _, err := client.Create(t.Context(), newInstance("10.0.0.1", "10.0.0.1"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second time: %v", err)
	}

	changed := created.DeepCopy()
	changed.Spec.Paused = true
	updated, err := client.Update(t.Context(), changed, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if updated.Generation != 2 {
		t.Errorf("the generation is %d", updated.Generation)
	}
	changed.Spec.Paused = false // on top of the old version
	if _, err := client.Update(t.Context(), changed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("with an old resourceVersion: %v", err)
	}
	changed.ResourceVersion = ""
	if _, err := client.Update(t.Context(), changed, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("without a resourceVersion: %v", err)
	}
	if _, err := client.Update(t.Context(), newInstance("other", "10.0.0.1"), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("update of what is not there: %v", err)
	}
	if _, err := client.Patch(t.Context(), "10.0.0.1", types.MergePatchType, []byte(`{"spec":{"port":2222}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	got, err := client.Get(t.Context(), "10.0.0.1", metav1.GetOptions{})
	if err != nil || got.Spec.Port != 2222 || !got.Spec.Paused {
		t.Errorf("got %+v, %v", got.Spec, err)
	}
	dry := newInstance("dry", "10.0.0.1")
	if _, err := client.Create(t.Context(), dry, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if _, err := client.Get(t.Context(), "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run: %v", err)
	}
	if err := client.Delete(t.Context(), "10.0.0.1", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if err := client.Delete(t.Context(), "10.0.0.1", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleted twice: %v", err)
	}
	protobuf := s.do(t, http.MethodGet, groupPath+"/namespaces/objects/windowsinstances", "", "Accept", "application/vnd.kubernetes.protobuf")
	if protobuf.code != http.StatusNotAcceptable {
		t.Errorf("protobuf is answered with %d", protobuf.code)
	}
	// As the namespace controller asks; see withoutProtobuf.
	preferred := s.do(t, http.MethodDelete, groupPath+"/namespaces/objects/windowsinstances", "", "Accept", "application/vnd.kubernetes.protobuf,application/json")
	if preferred.code != http.StatusOK {
		t.Errorf("protobuf or JSON is answered with %d: %s", preferred.code, preferred.body)
	}
}

func testInvalid(t *testing.T, s *testServer) {
	path := groupPath + "/namespaces/invalid/"
	for _, test := range []struct {
		name, resource, body string
		code                 int
		want                 []string
	}{
		{"no address", "windowsinstances", `{"metadata":{"name":"a"},"spec":{}}`, 422, []string{"spec.address"}},
		{"many mistakes", "windowsinstances", `{"metadata":{"name":"A_"},"spec":{"address":"0.0.0.0","port":-1,"hostKeys":["x"],"poolRef":{}}}`, 422, []string{"metadata.name", "spec.address", "spec.hostKeys[0]", "spec.poolRef.name", "spec.port"}},
		{"no source", "windowsnodepools", `{"metadata":{"name":"a"},"spec":{"source":{}}}`, 422, []string{"spec.source"}},
		{"two sources", "windowsnodepools", `{"metadata":{"name":"a"},"spec":{"source":{"instances":{},"configMap":{"name":"x"}}}}`, 422, []string{"spec.source"}},
		{"wrong type", "windowsinstances", `{"metadata":{"name":"a"},"spec":{"address":"10.0.0.1","port":"ssh"}}`, 400, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			kind := map[string]string{"windowsinstances": "WindowsInstance", "windowsnodepools": "WindowsNodePool"}[test.resource]
			body := fmt.Sprintf(`{"apiVersion":"windows.openshift.io/v1alpha1","kind":%q,%s`, kind, strings.TrimPrefix(test.body, "{"))
			answer := s.do(t, http.MethodPost, path+test.resource, body)
			status := answer.status(t)
			if answer.code != test.code {
				t.Errorf("code %d: %s", answer.code, status.Message)
			}
			var fields []string
			if status.Details != nil {
				for _, cause := range status.Details.Causes {
					fields = append(fields, cause.Field)
				}
			}
			slices.Sort(fields)
			if diff := cmp.Diff(test.want, fields); diff != "" {
				t.Errorf("fields differ (-want +got):\n%s\n%s", diff, status.Message)
			}
		})
	}
	strict := s.do(t, http.MethodPost, path+"windowsinstances?fieldValidation=Strict", `{"apiVersion":"windows.openshift.io/v1alpha1","kind":"WindowsInstance","metadata":{"name":"a"},"spec":{"address":"10.0.0.1","address":"x"}}`)
	if strict.code != http.StatusBadRequest || !strings.Contains(strict.body, "address") {
		t.Errorf("an unknown field: code %d: %s", strict.code, strict.body)
	}
}

func testStatus(t *testing.T, s *testServer) {
	client := s.client(t, controller).WindowsInstances("status")
	created := mustCreate(t, client, newInstance("a", "10.0.0.1"))
	created.Status.Phase = v1alpha1.InstanceReady
	created.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "NodeReady", LastTransitionTime: metav1.Now()}}
	created.Spec.Paused = true
	created.Labels = map[string]string{"a": "b"}
	got, err := client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Phase != v1alpha1.InstanceReady || got.Spec.Paused || got.Labels != nil || got.Generation != 1 {
		t.Errorf("through status: got %+v", got)
	}
	got.Status.Phase = v1alpha1.InstanceFailed
	got.Spec.Paused = true
	got, err = client.Update(t.Context(), got, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Phase != v1alpha1.InstanceReady || !got.Spec.Paused {
		t.Errorf("through the object: got %+v", got)
	}
	got.Status.Conditions[0].Reason = "not a reason"
	if _, err := client.UpdateStatus(t.Context(), got, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a bad condition: %v", err)
	}
	patched, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status":{"version":"1"},"spec":{"port":1}}`), metav1.PatchOptions{}, "status")
	if err != nil || patched.Status.Version != "1" || patched.Spec.Port != 22 {
		t.Errorf("patched: %+v, %v", patched, err)
	}
	if _, err := client.UpdateStatus(t.Context(), newInstance("b", "10.0.0.1"), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("status of what is not there: %v", err)
	}
}

func testApply(t *testing.T, s *testServer) {
	client := s.client(t, admin).WindowsInstances("apply")
	instance := func(address string) *apply.WindowsInstanceApplyConfiguration {
		return apply.WindowsInstance("a", "apply").WithSpec(apply.WindowsInstanceSpec().WithAddress(address))
	}
	created, err := client.Apply(t.Context(), instance("10.0.0.1"), metav1.ApplyOptions{FieldManager: "first"})
	if err != nil || created.Spec.Address != "10.0.0.1" || created.Spec.Port != 22 || created.Generation != 1 {
		t.Fatalf("created %+v, %v", created, err)
	}
	_, err = client.Apply(t.Context(), instance("10.0.0.2"), metav1.ApplyOptions{FieldManager: "second"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), ".spec.address") || !strings.Contains(err.Error(), `"first"`) {
		t.Errorf("another manager: %v", err)
	}
	forced, err := client.Apply(t.Context(), instance("10.0.0.2"), metav1.ApplyOptions{FieldManager: "second", Force: true})
	if err != nil || forced.Spec.Address != "10.0.0.2" || forced.Generation != 2 {
		t.Errorf("by force: %+v, %v", forced, err)
	}
	again, err := client.Apply(t.Context(), instance("10.0.0.2"), metav1.ApplyOptions{FieldManager: "second", Force: true})
	if err != nil || again.ResourceVersion != forced.ResourceVersion {
		t.Errorf("the same again: resourceVersion %s after %s, %v", again.ResourceVersion, forced.ResourceVersion, err)
	}
	// A field that a request cannot set is not recorded as its own.
	withStatus := instance("10.0.0.2").WithStatus(apply.WindowsInstanceStatus().WithVersion("9"))
	got, err := client.Apply(t.Context(), withStatus, metav1.ApplyOptions{FieldManager: "third", Force: true})
	if err != nil || got.Status.Version != "" {
		t.Fatalf("status through the object: %+v, %v", got, err)
	}
	if _, err := client.ApplyStatus(t.Context(), withStatus, metav1.ApplyOptions{FieldManager: "status"}); err != nil {
		t.Errorf("status: %v", err)
	}
	got, err = client.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || got.Status.Version != "9" {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, entry := range got.ManagedFields {
		owned := entry.FieldsV1.GetRawString()
		if strings.Contains(owned, "f:status") != (entry.Manager == "status") || strings.Contains(owned, "f:spec") == (entry.Manager == "status") {
			t.Errorf("%s owns %s", entry.Manager, owned)
		}
	}
}

func testTables(t *testing.T, s *testServer) {
	client := s.client(t, jane).WindowsInstances("tables")
	mustCreate(t, client, newInstance("a", "fd00::1"))
	const accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, path := range []string{"windowsinstances", "windowsinstances/a", "windowsinstances/a/status"} {
		var table metav1.Table
		s.do(t, http.MethodGet, groupPath+"/namespaces/tables/"+path, "", "Accept", accept).into(t, &table)
		if len(table.Rows) != 1 || table.Rows[0].Cells[1] != "fd00::1" || table.ColumnDefinitions[1].Name != "Address" {
			t.Errorf("%s: got %+v", path, table)
		}
	}
}

func testFieldSelectors(t *testing.T, s *testServer) {
	client := s.client(t, controller).WindowsInstances("fields")
	a, b := newInstance("a", "10.0.0.1"), newInstance("b", "10.0.0.2")
	a.Spec.PoolRef = &v1alpha1.PoolReference{Name: "p"}
	a = mustCreate(t, client, a)
	mustCreate(t, client, b)
	a.Status.Phase, a.Status.Node = v1alpha1.InstanceReady, &v1alpha1.NodeReference{Name: "n", UID: "u"}
	if _, err := client.UpdateStatus(t.Context(), a, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		selector string
		want     []string // nil: refused
	}{
		{"spec.address=10.0.0.2", []string{"b"}},
		{"spec.poolRef.name=p", []string{"a"}},
		{"spec.poolRef.name!=p", []string{"b"}},
		{"status.node.name=n", []string{"a"}},
		{"status.phase=Ready", []string{"a"}},
		{"metadata.name=b,spec.address=10.0.0.2", []string{"b"}},
		{"spec.address=10.0.0.3", []string{}},
		{"spec.port=22", nil},
	} {
		t.Run(test.selector, func(t *testing.T) {
			list, err := client.List(t.Context(), metav1.ListOptions{FieldSelector: test.selector})
			if test.want == nil {
				if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "supported are") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, i := range list.Items {
				got = append(got, i.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("names differ (-want +got):\n%s", diff)
			}
		})
	}
}

func testChunks(t *testing.T, s *testServer) {
	client := s.client(t, jane).WindowsInstances("chunks")
	for i := range 7 {
		mustCreate(t, client, newInstance(fmt.Sprintf("i%d", i), "10.0.0.1"))
	}
	var names []string
	options := metav1.ListOptions{Limit: 3}
	for pages := 1; ; pages++ {
		list, err := client.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) > 3 {
			t.Errorf("page %d has %d items", pages, len(list.Items))
		}
		for _, i := range list.Items {
			names = append(names, i.Name)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			if pages != 3 {
				t.Errorf("there were %d pages", pages)
			}
			break
		}
	}
	if diff := cmp.Diff([]string{"i0", "i1", "i2", "i3", "i4", "i5", "i6"}, names); diff != "" {
		t.Errorf("names differ (-want +got):\n%s", diff)
	}
}

func testWatch(t *testing.T, s *testServer) {
	client := s.client(t, jane).WindowsInstances("watch")
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	created := mustCreate(t, client, newInstance("a", "10.0.0.1"))
	created.Spec.Paused = true
	if _, err := client.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event, ok := <-w.ResultChan()
		if !ok || event.Type != want {
			t.Fatalf("got %v (open: %v), want %s", event, ok, want)
		}
		if i, ok := event.Object.(*v1alpha1.WindowsInstance); !ok || i.Name != "a" {
			t.Errorf("got %+v", event.Object)
		}
	}
}

func testGuards(t *testing.T, s *testServer) {
	people, own := s.client(t, jane).WindowsInstances("guards"), s.client(t, controller).WindowsInstances("guards")
	asked := newInstance("a", "10.0.0.1")
	asked.Annotations = map[string]string{v1alpha1.SourceAnnotation: "ConfigMap windows-instances"}
	mustCreate(t, own, asked)

	if err := people.Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "ConfigMap windows-instances") {
		t.Errorf("deleted by a person: %v", err)
	}
	if err := people.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsConflict(err) {
		t.Errorf("deleted by a person, dry run: %v", err)
	}
	if err := people.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("collection deleted by a person: %v", err)
	}
	setKeys := []byte(`{"spec":{"hostKeys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJXl0Yl1n9ZeKS5YSsDF1PAI1oRCiK9qXh1n3yXkQ0k6"]}}`)
	if _, err := people.Patch(t.Context(), "a", types.MergePatchType, setKeys, metav1.PatchOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"trust" on windowshostkeys`) {
		t.Errorf("keys set by jane: %v", err)
	}
	if _, err := people.Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{"apiVersion":"windows.openshift.io/v1alpha1","kind":"WindowsInstance","metadata":{"name":"a"},`+string(setKeys[1:])), metav1.PatchOptions{FieldManager: "x"}); !apierrors.IsForbidden(err) {
		t.Errorf("keys applied by jane: %v", err)
	}
	if _, err := s.client(t, admin).WindowsInstances("guards").Patch(t.Context(), "a", types.MergePatchType, setKeys, metav1.PatchOptions{}); err != nil {
		t.Errorf("keys set by the administrator: %v", err)
	}
	if err := own.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleted by the controller: %v", err)
	}
}

func testLogs(t *testing.T, s *testServer) {
	client := s.client(t, jane).WindowsInstances("logs")
	mustKnow(t, client, newInstance("a", "10.0.0.1"))
	mustKnow(t, client, newInstance("unreachable", "10.0.0.2"))
	for _, test := range []struct {
		path    string
		accept  string
		code    int
		content string
		want    string
	}{
		{"a/log", "", 200, "text/plain; charset=utf-8", "host=10.0.0.1 queries= output=text case=true\n"},
		{"a/logs", "", 200, "text/plain; charset=utf-8", "host=10.0.0.1 queries= output=text case=true\n"},
		{"a/log", "*/*", 200, "text/plain; charset=utf-8", "host=10.0.0.1"},
		{"a/log?query=kubelet&unit=containerd&case-sensitive=false", "", 200, "text/plain; charset=utf-8", "host=10.0.0.1 queries=kubelet,containerd output=text case=false\n"},
		{"a/log?query=kubelet&output=json", "", 200, "application/json", "host=10.0.0.1 queries=kubelet output=json case=true\n"},
		{"a/log?output=yaml&tail=-1", "", 422, "application/json", "tailLines"},
		{"a/log?tail=ten", "", 400, "application/json", "ten"},
		{"b/log", "", 404, "application/json", `windowsinstances.windows.openshift.io \"b\" not found`},
		{"unreachable/log", "", 503, "application/json", "connection refused"},
	} {
		t.Run(test.path, func(t *testing.T) {
			answer := s.do(t, http.MethodGet, groupPath+"/namespaces/logs/windowsinstances/"+test.path, "", "Accept", test.accept)
			if answer.code != test.code || answer.header.Get("Content-Type") != test.content || !strings.Contains(answer.body, test.want) {
				t.Errorf("got %d, %s: %s", answer.code, answer.header.Get("Content-Type"), answer.body)
			}
			if test.code != http.StatusOK {
				answer.status(t)
			}
			if test.code == http.StatusServiceUnavailable && answer.header.Get("Retry-After") != "10" {
				t.Errorf("Retry-After is %q", answer.header.Get("Retry-After"))
			}
		})
	}
	if answer := s.do(t, http.MethodPost, groupPath+"/namespaces/logs/windowsinstances/a/log", "{}"); answer.code != http.StatusMethodNotAllowed {
		t.Errorf("POST: code %d", answer.code)
	}
}

// follow opens a log that goes on until the test ends or stop is called, and
// returns its lines.
func (s *testServer) follow(t *testing.T, path string) (lines *bufio.Scanner, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Test-User", jane)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("code %d", response.StatusCode)
	}
	return bufio.NewScanner(response.Body), cancel
}

// testFollow covers what the server does while a stream is open: each line is sent
// at once, places are counted, and given back when the client leaves.
func testFollow(t *testing.T, s *testServer) {
	mustKnow(t, s.client(t, jane).WindowsInstances("follow"), newInstance("a", "10.0.0.1"))
	path := groupPath + "/namespaces/follow/windowsinstances/a/log?query=kubelet&follow=true"
	_, stopFirst := s.follow(t, path)
	lines, stopSecond := s.follow(t, path)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "host=10.0.0.1 queries=kubelet") {
		t.Errorf("got %q, %v", lines.Text(), lines.Err())
	}
	refused := s.do(t, http.MethodGet, path, "")
	if refused.code != http.StatusTooManyRequests || refused.header.Get("Retry-After") == "" {
		t.Errorf("a third stream of the same user: %d, Retry-After %q", refused.code, refused.header.Get("Retry-After"))
	}
	refused.status(t)
	stopFirst()
	stopSecond()
	eventually(t, "the streams are no longer counted", func() bool { return s.config.Extra.Streams.Open() == 0 })
}

func testPools(t *testing.T, s *testServer) {
	client := s.client(t, controller).WindowsNodePools("pools")
	pool, err := client.Create(t.Context(), &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{MachineSet: &v1alpha1.SourceReference{Name: "winworker"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	moved := pool.DeepCopy()
	moved.Spec.Source = v1alpha1.PoolSource{ConfigMap: &v1alpha1.SourceReference{Name: "x"}}
	if _, err := client.Update(t.Context(), moved, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.source") || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("another source: %v", err)
	}
	pool.Status.ReadyReplicas, pool.Spec.Paused = 2, true
	pool, err = client.UpdateStatus(t.Context(), pool, metav1.UpdateOptions{})
	if err != nil || pool.Status.ReadyReplicas != 2 || pool.Spec.Paused {
		t.Errorf("status: %+v, %v", pool, err)
	}
	var table metav1.Table
	s.do(t, http.MethodGet, groupPath+"/namespaces/pools/windowsnodepools", "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").into(t, &table)
	if len(table.Rows) != 1 || table.Rows[0].Cells[1] != "MachineSet/winworker" {
		t.Errorf("got %+v", table.Rows)
	}
}

// testDrain stops the streams as the server does when it is told to stop.
func testDrain(t *testing.T, s *testServer) {
	mustKnow(t, s.client(t, jane).WindowsInstances("drain"), newInstance("a", "10.0.0.1"))
	path := groupPath + "/namespaces/drain/windowsinstances/a/log?query=kubelet&follow=true"
	lines, _ := s.follow(t, path)
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	session := s.sessionThatWaits(t, "drain", "a")
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drainStreams(s.config.Extra.Streams, 0, s.config.Extra.DrainTimeout)
	}()
	var rest []string
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	want := []string{"# cursor: abc", "# end: the server is shutting down; continue with the cursor above"}
	if diff := cmp.Diff(want, rest); diff != "" || lines.Err() != nil {
		t.Errorf("the end differs (-want +got):\n%s\n%v", diff, lines.Err())
	}
	<-drained
	if err := <-session; err == nil || !strings.Contains(err.Error(), "the server is shutting down") {
		t.Errorf("an exec session ended with %v", err)
	}
	if answer := s.do(t, http.MethodGet, path, ""); answer.code != http.StatusServiceUnavailable {
		t.Errorf("a new stream: code %d", answer.code)
	}
}
