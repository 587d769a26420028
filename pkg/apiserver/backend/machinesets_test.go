// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package backend

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	scaleapi "k8s.io/client-go/scale/scheme"
)

const (
	setPath   = "/apis/machine.openshift.io/v1beta1/namespaces/ns/machinesets/winworker"
	windowsMS = `{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineSet","metadata":{"name":"winworker","namespace":"ns","resourceVersion":"7",
 "managedFields":[{"manager":"someone","operation":"Update","apiVersion":"machine.openshift.io/v1beta1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{},"f:selector":{}}}}]},
 "spec":{"replicas":3,"selector":{"matchLabels":{"set":"winworker"}},"template":{"metadata":{"labels":{"machine.openshift.io/os-id":"Windows"}}}},"status":{"replicas":2}}`
	notThere  = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"machinesets.machine.openshift.io \"winworker\" not found","details":{"name":"winworker","group":"machine.openshift.io","kind":"machinesets"}}`
	forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"machinesets is forbidden: no role","details":{"name":"winworker","kind":"machinesets"}}`
	conflict  = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"message":"the object has been modified","details":{"name":"winworker","kind":"machinesets"}}`
)

// fakeCluster answers each request alike, but for those of the MachineSet itself if it has one, and keeps the last one.
type fakeCluster struct {
	code int
	body string
	// set is the MachineSet. Empty: there is nothing but body.
	set string

	request *http.Request
	sent    string
}

func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.request, c.sent = r, string(body)
	code, answer := c.code, c.body
	if c.set != "" && r.URL.Path == setPath {
		code, answer = http.StatusOK, c.set
	}
	contentType := "text/plain"
	if strings.HasPrefix(answer, "{") {
		contentType = "application/json"
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, answer)
}

func newTestMachineSets(t *testing.T, c *fakeCluster) *MachineSets {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	sets, err := NewMachineSets(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

// scaleOf is the scale of a MachineSet with two Machines.
func scaleOf(version string, replicas int32, selector *metav1.LabelSelector) *scaleapi.Scale {
	return &scaleapi.Scale{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
		Spec:       scaleapi.ScaleSpec{Replicas: replicas},
		Status:     scaleapi.ScaleStatus{Replicas: 2, Selector: selector},
	}
}

func TestMachineSetIsRead(t *testing.T) {
	c := &fakeCluster{code: 200, body: windowsMS}
	got, err := newTestMachineSets(t, c).Get(t.Context(), "ns", "winworker")
	if err != nil {
		t.Fatal(err)
	}
	want := scaleOf("7", 3, &metav1.LabelSelector{MatchLabels: map[string]string{"set": "winworker"}})
	want.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "someone", Operation: "Update", APIVersion: "autoscaling/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the scale differs (-want +got):\n%s", diff)
	}
	if c.request.URL.Path != setPath {
		t.Errorf("asked for %s", c.request.URL.Path)
	}
	c.body = strings.Replace(windowsMS, `"replicas":3,`, "", 1)
	if got, err = newTestMachineSets(t, c).Get(t.Context(), "ns", "winworker"); err != nil || got.Spec.Replicas != 1 {
		t.Errorf("without a number: got %+v, %v, want 1", got, err)
	}
}

func TestMachineSetIsScaled(t *testing.T) {
	c := &fakeCluster{code: 200, set: windowsMS, body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"winworker","resourceVersion":"8"},"spec":{"replicas":5},"status":{"replicas":2}}`}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"set": "winworker"}}
	got, err := newTestMachineSets(t, c).Update(t.Context(), "ns", "winworker", scaleOf("7", 5, selector),
		metav1.PatchOptions{FieldManager: "me", DryRun: []string{"All"}})
	if err != nil {
		t.Fatal(err)
	}
	want := scaleOf("8", 5, selector)
	want.Name = "winworker"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the scale differs (-want +got):\n%s", diff)
	}
	r := c.request
	if r.Method != http.MethodPatch || r.URL.Path != setPath+"/scale" || r.URL.Query().Get("fieldManager") != "me" || r.URL.Query().Get("dryRun") != "All" || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		t.Errorf("sent %s %s as %s", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	var sent struct {
		Metadata struct{ ResourceVersion string }
		Spec     map[string]any
	}
	if err := json.Unmarshal([]byte(c.sent), &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Metadata.ResourceVersion != "7" || len(sent.Spec) != 1 || sent.Spec["replicas"] != float64(5) {
		t.Errorf("sent %s", c.sent)
	}
}

// TestMachineSetOfAnotherAPI: a number that nobody acts on, and that is changed back, is refused with the command that has an effect. It is no conflict, with
// which kubectl would try for minutes, and then not say why.
func TestMachineSetOfAnotherAPI(t *testing.T) {
	for _, test := range []struct{ authority, says string }{
		{"", ""},
		{"MachineAPI", ""},
		{"ClusterAPI", "oc scale machinesets.cluster.x-k8s.io winworker -n openshift-cluster-api --replicas=5"},
		{"Migrating", "try again when that has ended"},
	} {
		t.Run(test.authority, func(t *testing.T) {
			c := &fakeCluster{code: 200, body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"winworker","resourceVersion":"8"},"spec":{"replicas":5}}`}
			c.set = strings.Replace(windowsMS, `"status":{`, `"status":{"authoritativeAPI":"`+test.authority+`",`, 1)
			sets := newTestMachineSets(t, c)
			if got, err := sets.Get(t.Context(), "ns", "winworker"); err != nil || got.Spec.Replicas != 3 {
				t.Errorf("read: %+v, %v", got, err)
			}
			_, err := sets.Update(t.Context(), "ns", "winworker", scaleOf("7", 5, nil), metav1.PatchOptions{})
			if test.says == "" {
				if err != nil || c.request.Method != http.MethodPatch {
					t.Errorf("it was not scaled: %s, %v", c.request.Method, err)
				}
				return
			}
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "status.authoritativeAPI is "+test.authority) {
				t.Errorf("got %v, want 403 with %q", err, test.says)
			}
			if c.request.Method != http.MethodGet {
				t.Errorf("sent %s %s", c.request.Method, c.sent)
			}
		})
	}
}

func TestMachineSetErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		code int
		body string
		want int32
		says string
	}{
		{"no Machine API", 404, "404 page not found", 404, "this cluster has no Machine API (machine.openshift.io/v1beta1)"},
		{"no MachineSet", 404, notThere, 404, `"winworker" not found`},
		{"our rights", 403, forbidden, 500, "windows-apiserver lacks rights, see artifacts/rbac"},
		{"changed", 409, conflict, 409, "modified"},
		{"of Linux", 200, strings.Replace(windowsMS, `"Windows"`, `"Linux"`, 1), 403, `the label machine.openshift.io/os-id of its template is "Linux", want "Windows"`},
		{"of nothing", 200, strings.Replace(windowsMS, `"machine.openshift.io/os-id":"Windows"`, "", 1), 403, `is ""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			sets := newTestMachineSets(t, &fakeCluster{code: test.code, body: test.body})
			check := func(err error) {
				t.Helper()
				var status apierrors.APIStatus
				if !errors.As(err, &status) || status.Status().Code != test.want || !strings.Contains(status.Status().Message, test.says) {
					t.Errorf("got %v, want code %d with %q", err, test.want, test.says)
				}
			}
			_, err := sets.Get(t.Context(), "ns", "winworker")
			check(err)
			if test.code != http.StatusOK { // what the MachineSet is of was seen before it is scaled
				_, err = sets.Update(t.Context(), "ns", "winworker", &scaleapi.Scale{}, metav1.PatchOptions{})
				check(err)
			}
		})
	}
	t.Run("kube-apiserver is gone", func(t *testing.T) {
		sets, err := NewMachineSets(&rest.Config{Host: "http://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sets.Get(t.Context(), "ns", "winworker"); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("got %v, want 503", err)
		}
	})
}
