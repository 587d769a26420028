// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/output"
)

// api is an API server that has instances, and subresources as tests define them.
type api struct {
	t   *testing.T
	url string

	mu        sync.Mutex
	instances []*v1alpha1.WindowsInstance
	watchers  []chan *v1alpha1.WindowsInstance
	version   int
	// requests are all requests so far as "METHOD path?query", bodies their bodies.
	requests, bodies []string
	// handlers are subresources by "METHOD name".
	handlers map[string]http.HandlerFunc
}

const apiPrefix = "/apis/windows.openshift.io/v1alpha1/"

// newAPI starts a server. Its instances have the UID of their name.
func newAPI(t *testing.T, instances ...*v1alpha1.WindowsInstance) *api {
	t.Helper()
	a := &api{t: t, handlers: make(map[string]http.HandlerFunc)}
	for _, instance := range instances {
		a.put(instance)
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// instance is a host of namespace hosts whose Node is node; empty for none.
func instance(name, node string) *v1alpha1.WindowsInstance {
	i := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "hosts", UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.1.42.1", Port: 22, Username: "Administrator"},
	}
	if node != "" {
		i.Status.Node = &v1alpha1.NodeReference{Name: node}
	}
	return i
}

// put brings an instance to the desired state from now on, and tells those who watch.
func (a *api) put(instance *v1alpha1.WindowsInstance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	instance = instance.DeepCopy()
	instance.ResourceVersion = fmt.Sprint(a.version)
	instance.APIVersion, instance.Kind = v1alpha1.SchemeGroupVersion.String(), "WindowsInstance"
	i := slices.IndexFunc(a.instances, func(old *v1alpha1.WindowsInstance) bool {
		return old.Name == instance.Name && old.Namespace == instance.Namespace
	})
	if i < 0 {
		a.instances = append(a.instances, instance)
	} else {
		a.instances[i] = instance
	}
	for _, w := range a.watchers {
		w <- instance
	}
}

// handle defines a subresource.
func (a *api) handle(method, subresource string, h http.HandlerFunc) {
	a.handlers[method+" "+subresource] = h
}

// asked returns the requests so far that contain text.
func (a *api) asked(text string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []string
	for _, request := range a.requests {
		if strings.Contains(request, text) {
			found = append(found, request)
		}
	}
	return found
}

// body returns the body of the last request that contains text.
func (a *api) body(text string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, request := range slices.Backward(a.requests) {
		if strings.Contains(request, text) {
			return a.bodies[i]
		}
	}
	a.t.Errorf("there was no request %s", text)
	return ""
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, upgrade := []byte(nil), r.Header.Get("Upgrade") != ""
	if !upgrade {
		body, _ = io.ReadAll(r.Body) // a body that breaks off is not what is tested
	}
	a.mu.Lock()
	a.requests = append(a.requests, r.Method+" "+r.URL.RequestURI())
	a.bodies = append(a.bodies, string(body))
	a.mu.Unlock()
	path := strings.Split(strings.TrimPrefix(r.URL.Path, apiPrefix), "/")
	if len(path) > 1 && path[0] == "namespaces" && strings.HasPrefix(r.URL.Path, apiPrefix) {
		r.SetPathValue("namespace", path[1])
		path = path[2:]
	}
	switch {
	case !strings.HasPrefix(r.URL.Path, apiPrefix):
		if h := a.handlers[r.Method+" "+r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "", "the server could not find the requested resource")
	case len(path) == 1 && path[0] == instancesResource:
		a.list(w, r)
	case len(path) == 2 && path[0] == instancesResource:
		a.one(w, r, path[1])
	case len(path) == 3 && path[0] == instancesResource && a.handlers[r.Method+" "+path[2]] != nil:
		r.SetPathValue("name", path[1])
		a.handlers[r.Method+" "+path[2]](w, r)
	case a.handlers[r.Method+" "+path[0]] != nil:
		a.handlers[r.Method+" "+path[0]](w, r)
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "", "the server could not find the requested resource")
	}
}

