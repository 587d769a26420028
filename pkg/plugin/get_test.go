// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/output"
)

// elsewhere is an instance of another namespace.
func elsewhere(i *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	i.Namespace = "other"
	return i
}

// inPool is an instance of a pool.
func inPool(i *v1alpha1.WindowsInstance, pool string) *v1alpha1.WindowsInstance {
	i.Spec.PoolRef = &v1alpha1.PoolReference{Name: pool}
	return i
}

func TestGet(t *testing.T) {
	columns := filepath.Join(t.TempDir(), "columns")
	if err := os.WriteFile(columns, []byte("HOST ADDRESS\n.metadata.name .spec.address\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	racked := inPool(instance("w1", "node-1"), "a")
	racked.Labels = map[string]string{"rack": "r1"}
	a := newAPI(t,
		racked, inPool(instance("w2", ""), "b"),
		elsewhere(instance("w3", "node-3")), elsewhere(instance("w4", "node-4")), instance("w5", "node-4"))
	for _, tc := range []struct {
		name, namespace string
		args            []string
		code            int
		want, not       []string
	}{
		{name: "table", namespace: "hosts", args: []string{"get"}, want: []string{"NAME", "PHASE", "w1", "w2", "w5"}, not: []string{"POOL", "w3", "NAMESPACE"}},
		{name: "wide", namespace: "hosts", args: []string{"get", "-o", "wide"}, want: []string{"POOL"}},
		{name: "all namespaces", namespace: "hosts", args: []string{"get", "-A"}, want: []string{"NAMESPACE", "hosts", "other", "w3"}},
		{name: "no headers", namespace: "hosts", args: []string{"get", "--no-headers"}, want: []string{"w1"}, not: []string{"NAME"}},
		{name: "pool", namespace: "hosts", args: []string{"get", "--pool", "b"}, want: []string{"w2"}, not: []string{"w1", "w5"}},
		{name: "names", namespace: "hosts", args: []string{"get", "w2", "w1", "-o", "name"}, want: []string{"windowsinstance.windows.openshift.io/w2\nwindowsinstance.windows.openshift.io/w1\n"}, not: []string{"w5"}},
		{name: "names in a table", namespace: "hosts", args: []string{"get", "w2", "w1"}, want: []string{"NAME   PHASE\nw2     <none>\nw1     <none>\n"}},
		{name: "JSON path", namespace: "hosts", args: []string{"get", "w1", "-o", "jsonpath={.spec.address}"}, want: []string{"10.1.42.1"}},
		{name: "custom columns", namespace: "hosts", args: []string{"get", "-o", "custom-columns=HOST:.metadata.name,POOL:.spec.poolRef.name"}, want: []string{"HOST   POOL\nw1     a\nw2     b\nw5     <none>\n"}},
		{name: "custom columns of names", namespace: "hosts", args: []string{"get", "w2", "w1", "--no-headers", "-o", "custom-columns=H:metadata.name"}, want: []string{"w2\nw1\n"}, not: []string{"H\n"}},
		{name: "custom columns of a file", namespace: "hosts", args: []string{"get", "w1", "-o", "custom-columns-file=" + columns}, want: []string{"HOST   ADDRESS\nw1     10.1.42.1\n"}},
		{name: "no columns", namespace: "hosts", args: []string{"get", "-o", "custom-columns="}, code: 1, want: []string{"no custom columns given"}},
		{name: "sorted table", args: []string{"get", "-A", "--sort-by=.status.node.name"}, want: []string{"hosts       w2     <none>\nhosts       w1     <none>\nother       w3     <none>\nother       w4     <none>\nhosts       w5     <none>\n"}},
		{name: "sorted names", namespace: "hosts", args: []string{"get", "-o", "name", "--sort-by=status.node.name"}, want: []string{"/w2\nwindowsinstance.windows.openshift.io/w1\nwindowsinstance.windows.openshift.io/w5\n"}},
		{name: "sorted, each by its name", namespace: "hosts", args: []string{"get", "w5", "w1", "w2", "--sort-by={.status.node.name}"}, want: []string{"w2     <none>\nw1     <none>\nw5     <none>\n"}},
		{name: "sorted by nothing", namespace: "hosts", args: []string{"get", "--sort-by=.spec.nope"}, code: 1, want: []string{`couldn't find any field with path "{.spec.nope}"`}},
		{name: "sorted by what has no order", namespace: "hosts", args: []string{"get", "--sort-by=.spec.poolRef"}, code: 1, want: []string{"--sort-by=.spec.poolRef: map[name:a] is neither a text nor a number"}},
		{name: "sorted by what is no path", namespace: "hosts", args: []string{"get", "--sort-by={.spec"}, code: 1, want: []string{"--sort-by={.spec: unexpected path string"}},
		{name: "kind", namespace: "hosts", args: []string{"get", "w1", "--show-kind"}, want: []string{"windowsinstance.windows.openshift.io/w1 "}},
		{name: "labels", namespace: "hosts", args: []string{"get", "w1", "--show-labels", "-L", "rack"}, want: []string{"PHASE    RACK   LABELS\nw1     <none>   r1     rack=r1\n"}},
		{name: "labels of YAML", namespace: "hosts", args: []string{"get", "--show-labels", "-o", "yaml"}, code: 1, want: []string{"--show-labels option cannot be used with yaml printer"}},
		{name: "label columns of others", namespace: "hosts", args: []string{"get", "-L", "a", "-o", "custom-columns=A:.a"}, code: 1, want: []string{"--label-columns option cannot be used with custom-columns=A:.a printer"}},
		{name: "list as YAML", namespace: "hosts", args: []string{"get", "-o", "yaml"}, want: []string{"kind: WindowsInstanceList", "name: w5"}},
		{name: "by the node", args: []string{"get", "node-3", "-o", "name"}, want: []string{"/w3"}},
		{name: "only by the node", args: []string{"get", "node/node-3", "-o", "name"}, want: []string{"/w3"}},
		{name: "not by the node", namespace: "hosts", args: []string{"get", "wi/node-1"}, code: 1, want: []string{`"node-1" not found`}},
		{name: "by the node elsewhere", namespace: "hosts", args: []string{"get", "node-3"}, code: 1, want: []string{`no Windows instance or node "node-3" in namespace hosts`}},
		{name: "ambiguous", args: []string{"get", "node-4"}, code: 1, want: []string{"node-4", "other/w4", "hosts/w5"}},
		{name: "ambiguous no more", namespace: "hosts", args: []string{"get", "node-4", "-o", "name"}, want: []string{"/w5"}},
		{name: "one of two is not there", namespace: "hosts", args: []string{"get", "w1", "nope"}, code: 1, want: []string{"w1 ", `"nope"`}},
		{name: "need not be there", namespace: "hosts", args: []string{"get", "nope", "--ignore-not-found"}},
		{name: "the instance need not be there", namespace: "hosts", args: []string{"get", "wi/nope", "--ignore-not-found"}},
		{name: "the node need not be there", namespace: "hosts", args: []string{"get", "node/nope", "w1", "--ignore-not-found"}, want: []string{"w1 "}},
		{name: "need not be there, ambiguous", args: []string{"get", "node-4", "--ignore-not-found"}, code: 1, want: []string{"other/w4"}},
		{name: "nothing there", namespace: "empty", args: []string{"get"}, want: []string{"No hosts found in namespace empty."}},
		{name: "name and selector", namespace: "hosts", args: []string{"get", "w1", "-l", "a=b"}, code: 1, want: []string{"not both"}},
		{name: "unknown format", namespace: "hosts", args: []string{"get", "-o", "nope"}, code: 1, want: []string{`output format "nope"`}},
		{name: "unknown flag", namespace: "hosts", args: []string{"get", "--nope"}, code: 1, want: []string{"unknown flag: --nope"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := a.runIn(t.Context(), tc.namespace, "", tc.args...)
			got.want(t, tc.code, tc.want...)
			for _, text := range tc.not {
				if strings.Contains(got.stdout, text) {
					t.Errorf("it says %q:\n%s", text, got.stdout)
				}
			}
		})
	}
}

// What keeps the plugin from finding out whether a host exists is an error, also when it need not.
func TestGetIgnoresNothingElse(t *testing.T) {
	for _, tc := range []struct {
		name   string
		handle http.HandlerFunc
		want   string
	}{
		{"no API group", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", http.StatusNotFound) }, "could not find the requested resource"},
		{"no API group, as a Status", func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "", "the server could not find the requested resource")
		}, "could not find the requested resource"},
		{"expired login", func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "", "Unauthorized")
		}, "Unauthorized"},
		{"defect", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "boom", http.StatusInternalServerError)
		}, "boom"},
		{"nobody listens", nil, "refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t)
			a.handle(http.MethodGet, "instance", tc.handle)
			a.handle(http.MethodGet, "list", tc.handle)
			if tc.handle == nil {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				a.url = "http://" + listener.Addr().String()
				listener.Close()
			}
			for _, name := range []string{"w1", "wi/w1", "node/w1"} {
				a.run("get", name, "--ignore-not-found", "-o", "name").want(t, ExitFailure, tc.want)
			}
		})
	}
}

