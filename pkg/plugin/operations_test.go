// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/output"
)

// operation is one that anna asked for a minute ago.
func operation(id string, t v1alpha1.OperationType, phase v1alpha1.OperationPhase, message string, steps ...v1alpha1.OperationStep) *v1alpha1.Operation {
	o := &v1alpha1.Operation{
		ID: id, Type: t, Phase: phase, Message: message, RequestedBy: "anna", Steps: steps,
		RequestedAt: metav1.NewTime(time.Now().Add(-time.Minute)),
	}
	if !o.Active() {
		o.FinishedAt = new(metav1.NewTime(o.RequestedAt.Add(42 * time.Second)))
	}
	return o
}

func step(name string, state v1alpha1.OperationStepState) v1alpha1.OperationStep {
	return v1alpha1.OperationStep{Name: name, State: state}
}

// with is an instance with an operation.
func with(i *v1alpha1.WindowsInstance, o *v1alpha1.Operation) *v1alpha1.WindowsInstance {
	i.Status.Operation = o
	return i
}

// accept makes a server take an action: it records the operation unless it is a dry run.
func (a *api) accept(action string, o *v1alpha1.Operation) {
	a.handle(http.MethodPost, action, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("dryRun") == "" {
			a.put(with(instance(r.PathValue("name"), "node-1"), o))
		}
		answer(w, map[string]any{
			"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "WindowsInstance" + strings.ToUpper(action[:1]) + action[1:],
			"metadata": map[string]any{"name": r.PathValue("name")}, "status": v1alpha1.ActionStatus{Operation: o},
		})
	})
}

const (
	drain   = v1alpha1.OperationDrain
	pending = v1alpha1.OperationPending
	running = v1alpha1.OperationRunning
)