func (a *api) one(w http.ResponseWriter, r *http.Request, name string) {
	if h := a.handlers[r.Method+" instance"]; h != nil {
		h(w, r)
		return
	}
	a.mu.Lock()
	i := slices.IndexFunc(a.instances, func(i *v1alpha1.WindowsInstance) bool {
		return i.Name == name && i.Namespace == r.PathValue("namespace")
	})
	var found *v1alpha1.WindowsInstance
	if i >= 0 {
		found = a.instances[i]
	}
	a.mu.Unlock()
	if found == nil {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, name, fmt.Sprintf("windowsinstances.windows.openshift.io %q not found", name))
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "as=Table") {
		answer(w, tableFor(r, found))
		return
	}
	answer(w, found)
}

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	if h := a.handlers[r.Method+" list"]; h != nil {
		h(w, r)
		return
	}
	wants := func(i *v1alpha1.WindowsInstance) bool {
		for term := range strings.SplitSeq(r.URL.Query().Get("fieldSelector"), ",") {
			field, value, _ := strings.Cut(term, "=")
			if field == "status.node.name" && nodeOf(&i.Status) != value || field == "metadata.name" && i.Name != value ||
				field == "spec.poolRef.name" && poolOf(&i.Spec) != value {
				return false
			}
		}
		ns := r.PathValue("namespace")
		return ns == "" || ns == i.Namespace
	}
	asTable := strings.Contains(r.Header.Get("Accept"), "as=Table")
	if r.URL.Query().Get("watch") != "" {
		a.watch(w, r, wants, asTable)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	list := &v1alpha1.WindowsInstanceList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstanceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(a.version)},
	}
	var rows []*v1alpha1.WindowsInstance
	for _, i := range a.instances {
		if wants(i) {
			list.Items = append(list.Items, *i)
			rows = append(rows, i)
		}
	}
	if asTable {
		t := tableFor(r, rows...)
		t.ListMeta = list.ListMeta
		answer(w, t)
		return
	}
	answer(w, list)
}

func (a *api) watch(w http.ResponseWriter, r *http.Request, wants func(*v1alpha1.WindowsInstance) bool, asTable bool) {
	events := make(chan *v1alpha1.WindowsInstance, 100)
	from := r.URL.Query().Get("resourceVersion")
	a.mu.Lock()
	a.watchers = append(a.watchers, events)
	for _, i := range a.instances {
		if i.ResourceVersion > from { // one digit each in these tests, or the same length
			events <- i
		}
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case i := <-events:
			if !wants(i) {
				continue
			}
			var object any = i
			if asTable {
				object = tableFor(r, i)
			}
			answer(w, map[string]any{"type": "MODIFIED", "object": object})
			http.NewResponseController(w).Flush()
		}
	}
}

// tableFor is a table with what the request wants in its rows.
func tableFor(r *http.Request, instances ...*v1alpha1.WindowsInstance) *metav1.Table {
	t := table(instances...)
	if r.URL.Query().Get("includeObject") == string(metav1.IncludeObject) {
		for i := range t.Rows {
			t.Rows[i].Object.Object = instances[i]
		}
	}
	return t
}

// table is what the server prints of instances.
func table(instances ...*v1alpha1.WindowsInstance) *metav1.Table {
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name"}, {Name: "Phase", Type: "string"}, {Name: "Pool", Type: "string", Priority: 1},
		},
	}
	for _, i := range instances {
		row := metav1.TableRow{Cells: []any{i.Name, orNone(string(i.Status.Phase)), poolOf(&i.Spec)}}
		row.Object.Object = &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: i.ObjectMeta}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, name, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
	if name != "" {
		status.Details = &metav1.StatusDetails{Name: name, Group: v1alpha1.GroupName, Kind: instancesResource}
	}
	answer(w, status)
}

// result is what a run of the plugin did.
type result struct {
	stdout, stderr string
	code           int
}

// run runs the plugin in namespace hosts.
func (a *api) run(args ...string) result {
	a.t.Helper()
	return a.runIn(a.t.Context(), "hosts", "", args...)
}

func (a *api) runIn(ctx context.Context, namespace, stdin string, args ...string) result {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var stdout, stderr output.Buffer
	code := Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &stdout, ErrOut: &stderr}, a.args(namespace, args...))
	return result{stdout.String(), stderr.String(), code}
}

// args adds where the server is, before what may come after two dashes.
func (a *api) args(namespace string, args ...string) []string {
	flags := []string{"--server", a.url, "--kubeconfig", os.DevNull}
	if namespace != "" {
		flags = append(flags, "-n", namespace)
	}
	return append(args[:1:1], append(flags, args[1:]...)...)
}

// want fails the test unless the run ended with code and printed all of the texts.
func (r result) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, text := range texts {
		if !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("it does not say %q", text)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout, r.stderr)
	}
}

// eventually polls a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}