func TestGetInChunks(t *testing.T) {
	a := newAPI(t)
	a.handle(http.MethodGet, "list", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("limit") != "500" {
			t.Errorf("asked for a limit of %q", r.URL.Query().Get("limit"))
		}
		chunk := table(instance("w1", ""))
		chunk.Continue = "more"
		if r.URL.Query().Get("continue") == "more" {
			chunk = table(instance("w2", ""))
		}
		answer(w, chunk)
	})
	got := a.run("get")
	got.want(t, 0)
	if want := "NAME   PHASE\nw1     <none>\nw2     <none>\n"; got.stdout != want {
		t.Errorf("got\n%s\nwant\n%s", got.stdout, want)
	}
}

// A list that was read in chunks is printed as a whole one.
func TestGetChunksAsOneList(t *testing.T) {
	a := newAPI(t)
	a.handle(http.MethodGet, "list", func(w http.ResponseWriter, r *http.Request) {
		list := v1alpha1.WindowsInstanceList{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstanceList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more", RemainingItemCount: new(int64(1))}, Items: []v1alpha1.WindowsInstance{*instance("w1", "")},
		}
		if r.URL.Query().Get("continue") == "more" {
			list.Continue, list.RemainingItemCount, list.Items = "", nil, []v1alpha1.WindowsInstance{*instance("w2", "")}
		}
		answer(w, list)
	})
	got := a.run("get", "-o", "yaml")
	got.want(t, 0, "name: w1", "name: w2", `resourceVersion: "7"`)
	for _, never := range []string{"continue", "remainingItemCount"} {
		if strings.Contains(got.stdout, never) {
			t.Errorf("it has %s:\n%s", never, got.stdout)
		}
	}
}