func TestActionBodies(t *testing.T) {
	uid := `"preconditions":{"uid":"w1"}`
	for _, tc := range []struct {
		name string
		args []string
		want string // the spec that is sent
	}{
		{"drain", []string{"drain", "w1"}, `{` + uid + `}`},
		{"drain with everything", []string{"drain", "w1", "--grace-period=0", "--timeout=90s", "--ignore-daemonsets=false", "--delete-emptydir-data", "--force", "--disable-eviction", "--pod-selector=a=b", "--skip-wait-for-delete-timeout=7"},
			`{` + uid + `,"gracePeriodSeconds":0,"timeoutSeconds":90,"ignoreDaemonSets":false,"deleteEmptyDirData":true,"force":true,"disableEviction":true,"podSelector":"a=b","skipWaitForDeleteTimeoutSeconds":7}`},
		{"drain without end", []string{"drain", "w1", "--timeout=0"}, `{` + uid + `,"timeoutSeconds":0}`},
		{"uncordon", []string{"uncordon", "w1"}, `{` + uid + `}`},
		{"reboot", []string{"reboot", "w1"}, `{` + uid + `,"mode":"Graceful"}`},
		{"reboot with everything", []string{"reboot", "w1", "--mode=ifpending", "--timeout=1500ms", "--drain-timeout=1m", "--delete-emptydir-data"},
			`{` + uid + `,"mode":"IfPending","timeoutSeconds":2,"drain":{"timeoutSeconds":60,"deleteEmptyDirData":true}}`},
		{"reboot with updates", []string{"reboot", "w1", "--install-updates=security"}, `{` + uid + `,"mode":"Graceful","installUpdates":"Security"}`},
		{"reconfigure", []string{"reconfigure", "w1"}, `{` + uid + `}`},
		{"adopt", []string{"adopt", "w1"}, `{` + uid + `}`},
		{"release", []string{"release", "w1"}, `{` + uid + `}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t, instance("w1", "node-1"))
			a.accept(tc.args[0], operation("op", drain, pending, ""))
			a.run(append(tc.args, "--wait=false")...).want(t, 0, "operation op")
			var got struct{ Spec any }
			if err := json.Unmarshal([]byte(a.body("POST")), &got); err != nil {
				t.Fatal(err)
			}
			var want any
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFollowOperation(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  *v1alpha1.Operation
		code int
		want []string
	}{
		{"succeeded", operation("op", drain, v1alpha1.OperationSucceeded, "no pod is left", step(v1alpha1.StepCordon, v1alpha1.StepSucceeded), step(v1alpha1.StepDrain, v1alpha1.StepSucceeded)),
			0, []string{"windowsinstance/w1 drained (42s)\n"}},
		{"failed", operation("op", drain, v1alpha1.OperationFailed, "one pod is left"), ExitOperationFailed, []string{"drain failed: one pod is left"}},
		{"canceled", operation("op", drain, v1alpha1.OperationCanceled, "the node stays cordoned"), ExitOperationCanceled, []string{"drain canceled: the node stays cordoned"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t, instance("w1", "node-1"))
			a.accept("drain", operation("op", drain, pending, ""))
			done := make(chan result, 1)
			go func() { done <- a.run("drain", "w1") }()
			eventually(t, "it watches", func() bool { return len(a.asked("watch=true")) > 0 })
			now := operation("op", drain, running, "", step(v1alpha1.StepCordon, v1alpha1.StepSucceeded), step(v1alpha1.StepDrain, v1alpha1.StepRunning))
			now.Progress = &v1alpha1.OperationProgress{Done: 3, Total: 7, Unit: "pods"}
			now.BlockedBy = []v1alpha1.BlockedPod{{Namespace: "shop", Name: "web-1", Budget: "web"}, {Namespace: "shop", Name: "web-2"}}
			a.put(with(instance("w1", "node-1"), now))
			a.put(with(instance("w1", "node-1"), now)) // a change of something else
			a.put(with(instance("w1", "node-1"), tc.end))
			got := <-done
			got.want(t, tc.code, append(tc.want, "w1: drain pending\n",
				"w1: drain running: [Drain 3/7 pods]; blocked by shop/web-1 (PodDisruptionBudget web) and 1 more\n")...)
			if n := strings.Count(got.stderr, "3/7"); n != 1 {
				t.Errorf("the same progress is said %d times", n)
			}
		})
	}
}

// The operation was replaced by another one before its end was seen.
func TestFollowIntoHistory(t *testing.T) {
	a := newAPI(t, instance("w1", "node-1"))
	a.accept("uncordon", operation("op", v1alpha1.OperationUncordon, pending, ""))
	done := make(chan result, 1)
	go func() { done <- a.run("uncordon", "w1") }()
	eventually(t, "it watches", func() bool { return len(a.asked("watch=true")) > 0 })
	later := with(instance("w1", "node-1"), operation("next", drain, pending, ""))
	later.Status.History = []v1alpha1.Operation{*operation("op", v1alpha1.OperationUncordon, v1alpha1.OperationSucceeded, "")}
	a.put(later)
	got := <-done
	got.want(t, 0, "windowsinstance/w1 uncordoned")
}

func TestFollowEndsEarly(t *testing.T) {
	a := newAPI(t, instance("w1", "node-1"))
	a.accept("drain", operation("op", drain, running, ""))
	a.run("drain", "w1", "--wait-timeout=100ms").want(t, ExitWaitTimeout, "--wait-timeout is over", "kubectl windows cancel w1 -n hosts")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out output.Buffer
	done := make(chan int, 1)
	before := len(a.asked("watch=true"))
	go func() {
		done <- Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, a.args("hosts", "drain", "w1"))
	}()
	eventually(t, "it watches", func() bool { return len(a.asked("watch=true")) > before })
	cancel()
	code := <-done
	result{out.String(), "", code}.want(t, ExitInterrupted, "the drain of w1 continues", "kubectl windows describe w1 -n hosts", "kubectl windows cancel w1 -n hosts")
}

// What a server refuses that was just restarted, because it has not read yet who may do what, passes. What it refuses from the start does not,
// and the operation continues all the same.
func TestFollowThroughRefusals(t *testing.T) {
	for _, tt := range []struct {
		name     string
		refusals int // after the first watch. 0: all, from the start
		code     int
		want     []string
	}{
		{"a server that was restarted", 2, 0, []string{"w1: the operation continues, but cannot be seen at the moment", "windowsinstance/w1 drained"}},
		{"who may not see it", 0, ExitFailure, []string{"you may not", "the drain of w1 continues", "kubectl windows describe w1 -n hosts"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPI(t, instance("w1", "node-1"))
			a.accept("drain", operation("op", drain, running, ""))
			var watches, reads atomic.Int32
			a.handle(http.MethodGet, "list", func(w http.ResponseWriter, _ *http.Request) { // the server ends it
				watches.Add(1)
				w.Header().Set("Content-Type", "application/json")
			})
			a.handle(http.MethodGet, "instance", func(w http.ResponseWriter, _ *http.Request) {
				posted := len(a.asked("POST")) > 0
				switch n := int(reads.Load()); {
				case posted && tt.refusals == 0, watches.Load() > 0 && n < tt.refusals:
					if code := []int{http.StatusForbidden, http.StatusUnauthorized}[reads.Add(1)%2]; code == http.StatusForbidden {
						refuse(w, code, metav1.StatusReasonForbidden, "", "you may not")
					} else {
						refuse(w, code, metav1.StatusReasonUnauthorized, "", "you may not")
					}
				default:
					phase := v1alpha1.OperationRunning
					if watches.Load() > 0 {
						phase = v1alpha1.OperationSucceeded
					}
					host := with(instance("w1", "node-1"), operation("op", drain, phase, ""))
					host.APIVersion, host.Kind, host.ResourceVersion = v1alpha1.SchemeGroupVersion.String(), "WindowsInstance", "1"
					answer(w, host)
				}
			})
			got := a.run("drain", "w1")
			got.want(t, tt.code, tt.want...)
			if n := strings.Count(got.stderr, "cannot be seen"); n > 1 {
				t.Errorf("it is said %d times", n)
			}
		})
	}
}

// Of an operation whose host was removed while nobody could see it, it is not said that it continues.
func TestFollowWhatIsRemoved(t *testing.T) {
	for _, command := range []string{"drain", "cancel"} {
		t.Run(command, func(t *testing.T) {
			a := newAPI(t)
			a.accept(command, operation("op", drain, running, ""))
			host := with(instance("w1", "node-1"), operation("op", drain, running, ""))
			host.APIVersion, host.Kind, host.ResourceVersion = v1alpha1.SchemeGroupVersion.String(), "WindowsInstance", "1"
			a.handle(http.MethodGet, "instance", func(w http.ResponseWriter, _ *http.Request) {
				if len(a.asked("POST")) > 0 {
					refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "w1", "not found")
					return
				}
				answer(w, host)
			})
			got := a.run(command, "w1")
			got.want(t, ExitFailure, "windowsinstance/w1 was removed")
			if all := got.stdout + got.stderr; strings.Contains(all, "continues") || strings.Contains(all, "is requested") {
				t.Errorf("it says\n%s", all)
			}
		})
	}
}

func TestConflict(t *testing.T) {
	now := operation("other", drain, running, "", step(v1alpha1.StepDrain, v1alpha1.StepRunning))
	a := newAPI(t, with(instance("w1", "node-1"), now))
	a.handle(http.MethodPost, "reboot", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "w1", "operation other is running")
	})
	a.run("reboot", "w1").want(t, ExitConflict, "anna requested a drain", "[Drain running]", "kubectl windows cancel w1 -n hosts")
}

func TestDryRun(t *testing.T) {
	a := newAPI(t, instance("w1", "node-1"))
	a.accept("drain", operation("op", drain, pending, ""))
	a.run("drain", "w1", "--dry-run=server").want(t, 0, "windowsinstance/w1 would be drained (server dry run; its pods were not looked at)\n")
	if got := a.asked("POST"); len(got) != 1 || !strings.Contains(got[0], "dryRun=All") {
		t.Errorf("requests: %v", got)
	}
	a.run("drain", "w1", "--dry-run=client").want(t, 1, "must be none or server")

	plan := []v1alpha1.PlannedChange{{Kind: "Service", Name: "kubelet", Action: "Update", Impact: v1alpha1.ImpactRestart, Message: "arguments"}}
	a.handle(http.MethodPost, "reconfigure", func(w http.ResponseWriter, r *http.Request) {
		answer(w, v1alpha1.WindowsInstanceReconfigure{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstanceReconfigure"},
			Status:   v1alpha1.WindowsInstanceReconfigureStatus{Plan: plan},
		})
	})
	a.run("reconfigure", "w1", "--dry-run=server").want(t, 0,
		"KIND      NAME      ACTION   IMPACT    MESSAGE\nService   kubelet   Update   Restart   arguments\n")
	plan = nil
	a.run("reconfigure", "w1", "--dry-run").want(t, 0, "nothing would change")
}

func TestActionOutput(t *testing.T) {
	a := newAPI(t, instance("w1", "node-1"))
	a.accept("drain", operation("op", drain, v1alpha1.OperationSucceeded, ""))
	got := a.run("drain", "w1", "-o", "json")
	got.want(t, 0)
	var drained v1alpha1.WindowsInstanceDrain
	if err := json.Unmarshal([]byte(got.stdout), &drained); err != nil {
		t.Fatalf("%v in\n%s", err, got.stdout)
	}
	if drained.Status.Operation == nil || drained.Status.Operation.ID != "op" {
		t.Errorf("got\n%s", got.stdout)
	}
}

// The objects of several hosts are one document, without those of hosts that failed.
func TestOutputOfSeveral(t *testing.T) {
	a := newAPI(t, inPool(instance("w3", ""), "a"), inPool(instance("w1", ""), "a"), inPool(instance("w2", ""), "a"), inPool(instance("w4", ""), "b"))
	handle := func(method, subresource string, object func(meta metav1.ObjectMeta) any) {
		a.handle(method, subresource, func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("name") == "w2" {
				refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "w2", "it cannot be reached")
				return
			}
			answer(w, object(metav1.ObjectMeta{Name: r.PathValue("name")}))
		})
	}
	ended := operation("op", v1alpha1.OperationUncordon, v1alpha1.OperationSucceeded, "")
	handle(http.MethodPost, "check", func(meta metav1.ObjectMeta) any {
		return v1alpha1.WindowsInstanceCheck{ObjectMeta: meta, Status: v1alpha1.WindowsInstanceCheckStatus{Passed: true}}
	})
	handle(http.MethodGet, "inspect", func(meta metav1.ObjectMeta) any {
		i := inspection(1, 4, 2, false)
		i.ObjectMeta = meta
		return i
	})
	handle(http.MethodPost, "uncordon", func(meta metav1.ObjectMeta) any {
		return v1alpha1.WindowsInstanceUncordon{ObjectMeta: meta, Status: v1alpha1.ActionStatus{Operation: ended}}
	})
	handle(http.MethodPost, "reconfigure", func(meta metav1.ObjectMeta) any {
		return v1alpha1.WindowsInstanceReconfigure{ObjectMeta: meta}
	})
	for _, tc := range []struct {
		kind string
		args []string
	}{
		{"WindowsInstanceCheck", []string{"check", "--pool=a"}},
		{"WindowsInstanceInspection", []string{"inspect", "--pool=a"}},
		{"WindowsInstanceUncordon", []string{"uncordon", "--pool=a"}},
		{"WindowsInstanceUncordon", []string{"uncordon", "--wait=false", "--pool=a"}},
		{"WindowsInstanceReconfigure", []string{"reconfigure", "--dry-run=server", "--pool=a"}},
		{"WindowsInstance", []string{"get", "w1", "nope", "w3"}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			run := func(output string) string {
				t.Helper()
				got := a.run(append(tc.args, "-o", output)...)
				got.want(t, ExitFailure)
				return got.stdout
			}
			var list struct {
				Kind, APIVersion string
				Items            []struct {
					Kind, APIVersion string
					Metadata         struct{ Name string }
				}
			}
			text := run("json")
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			if list.Kind != "List" || list.APIVersion != "v1" || len(list.Items) != 2 {
				t.Fatalf("got\n%s", text)
			}
			for i, name := range []string{"w1", "w3"} {
				if item := list.Items[i]; item.Kind != tc.kind || item.APIVersion != v1alpha1.SchemeGroupVersion.String() || item.Metadata.Name != name {
					t.Errorf("item %d is %+v, want %s %s", i, item, tc.kind, name)
				}
			}
			if got := run("jsonpath={.items[*].metadata.name}"); got != "w1 w3" {
				t.Errorf("JSON path: got %q", got)
			}
			if got := run("custom-columns=HOST:.metadata.name"); got != "HOST\nw1\nw3\n" {
				t.Errorf("custom columns: got %q", got)
			}
			kind := strings.ToLower(tc.kind) + ".windows.openshift.io/"
			if got, want := run("name"), kind+"w1\n"+kind+"w3\n"; got != want {
				t.Errorf("names: got %q, want %q", got, want)
			}
			if got := run("yaml"); strings.Count(got, "kind: List\n") != 1 || strings.Contains(got, "[w") {
				t.Errorf("YAML: got\n%s", got)
			}
		})
	}
	// One that is selected is a list of one; one that is named is itself.
	if got := a.run("check", "--pool=b", "-o", "jsonpath={.kind} {.items[0].metadata.name}"); got.stdout != "List w4" {
		t.Errorf("one selected: got %q", got.stdout)
	}
	if got := a.run("check", "w4", "-o", "custom-columns=HOST:.metadata.name,PASSED:.status.passed"); got.stdout != "HOST   PASSED\nw4     true\n" {
		t.Errorf("columns of one that is named: got %q", got.stdout)
	}
	if got := a.run("check", "w4", "-o", "jsonpath={.kind} {.metadata.name}"); got.stdout != "WindowsInstanceCheck w4" {
		t.Errorf("one named: got %q", got.stdout)
	}
	a.run("check", "--pool=a", "-o", "nope").want(t, ExitFailure, `output format "nope"`)
}

// Hosts are worked on one after the other, and a failure of one stops no other.
func TestActionOnSeveral(t *testing.T) {
	a := newAPI(t, inPool(instance("w1", ""), "a"), inPool(instance("w2", ""), "a"), inPool(instance("w3", ""), "b"))
	a.handle(http.MethodPost, "uncordon", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("name") == "w1" {
			refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "w1", "no")
			return
		}
		answer(w, v1alpha1.WindowsInstanceUncordon{Status: v1alpha1.ActionStatus{Operation: operation("op", v1alpha1.OperationUncordon, v1alpha1.OperationFailed, "boom")}})
	})
	a.run("uncordon", "--pool", "a").want(t, ExitFailure, "[w1] Error from server (ServiceUnavailable): no\n", "[w2] error: windowsinstance/w2: uncordon failed: boom", "2 of 2 hosts did not succeed")
	if got := a.asked("w3/uncordon"); len(got) > 0 {
		t.Error("a host of another pool was met")
	}
	a.run("uncordon", "w2", "w3").want(t, ExitOperationFailed)
}

func TestCancel(t *testing.T) {
	a := newAPI(t, instance("w0", ""), with(instance("w1", "node-1"), operation("op", drain, running, "")))
	a.accept("cancel", operation("op", drain, v1alpha1.OperationCanceled, "the node stays cordoned"))
	a.run("cancel", "w0").want(t, 1, "no operation runs")
	a.handle(http.MethodGet, "instance", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "w1", "you may not")
	})
	a.run("cancel", "w1").want(t, 1, "you may not read it", "--operation")
	delete(a.handlers, "GET instance")
	a.run("cancel", "w1").want(t, 0, "windowsinstance/w1: drain canceled: the node stays cordoned\n")
	if got, want := a.body("POST"), `"operationID":"op"`; !strings.Contains(got, want) {
		t.Errorf("body %s lacks %s", got, want)
	}
	a.accept("cancel", operation("op", drain, v1alpha1.OperationSucceeded, ""))
	a.put(with(instance("w1", "node-1"), operation("op", drain, running, "")))
	a.run("cancel", "w1").want(t, 1, "the drain had ended before: succeeded")
}

func TestRebootFlags(t *testing.T) {
	a := newAPI(t, instance("w1", "node-1"))
	a.run("reboot", "w1", "--mode=Gently").want(t, 1, "--mode=Gently: must be Graceful, IfPending or Force")
	a.run("reboot", "w1", "--mode=Force", "--grace-period=1").want(t, 1, "does not drain")
}

func TestProgressOnTerminal(t *testing.T) {
	var out output.Buffer
	p := newProgress(&env{IOStreams: genericiooptions.IOStreams{ErrOut: &out}, live: true}, target{instance("w1", "")})
	width := 200
	p.width = func() int { return width }
	op := operation("op", drain, running, "", step(v1alpha1.StepCordon, v1alpha1.StepSucceeded), step(v1alpha1.StepDrain, v1alpha1.StepRunning))
	at := op.RequestedAt.Add(61 * time.Second)
	p.now = func() time.Time { return at }
	p.show(op)
	op.Message = "a message"
	p.tick(op)
	op.Message = ""
	p.tick(op)
	width = 50
	p.tick(op)
	width = 40
	p.tick(op)
	p.clear()
	p.clear()
	const line = "\rw1: drain running: Cordon done, [Drain running]"
	const current = "\rw1: drain running: [Drain running] (61s)" // where there is no room for the others, so that the time is seen
	want := line + " (61s)" + line + " (61s); a message" + line + " (61s)" + strings.Repeat(" ", len("; a message")) +
		current + strings.Repeat(" ", 49-len(current)+1) + "\rw1: drain running: [Drain running] (..." + "\r" + strings.Repeat(" ", 39) + "\r"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// A program that writes no ends of lines does not fill the memory.
func TestPrefixOfEndlessLine(t *testing.T) {
	var out output.Buffer
	w := &prefixWriter{to: &out, prefix: "[w1] ", mu: &sync.Mutex{}}
	part := strings.Repeat("x", 1<<16)
	for range 40 {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
		if len(w.line) > maxPrefixed {
			t.Fatalf("%d bytes are kept", len(w.line))
		}
	}
	w.finish()
	if got := strings.ReplaceAll(strings.ReplaceAll(out.String(), "[w1] ", ""), "\n", ""); got != strings.Repeat(part, 40) {
		t.Errorf("%d bytes came", len(got))
	}
	if lines := strings.Count(out.String(), "[w1] "); lines != 3 {
		t.Errorf("in %d lines", lines)
	}
}