// A server that sends rows without objects leaves nothing to sort by.
func TestGetSortedWithoutObjects(t *testing.T) {
	a := newAPI(t)
	a.handle(http.MethodGet, "list", func(w http.ResponseWriter, _ *http.Request) {
		rows := table(instance("w1", ""), instance("w2", ""))
		for i := range rows.Rows {
			rows.Rows[i].Object.Object = nil
		}
		answer(w, rows)
	})
	a.run("get", "--sort-by=.metadata.name").want(t, ExitFailure, "the server sent a table without its objects")
}

func TestGetWatches(t *testing.T) {
	a := newAPI(t, instance("w1", ""), instance("w2", ""))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out output.Buffer
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, a.args("hosts", "get", "w2", "-w"))
	}()
	eventually(t, "the watch begins", func() bool { return len(a.asked("watch=true")) > 0 })
	changed := instance("w2", "")
	changed.Status.Phase = v1alpha1.InstanceReady
	a.put(instance("w1", ""))
	a.put(changed)
	eventually(t, "the change is shown", func() bool { return strings.Contains(out.String(), "w2     Ready") })
	cancel()
	if code := <-done; code != ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, ExitInterrupted)
	}
	if got := out.String(); strings.Contains(got, "w1") || strings.Count(got, "NAME") != 1 {
		t.Errorf("got\n%s", got)
	}
}

// What follows has the columns of the list, under one header, and is in the order in which it happens.
func TestGetWatchesObjects(t *testing.T) {
	for _, tc := range []struct {
		name    string
		args    []string
		want    string
		warning string
	}{
		{"columns", []string{"-o", "custom-columns=HOST:.metadata.name,PHASE:.status.phase", "-w"}, "HOST   PHASE\nw1     <none>\nw2     <none>\nw2     Ready\n", ""},
		{"template", []string{"-o", "jsonpath={.metadata.name} ", "-w"}, "w1 w2 w2 ", ""},
		{"sorted table", []string{"--sort-by=.status.node.name", "-w"}, "NAME   PHASE\nw2     <none>\nw1     <none>\nw2     Ready\n", "warning: --watch requested, --sort-by will be ignored for watch events received"},
		{"sorted columns", []string{"--sort-by=.status.node.name", "-o", "custom-columns=HOST:.metadata.name", "-w"}, "HOST\nw2\nw1\nw2\n", "warning: --watch requested"},
		{"changes only", []string{"--sort-by=.status.node.name", "-o", "custom-columns=HOST:.metadata.name", "--watch-only"}, "HOST\nw2\n", "warning: --watch-only requested, --sort-by will be ignored"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t, instance("w1", "node-1"), instance("w2", ""))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errOut output.Buffer
			done := make(chan int, 1)
			go func() {
				done <- Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, a.args("hosts", append([]string{"get"}, tc.args...)...))
			}()
			eventually(t, "the watch begins", func() bool { return len(a.asked("watch=true")) > 0 })
			changed := instance("w2", "")
			changed.Status.Phase = v1alpha1.InstanceReady
			a.put(changed)
			eventually(t, "the change is shown", func() bool { return len(out.String()) >= len(tc.want) })
			cancel()
			<-done
			if got := out.String(); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if got := errOut.String(); !strings.Contains(got, tc.warning) || tc.warning == "" && got != "" {
				t.Errorf("it says %q, want %q", got, tc.warning)
			}
		})
	}
}

// A watch whose server is away for a while says so, once, and continues.
func TestGetWatchInterrupted(t *testing.T) {
	a := newAPI(t)
	var watches atomic.Int32
	a.handle(http.MethodGet, "list", func(w http.ResponseWriter, r *http.Request) {
		switch n := watches.Load(); {
		case r.URL.Query().Get("watch") == "":
			answer(w, table(instance("w1", "")))
		case watches.CompareAndSwap(n, n+1) && n < 2:
			http.Error(w, "away", http.StatusServiceUnavailable)
		default:
			answer(w, failedWatch(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the end"))
		}
	})
	got := a.run("get", "-w")
	got.want(t, ExitFailure, "The watch is interrupted", "the end")
	if n := strings.Count(got.stderr, "interrupted"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, got.stderr)
	}
}

// A server that was restarted refuses a watch at first, because it has not read yet who may do
// what. The watch continues where it was.
func TestGetWatchThroughRestart(t *testing.T) {
	a := newAPI(t)
	changed := instance("w1", "")
	changed.Status.Phase = v1alpha1.InstanceReady
	var watches atomic.Int32
	a.handle(http.MethodGet, "list", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			answer(w, table(instance("w1", "")))
			return
		}
		switch watches.Add(1) {
		case 1: // the server ends it
		case 2:
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "", "you may not")
		case 3:
			refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "", "who are you")
		case 4:
			answer(w, map[string]any{"type": "MODIFIED", "object": table(changed)})
			fallthrough
		default:
			answer(w, failedWatch(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the end"))
		}
	})
	got := a.run("get", "-w")
	got.want(t, ExitFailure, "w1     Ready", "The watch is interrupted and tried again: Error from server (Forbidden): you may not", "the end")
	if n := strings.Count(got.stderr, "interrupted"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, got.stderr)
	}
}

// Whoever may list and not watch is refused.
func TestGetWatchRefused(t *testing.T) {
	a := newAPI(t)
	a.handle(http.MethodGet, "list", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			answer(w, table(instance("w1", "")))
			return
		}
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "", "you may not watch")
	})
	got := a.run("get", "-w")
	got.want(t, ExitFailure, "w1", "you may not watch")
	if strings.Contains(got.stderr, "interrupted") {
		t.Errorf("it is said to be interrupted:\n%s", got.stderr)
	}
}

// failedWatch is what a server says at the end of a watch.
func failedWatch(code int32, reason metav1.StatusReason, message string) any {
	return map[string]any{"type": "ERROR", "object": metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}}
}

// A server that was restarted does not know any more what has changed since the list. What has, is shown, and then what follows.
func TestGetWatchTooOld(t *testing.T) {
	versioned := func(i *v1alpha1.WindowsInstance, version string, phase v1alpha1.WindowsInstancePhase) *v1alpha1.WindowsInstance {
		i.ResourceVersion, i.Status.Phase = version, phase
		i.APIVersion, i.Kind = v1alpha1.SchemeGroupVersion.String(), "WindowsInstance"
		return i
	}
	tooOld := map[string]http.HandlerFunc{
		"in the watch": func(w http.ResponseWriter, _ *http.Request) {
			answer(w, failedWatch(http.StatusGone, metav1.StatusReasonExpired, "too old resource version"))
		},
		"instead of a watch": func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusGone, metav1.StatusReasonExpired, "", "too old resource version")
		},
	}
	for name, says := range tooOld {
		for format, want := range map[string]string{
			"":     "NAME   PHASE\nw1     <none>\nw2     <none>\nw1     Ready\nw3     <none>\nw2     Failed\n",
			"name": strings.ReplaceAll("w1\nw2\nw1\nw3\nw2\n", "w", "windowsinstance.windows.openshift.io/w"),
		} {
			t.Run(name+" "+format, func(t *testing.T) {
				a := newAPI(t)
				var lists, watches atomic.Int32
				a.handle(http.MethodGet, "list", func(w http.ResponseWriter, r *http.Request) {
					asTable := strings.Contains(r.Header.Get("Accept"), "as=Table")
					list := func(version string, instances ...*v1alpha1.WindowsInstance) {
						if asTable {
							rows := table(instances...)
							rows.ResourceVersion = version
							answer(w, rows)
							return
						}
						all := v1alpha1.WindowsInstanceList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstanceList"}, ListMeta: metav1.ListMeta{ResourceVersion: version}}
						for _, i := range instances {
							all.Items = append(all.Items, *i)
						}
						answer(w, all)
					}
					from := r.URL.Query().Get("resourceVersion")
					switch watching := r.URL.Query().Get("watch") != ""; {
					case !watching && lists.Add(1) == 1:
						list("6", versioned(instance("w1", ""), "5", ""), versioned(instance("w2", ""), "6", ""))
					case !watching:
						list("8", versioned(instance("w1", ""), "7", v1alpha1.InstanceReady), versioned(instance("w2", ""), "6", ""), versioned(instance("w3", ""), "8", ""))
					case watches.Add(1) == 1 && from == "6":
						says(w, r)
					case from == "8":
						changed := versioned(instance("w2", ""), "9", v1alpha1.InstanceFailed)
						var object any = changed
						if asTable {
							rows := table(changed)
							rows.ResourceVersion = "9"
							object = rows
						}
						answer(w, map[string]any{"type": "MODIFIED", "object": object})
					default:
						refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "", "watched from "+from)
					}
				})
				got := a.run(slices.DeleteFunc([]string{"get", "-w", "-o=" + format}, func(arg string) bool { return arg == "-o=" })...)
				got.want(t, ExitFailure, "watched from 9")
				if got.stdout != want || strings.Contains(got.stderr, "too old") {
					t.Errorf("got\n%s%s\nwant\n%s", got.stdout, got.stderr, want)
				}
			})
		}
	}
}

func TestComplete(t *testing.T) {
	a := newAPI(t, instance("w1", "node-1"), instance("w2", ""), elsewhere(inPool(instance("x", "node-2"), "p")))
	a.handle(http.MethodGet, "log", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"entries": []map[string]string{{"name": "kubelet/a.log", "kind": "file"}, {"name": "kubelet", "kind": "service"}, {"name": "eventlog/System", "kind": "channel"}}})
	})
	a.handle(http.MethodGet, "windowsnodepools", func(w http.ResponseWriter, r *http.Request) {
		answer(w, v1alpha1.WindowsNodePoolList{Items: []v1alpha1.WindowsNodePool{{ObjectMeta: metav1.ObjectMeta{Name: "pool-b"}}, {ObjectMeta: metav1.ObjectMeta{Name: "pool-a"}}}})
	})
	for _, tc := range []struct {
		name, namespace string
		args            []string
		want            string
	}{
		{"instances and nodes", "hosts", []string{"get", ""}, "w1\nw2\nnode-1\n"},
		{"nodes of all namespaces", "", []string{"drain", "node"}, "node-1\nnode-2\n"},
		{"each once", "hosts", []string{"describe", "w1", "w"}, "w2\n"},
		{"sources of logs, services first", "hosts", []string{"logs", "w1", ""}, "kubelet\nkubelet/a.log\neventlog/System\n"},
		{"sources of logs of a selected host", "", []string{"logs", "-A", "--pool", "p", ""}, "kubelet\nkubelet/a.log\neventlog/System\n"},
		{"pools", "hosts", []string{"drain", "--pool", ""}, "pool-a\npool-b\n"},
		{"modes, which the shell filters", "hosts", []string{"reboot", "--mode", "If"}, "Graceful\nIfPending\nForce\n"},
		{"formats", "hosts", []string{"get", "-o", "custom"}, "custom-columns\ncustom-columns-file\n"},
		{"fields to sort by", "hosts", []string{"get", "--sort-by", ".spec"}, ".metadata.creationTimestamp\n.spec.address\n.spec.poolRef.name\n.status.node.name\n.status.phase\n.status.system.build\n"},
		{"nothing after the host", "hosts", []string{"shell", "w1", ""}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"__complete"}, a.args(tc.namespace, tc.args...)...)
			// cobra completes the last argument, and flags may stand anywhere.
			last := len(args) - 1
			var out output.Buffer
			code := Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &output.Buffer{}}, args)
			got, _, _ := strings.Cut(out.String(), ":4")
			if code != 0 || got != tc.want {
				t.Errorf("%q: exit code %d, got %q, want %q", args[last], code, got, tc.want)
			}
		})
	}
}

// A shell does not wait for a server, and no fleet is read for a word.
func TestCompleteIsBounded(t *testing.T) {
	a := newAPI(t)
	never := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, resource := range []string{"list", "windowsnodepools", "/api/v1/namespaces"} {
		a.handle(http.MethodGet, resource, never)
	}
	for _, args := range [][]string{{"get", ""}, {"get", "--pool", ""}, {"get", "-n", ""}} {
		result := a.run(append([]string{"__complete"}, args...)...)
		result.want(t, 0)
		if words, _, _ := strings.Cut(result.stdout, ":4"); words != "" {
			t.Errorf("%v: got %q", args, words)
		}
	}
	requests := a.asked("GET")
	if len(requests) < 3 {
		t.Errorf("requests: %v", requests)
	}
	for _, request := range requests {
		if !strings.Contains(request, "limit=500") {
			t.Errorf("%s has no limit", request)
		}
	}
}
