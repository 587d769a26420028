// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// fixture is a reconciler with a fake cluster and scripted hosts.
type fixture struct {
	t         *testing.T
	client    client.Client
	hosts     *scriptedHosts
	rotations *scriptedRotations
	journal   *journal
	clock     fakeClock
	r         *Reconciler
	stop      func()
	// namespace is that of the instances that are named.
	namespace string

	// ended counts the probes that ended, each of which wakes the reconciler, and heard those of them whose wake-up was taken.
	ended atomic.Int64
	heard int64

	mu sync.Mutex
	// failWrite, when set, is what writing a status answers instead.
	failWrite error
	// unheld: nobody adds the finalizer.
	unheld bool
}

// journalRecorder notes events.
type journalRecorder struct {
	record.EventRecorder
	journal *journal
}

func (r journalRecorder) Event(object kruntime.Object, eventtype, reason, _ string) {
	name := ""
	if o, ok := object.(client.Object); ok {
		name = o.GetName()
	}
	r.journal.add("event " + name + " " + eventtype + " " + reason)
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{t: t, namespace: testNamespace, journal: &journal{}, clock: newFakeClock()}
	scheme := kruntime.NewScheme()
	for _, add := range []func(*kruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.WindowsInstance{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				f.mu.Lock()
				fail := f.failWrite
				f.mu.Unlock()
				if fail != nil {
					return fail
				}
				if obj.GetResourceVersion() == "" {
					t.Error("a status was written without a resource version, so that it could overwrite another")
				}
				f.journal.add("write " + obj.GetName())
				return c.SubResource(sub).Update(ctx, obj, opts...)
			},
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return errors.New("a status was patched")
			},
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
				return errors.New("a spec was written")
			},
		})
	for _, index := range indexes() {
		builder = builder.WithIndex(index.object, index.field, index.extract)
	}
	f.client = builder.Build()
	f.hosts = newScriptedHosts(f.journal, f.clock.Now)
	f.rotations = &scriptedRotations{journal: f.journal}
	r := newReconciler(f.client, f.client, f.clock, Options{
		Recorder: journalRecorder{journal: f.journal}, Rotations: f.rotations,
		Hosts: f.hosts, Namespace: homeNamespace, ConcurrentProbes: 4, ConcurrentSlowProbes: 4,
		ProbeTimeout: DefaultProbeTimeout, RecheckInterval: DefaultRecheckInterval,
	})
	f.r = r
	probed := r.prober.record
	r.prober.record = func(key types.NamespacedName, o *observation) {
		probed(key, o)
		f.ended.Add(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- r.prober.Start(ctx) }()
	var once sync.Once
	f.stop = func() {
		once.Do(func() {
			cancel()
			if err := receive(t, stopped, "the prober to stop"); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(f.stop)
	return f
}

// reconcile runs the reconciler once.
func (f *fixture) reconcile(name string) reconcile.Result {
	f.t.Helper()
	result, err := f.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: f.namespace, Name: name}})
	if err != nil {
		f.t.Fatalf("reconcile %s: %v", name, err)
	}
	return result
}

// settle reconciles one instance until there is nothing to do before some time has passed.
func (f *fixture) settle(name string) reconcile.Result {
	f.t.Helper()
	for range 20 {
		result := f.reconcile(name)
		if f.hold(name) {
			continue
		}
		// What has ended has woken the reconciler, or is about to, and that pass may not have seen its result.
		if !f.r.prober.Busy(types.NamespacedName{Namespace: f.namespace, Name: name}) && f.heard == f.ended.Load() {
			return result
		}
		if got := f.woken("a probe to end"); got != name {
			f.t.Fatalf("%s was woken", got)
		}
	}
	f.t.Fatalf("%s does not settle", name)
	return reconcile.Result{}
}

// hold adds the finalizer once the host lets us in, as package lifecycle does.
func (f *fixture) hold(name string) bool {
	f.t.Helper()
	instance := f.get(name)
	if held(instance) || f.unheld || !meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionAuthenticated) {
		return false
	}
	before := instance.DeepCopy()
	instance.Finalizers = append(instance.Finalizers, v1alpha1.HostFinalizer)
	if err := f.client.Patch(context.Background(), instance, client.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
	return true
}

// delete deletes an instance, whose host is clean.
func (f *fixture) delete(name string) {
	f.t.Helper()
	instance := f.get(name)
	if err := f.client.Delete(context.Background(), instance); err != nil {
		f.t.Fatal(err)
	}
	f.release(name)
}

// release removes the finalizer of an instance that was deleted.
func (f *fixture) release(name string) {
	f.t.Helper()
	instance := &v1alpha1.WindowsInstance{}
	if err := f.client.Get(context.Background(), types.NamespacedName{Namespace: f.namespace, Name: name}, instance); err != nil {
		return // it had none
	}
	before := instance.DeepCopy()
	instance.Finalizers = nil
	if err := f.client.Patch(context.Background(), instance, client.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
}

// woken waits for the end of a probe, and returns the instance that it was of.
func (f *fixture) woken(what string) string {
	f.t.Helper()
	e := receive(f.t, f.r.wake, what)
	f.heard++
	return e.Object.GetName()
}

func (f *fixture) get(name string) *v1alpha1.WindowsInstance {
	f.t.Helper()
	instance := &v1alpha1.WindowsInstance{}
	if err := f.client.Get(context.Background(), types.NamespacedName{Namespace: f.namespace, Name: name}, instance); err != nil {
		f.t.Fatal(err)
	}
	return instance
}

// update changes the spec of an instance as a user would.
func (f *fixture) update(name string, change func(*v1alpha1.WindowsInstance)) {
	f.t.Helper()
	instance := f.get(name)
	before := instance.DeepCopy()
	change(instance)
	instance.Generation++
	if err := f.client.Patch(context.Background(), instance, client.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) expect(name string, phase v1alpha1.WindowsInstancePhase, conditions ...string) {
	f.t.Helper()
	status := f.get(name).Status
	got := conditionsOf(&status)
	for _, want := range conditions {
		if !slices.Contains(got, want) {
			f.t.Errorf("%s: %s is missing in %v", name, want, got)
		}
	}
	if status.Phase != phase {
		f.t.Errorf("%s: phase is %s, want %s", name, status.Phase, phase)
	}
}

func (f *fixture) expectJournal(want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.journal.take()); diff != "" {
		f.t.Errorf("what happened (-want +got)\n%s", diff)
	}
}

func TestReconcileFirstContact(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"), newNode("win-1", "10.1.42.1", corev1.ConditionTrue))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })

	result := f.settle("win-1")

	// Nothing is authenticated or run before the key is in the stored status.
	f.expectJournal(
		"write win-1",
		"Resolve win-1", "HostKey win-1",
		"write win-1", "event win-1 Normal HostKeyRecorded",
		"Resolve win-1", "Login win-1",
		// Nothing is put there before the object is held.
		"write win-1", "event win-1 Normal Authenticated", "event win-1 Normal NodeReady",
		"Resolve win-1", "Login win-1", "Facts win-1",
		"write win-1", "event win-1 Normal FactsGathered", "event win-1 Normal PreflightPassed",
	)
	f.expect("win-1", v1alpha1.InstanceReady, "HostKeyTrusted=True/FirstUse", "UpToDate=True/RevisionCurrent", "Ready=True/AllChecksPassed")
	status := f.get("win-1").Status
	if status.Node == nil || status.Node.Name != "win-1" || status.System.Product != "Windows Server 2022 Datacenter" || status.Version != "v0.1.0" || status.CurrentRevision != testRevision || status.ObservedGeneration != 1 {
		t.Errorf("got status %+v", status)
	}
	if result.RequeueAfter < 4*time.Minute || result.RequeueAfter > 6*time.Minute {
		t.Errorf("the host is looked at again after %s", result.RequeueAfter)
	}
}

// That an instance was deleted is noted in its status, also when the API is away meanwhile.
func TestLeaveWhileTheAPIIsAway(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	if err := f.client.Delete(t.Context(), f.get("win-1")); err != nil {
		t.Fatal(err)
	}
	instances := v1alpha1.Resource("windowsinstances")
	for _, test := range []struct {
		fail error
		ends bool
	}{
		{apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodPut, instances, "win-1", "404 page not found", 0, true), false},
		{apierrors.NewNotFound(instances, "win-1"), true},
	} {
		f.mu.Lock()
		f.failWrite = test.fail
		f.mu.Unlock()
		if _, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: testNamespace, Name: "win-1"}}); (err == nil) != test.ends {
			t.Errorf("%v: got %v", test.fail, err)
		}
	}
}

func TestReconcileDoesNothingMoreWhenTheKeyCannotBeRecorded(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.reconcile("win-1")
	f.woken("the host key")
	f.journal.take()
	instances := v1alpha1.Resource("windowsinstances")
	for _, test := range []struct {
		fail error
		ends bool // or it is tried again
	}{
		{apierrors.NewConflict(instances, "win-1", errors.New("changed")), true},
		{apierrors.NewNotFound(instances, "win-1"), true},
		{apierrors.NewInternalError(errors.New("storage is full")), false},
		// The API is away.
		{apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodPut, instances, "win-1", "404 page not found", 0, true), false},
	} {
		fail := test.fail
		f.mu.Lock()
		f.failWrite = fail
		f.mu.Unlock()
		_, err := f.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: testNamespace, Name: "win-1"}})
		if (err == nil) != test.ends {
			t.Errorf("%v: got error %v", fail, err)
		}
		if f.r.prober.Busy(types.NamespacedName{Namespace: testNamespace, Name: "win-1"}) {
			t.Errorf("%v: the host is contacted although its key was not recorded", fail)
		}
		f.expectJournal()
	}

	f.mu.Lock()
	f.failWrite = nil
	f.mu.Unlock()
	f.settle("win-1")
	got := f.journal.take()
	if len(got) == 0 || got[0] != "write win-1" {
		t.Errorf("got %v", got)
	}
	f.expect("win-1", v1alpha1.InstanceConnected, "HostKeyTrusted=True/FirstUse")
}

func TestReconcilePinnedHostIsLoggedInToAtOnce(t *testing.T) {
	instance := newInstance("win-1", "10.1.42.1")
	instance.Spec.HostKeys = []string{newKey(t, "host").String()}
	f := newFixture(t, instance)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })

	f.settle("win-1")

	f.expectJournal("write win-1", "Resolve win-1", "Login win-1", "write win-1", "event win-1 Normal Authenticated",
		"Resolve win-1", "Login win-1", "Facts win-1", "write win-1", "event win-1 Normal FactsGathered", "event win-1 Normal PreflightPassed")
	f.expect("win-1", v1alpha1.InstanceConnected, "HostKeyTrusted=True/Pinned", "NodeReady=False/NoNode")
	if keys := f.get("win-1").Status.HostKeys; len(keys) != 1 || keys[0].TrustedBy != v1alpha1.TrustedBySpec {
		t.Errorf("got host keys %+v", keys)
	}
}

func TestReconcileWritesNothingWhenNothingChanges(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"), newNode("win-1", "10.1.42.1", corev1.ConditionTrue))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	f.journal.take()
	version := f.get("win-1").ResourceVersion

	for i := range 3 {
		f.clock.Step(10 * time.Minute)
		f.hosts.set("10.1.42.1", func(h *scriptedHost) { // time goes by on the host as well
			facts := goodFacts()
			facts.Boot.Time = facts.Boot.Time.Add(time.Duration(i*40) * time.Second)
			facts.Boot.UptimeSeconds += int64(i * 600)
			facts.Memory.AvailableBytes -= uint64(i) << 20
			facts.Disks[0].FreeBytes -= uint64(i) << 20
			h.facts = facts
		})
		f.settle("win-1")
		f.expectJournal("Resolve win-1", "Login win-1", "Facts win-1")
	}
	f.reconcile("win-1")
	if got := f.get("win-1").ResourceVersion; got != version {
		t.Errorf("the object was written: resource version %s instead of %s", got, version)
	}
	f.expectJournal()
}

func TestReconcileFailures(t *testing.T) {
	sshErr := func(layer ssh.Layer, reason ssh.Reason) error {
		return &ssh.Error{Layer: layer, Reason: reason, Address: "10.1.42.1:22", Err: errors.New("cause")}
	}
	for _, test := range []struct {
		name      string
		at        diagnose.Stage
		err       error
		want      string
		wantPhase v1alpha1.WindowsInstancePhase
		wantCalls []string
	}{
		{"DNS", diagnose.StageResolve, sshErr(ssh.LayerDNS, ssh.ReasonNameNotResolved), "Resolved=False/NameNotResolved", v1alpha1.InstanceUnreachable, []string{"Resolve win-1"}},
		{"address policy", diagnose.StageResolve, sshErr(ssh.LayerDNS, ssh.ReasonAddressRefused), "Resolved=False/AddressRefused", v1alpha1.InstanceFailed, []string{"Resolve win-1"}},
		{"refused", diagnose.StageLogin, sshErr(ssh.LayerConnect, ssh.ReasonConnectionRefused), "Reachable=False/ConnectionRefused", v1alpha1.InstanceUnreachable, []string{"Resolve win-1", "Login win-1"}},
		{"timed out", diagnose.StageLogin, sshErr(ssh.LayerConnect, ssh.ReasonConnectionTimedOut), "Reachable=False/ConnectionTimedOut", v1alpha1.InstanceUnreachable, []string{"Resolve win-1", "Login win-1"}},
		{"no SSH", diagnose.StageLogin, sshErr(ssh.LayerHandshake, ssh.ReasonNotSSH), "Reachable=False/NotSSH", v1alpha1.InstanceUnreachable, []string{"Resolve win-1", "Login win-1"}},
		{"another host key", diagnose.StageLogin, verifyAs(newKey(t, "other"), known(t)), "HostKeyTrusted=False/HostKeyChanged", v1alpha1.InstanceFailed, []string{"Resolve win-1", "Login win-1"}},
		{"no Secret", diagnose.StageLogin, &host.CredentialsError{Secret: "a/b", Err: errors.New("not found")}, "Authenticated=False/CredentialsMissing", v1alpha1.InstanceFailed, []string{"Resolve win-1", "Login win-1", "HostKey win-1"}},
		{"credentials refused", diagnose.StageLogin, sshErr(ssh.LayerAuth, ssh.ReasonCredentialsRefused), "Authenticated=False/CredentialsRefused", v1alpha1.InstanceFailed, []string{"Resolve win-1", "Login win-1"}},
		{"silent while logging in", diagnose.StageLogin, sshErr(ssh.LayerAuth, ssh.ReasonTimedOut), "Authenticated=False/AuthenticationTimedOut", v1alpha1.InstanceUnreachable, []string{"Resolve win-1", "Login win-1"}},
		{"no session", diagnose.StageLogin, sshErr(ssh.LayerSession, ssh.ReasonSessionRefused), "Authenticated=False/SessionRefused", v1alpha1.InstanceFailed, []string{"Resolve win-1", "Login win-1"}},
		{"lost", diagnose.StageFacts, sshErr(ssh.LayerSession, ssh.ReasonConnectionLost), "Authenticated=False/ConnectionLost", v1alpha1.InstanceUnreachable, []string{"Resolve win-1", "Login win-1", "Facts win-1"}},
		{"no agent", diagnose.StageFacts, &agentclient.Error{Step: agentclient.StepUpload, Err: errors.New("disk full")}, "PreflightPassed=Unknown/AgentNotInstalled", v1alpha1.InstanceFailed, []string{"Resolve win-1", "Login win-1", "Facts win-1"}},
		{"agent failed", diagnose.StageFacts, &agentclient.Error{Step: agentclient.StepRun, Err: &ssh.ExitError{Code: 1}}, "PreflightPassed=Unknown/AgentFailed", v1alpha1.InstanceFailed, []string{"Resolve win-1", "Login win-1", "Facts win-1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, newInstance("win-1", "10.1.42.1"))
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
			f.settle("win-1")
			f.journal.take()
			reason := test.want[strings.LastIndex(test.want, "/")+1:]

			// It fails.
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.fail[test.at] = test.err })
			f.clock.Step(10 * time.Minute)
			first := f.settle("win-1")
			f.expectJournal(append(slices.Clone(test.wantCalls), "write win-1", "event win-1 Warning "+reason)...)
			f.expect("win-1", test.wantPhase, test.want, "Ready=False/"+reason, "UpToDate=Unknown/NotTried")
			if first.RequeueAfter < 4*time.Second || first.RequeueAfter > 6*time.Second {
				t.Errorf("tried again after %s", first.RequeueAfter)
			}

			// It still fails: it is tried again, later each time, and nothing is written or told.
			f.clock.Step(first.RequeueAfter)
			second := f.settle("win-1")
			f.expectJournal(test.wantCalls...)
			if second.RequeueAfter < 6800*time.Millisecond || second.RequeueAfter > 10200*time.Millisecond {
				t.Errorf("tried again after %s", second.RequeueAfter)
			}

			// It recovers.
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.fail = map[diagnose.Stage]error{} })
			f.clock.Step(second.RequeueAfter)
			if third := f.settle("win-1"); third.RequeueAfter < 4*time.Minute {
				t.Errorf("a host that is well is looked at again after %s", third.RequeueAfter)
			}
			f.expectJournal("Resolve win-1", "Login win-1", "Facts win-1", "write win-1", "event win-1 Normal Recovered")
			f.expect("win-1", v1alpha1.InstanceConnected, "PreflightPassed=True/PreflightPassed")
		})
	}
}

// While the API server is away nobody knows what to log in with: that says nothing about a host, so nothing is written of it, and it is probed again soon.
func TestReconcileSecretThatCouldNotBeRead(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	before := f.get("win-1").Status
	f.journal.take()

	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.fail[diagnose.StageLogin] = &host.CredentialsError{Secret: "a/b", Unread: true, Err: errors.New("connection refused")}
	})
	f.clock.Step(10 * time.Minute)
	again := f.settle("win-1")
	f.expectJournal("Resolve win-1", "Login win-1")
	if again.RequeueAfter < 4*time.Second || again.RequeueAfter > 6*time.Second {
		t.Errorf("probed again after %s", again.RequeueAfter)
	}

	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.fail = map[diagnose.Stage]error{} })
	f.clock.Step(again.RequeueAfter)
	f.settle("win-1")
	f.expectJournal("Resolve win-1", "Login win-1", "Facts win-1")
	if diff := cmp.Diff(before.Conditions, f.get("win-1").Status.Conditions); diff != "" {
		t.Errorf("the conditions are others (-before +now)\n%s", diff)
	}
}

// Nothing is done on a host that presents another key, until somebody pins it.
func TestReconcileHostKeyChangedUntilItIsPinned(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")

	presented := newKey(t, "new")
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = presented })
	f.clock.Step(10 * time.Minute)
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceFailed, "HostKeyTrusted=False/HostKeyChanged", "Authenticated=Unknown/NotTried")
	status := f.get("win-1").Status
	if text := messageOf(t, &status, v1alpha1.ConditionHostKeyTrusted); !strings.Contains(text, presented.String()) {
		t.Errorf("the message does not say how to accept the key: %s", text)
	}
	if status.HostKeys[0].Key == recordKeys(nil, append(trust(nil, nil, false, host.Key{}).keys, presented), "", metav1.Now())[0].Key {
		t.Error("the new key was recorded by itself")
	}
	f.journal.take()
	f.hosts.takeForgotten()

	f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.HostKeys = []string{presented.String()} })
	f.settle("win-1") // at once, without waiting for the backoff
	f.expectJournal("Resolve win-1", "Login win-1", "Facts win-1", "write win-1", "event win-1 Normal Recovered")
	f.expect("win-1", v1alpha1.InstanceConnected, "HostKeyTrusted=True/Pinned")
	if got := f.hosts.takeForgotten(); len(got) != 1 {
		t.Errorf("connections made with the old keys were kept: %v", got)
	}
}

func TestReconcilePaused(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "rack-1"}}
	pool.Spec.Paused = true
	byPool, bySelf := newInstance("by-pool", "10.1.42.1"), newInstance("by-self", "10.1.42.2")
	byPool.Spec.PoolRef = &v1alpha1.PoolReference{Name: "rack-1"}
	bySelf.Spec.Paused = true
	f := newFixture(t, pool, byPool, bySelf)
	for _, address := range []string{"10.1.42.1", "10.1.42.2"} {
		f.hosts.set(address, func(h *scriptedHost) { h.key = newKey(t, address) })
	}
	for _, name := range []string{"by-pool", "by-self"} {
		f.settle(name)
		f.expectJournal("write " + name)
		f.expect(name, v1alpha1.InstancePending, "Ready=Unknown/Paused", "Resolved=Unknown/Paused")
	}

	f.update("by-self", func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = false })
	f.settle("by-self")
	f.expect("by-self", v1alpha1.InstanceConnected, "Authenticated=True/LoggedIn")
	f.journal.take()

	f.update("by-self", func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true })
	f.clock.Step(time.Hour)
	f.settle("by-self")
	f.expectJournal("write by-self")
	f.expect("by-self", v1alpha1.InstancePending, "Ready=Unknown/Paused", "Authenticated=True/LoggedIn")
}

func TestReconcilePauseEndsAProbe(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.hang = true })
	f.reconcile("win-1")
	receive(t, f.hosts.entered, "the probe")
	f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true })
	f.reconcile("win-1")
	f.stop() // returns when the probe has ended, which it does not by itself
	if f.ended.Load() > f.heard {
		t.Error("the canceled probe woke the reconciler")
	}
}

func TestReconcileDuplicate(t *testing.T) {
	older, newer, literal, foreign := newInstance("older", "win-1.example.com"), newInstance("newer", "alias.example.com"), newInstance("literal", "10.1.42.1"), newInstance("foreign", "10.1.42.1")
	older.CreationTimestamp = metav1.NewTime(testNow.Add(-2 * time.Hour))
	foreign.Spec.Port = 2222 // another host behind the same address
	f := newFixture(t, older, newer, literal, foreign)
	for _, address := range []string{"win-1.example.com", "alias.example.com", "10.1.42.1"} {
		f.hosts.set(address, func(h *scriptedHost) { h.key, h.addresses = newKey(t, "host"), []string{"10.1.42.1"} })
	}
	f.settle("older")
	f.expect("older", v1alpha1.InstanceConnected)
	f.journal.take()

	f.settle("newer")
	f.expectJournal("write newer", "Resolve newer", "write newer", "event newer Warning DuplicateHost")
	f.expect("newer", v1alpha1.InstanceFailed, "Resolved=False/DuplicateHost", "Reachable=Unknown/NotTried", "NodeReady=Unknown/NotTried")
	status := f.get("newer").Status
	if text := messageOf(t, &status, v1alpha1.ConditionResolved); !strings.Contains(text, "Instance older already represents this host") {
		t.Errorf("got %q", text)
	}
	f.settle("literal")
	f.expectJournal("write literal", "event literal Warning DuplicateHost")
	f.settle("foreign")
	f.expect("foreign", v1alpha1.InstanceConnected)

	// The older one goes: of the rest the first takes its place.
	f.delete("older")
	f.reconcile("older")
	f.settle("literal")
	f.expect("literal", v1alpha1.InstanceConnected, "Authenticated=True/LoggedIn")
	f.settle("newer")
	f.expect("newer", v1alpha1.InstanceFailed, "Resolved=False/DuplicateHost")
}

func TestReconcileDeletionEndsTheProbe(t *testing.T) {
	for _, test := range []struct {
		name   string
		delete func(*fixture)
	}{
		{"gone", func(f *fixture) {
			if err := f.client.Delete(context.Background(), f.get("win-1")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, newInstance("win-1", "10.1.42.1"))
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.hang = true })
			f.reconcile("win-1")
			receive(t, f.hosts.entered, "the probe")
			test.delete(f)

			f.reconcile("win-1")

			if f.r.prober.Busy(types.NamespacedName{Namespace: testNamespace, Name: "win-1"}) {
				t.Error("the probe goes on")
			}
			if got := f.hosts.takeForgotten(); len(got) != 1 || got[0] != "10.1.42.1" {
				t.Errorf("forgotten are the connections of %v", got)
			}
			if len(f.r.tracker.hosts) != 0 {
				t.Error("the host is still remembered")
			}
			f.stop()
			if f.ended.Load() > f.heard {
				t.Error("the canceled probe woke the reconciler")
			}
		})
	}
}

func TestReconcileSpecChangeEndsTheProbe(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.hang = true })
	f.hosts.set("10.1.42.2", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.reconcile("win-1")
	receive(t, f.hosts.entered, "the probe of the old address")

	f.update("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.Address = "10.1.42.2" })
	f.settle("win-1")

	f.expect("win-1", v1alpha1.InstanceConnected, "Authenticated=True/LoggedIn")
	if got := f.get("win-1").Status; !slices.Equal(got.Addresses, []string{"10.1.42.2"}) || got.ObservedGeneration != 2 {
		t.Errorf("got addresses %v, generation %d", got.Addresses, got.ObservedGeneration)
	}
	if got := f.hosts.takeForgotten(); len(got) != 1 || got[0] != "10.1.42.1" {
		t.Errorf("forgotten are the connections of %v", got)
	}
}

// New hosts, of which some hang in the first step that contacts them. There are
// fewer than in the tests of the prober as the fake client searches all objects each time.
func TestReconcileHangingHostsDoNotDelayOthers(t *testing.T) {
	const all, hanging = 48, 12
	var objects []client.Object
	for i := range all {
		objects = append(objects, newInstance(fmt.Sprintf("win-%d", i), fmt.Sprintf("10.1.42.%d", i)))
	}
	f := newFixture(t, objects...)
	for i := range all {
		f.hosts.set(fmt.Sprintf("10.1.42.%d", i), func(h *scriptedHost) {
			h.key, h.hang = newKey(t, "host"), i < hanging
		})
	}
	for i := range all {
		f.reconcile(fmt.Sprintf("win-%d", i))
	}
	// The lane has four places. All of them that a namespace may have are taken by hosts that hang,
	// until these have used up the patience for them.
	for range hanging / 3 {
		for range 3 {
			receive(t, f.hosts.entered, "a host that hangs")
		}
		f.clock.Step(patience)
	}
	for connected := 0; connected < all-hanging; {
		name := f.woken("a good host")
		f.reconcile(name)
		if f.hold(name) {
			f.reconcile(name)
		}
		if f.get(name).Status.Phase == v1alpha1.InstanceConnected {
			connected++
		}
	}
}

// A host that hung last time is tried again among its like.
func TestReconcileHungHostGoesToTheSlowLane(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.key = newKey(t, "host")
		h.fail[diagnose.StageHostKey] = &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionTimedOut}
	})
	f.clock.Step(f.settle("win-1").RequeueAfter)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.hang = true })
	f.reconcile("win-1")
	receive(t, f.hosts.entered, "the second try")
	if running, _ := f.r.prober.load(laneSlow); running != 1 {
		t.Errorf("%d probes run in the slow lane", running)
	}
}

func TestReconcileNode(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	f.journal.take()

	node := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	if err := f.client.Create(context.Background(), node); err != nil {
		t.Fatal(err)
	}
	if got := f.r.hostsOf(context.Background(), node); len(got) != 1 || got[0].Name != "win-1" {
		t.Fatalf("the Node wakes %v", got)
	}
	f.settle("win-1")
	f.expectJournal("write win-1", "event win-1 Normal NodeReady") // without contacting the host
	f.expect("win-1", v1alpha1.InstanceReady, "Ready=True/AllChecksPassed")

	// The Node goes away a minute later: is it the host or the kubelet?
	f.clock.Step(time.Minute)
	if err := f.client.Delete(context.Background(), node); err != nil {
		t.Fatal(err)
	}
	f.settle("win-1")
	f.expectJournal("write win-1", "event win-1 Warning NoNode", "Resolve win-1", "Login win-1", "Facts win-1")
	f.expect("win-1", v1alpha1.InstanceConnected, "NodeReady=False/NoNode", "Ready=False/NoNode")
}

// After a restart of the controller, hosts that are known come one after the other.
func TestReconcileAfterRestart(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	f.journal.take()

	restarted := newReconciler(f.client, f.client, f.clock, f.r.Options)
	result, err := restarted.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: testNamespace, Name: "win-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Minute {
		t.Errorf("the host is looked at after %s", result.RequeueAfter)
	}
	f.expectJournal()
}

func TestReconcileOurOwnLimitsSayNothingAboutAHost(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	f.journal.take()
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.fail[diagnose.StageLogin] = &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonLimitReached}
	})
	f.clock.Step(10 * time.Minute)
	result := f.settle("win-1")
	f.expectJournal("Resolve win-1", "Login win-1")
	f.expect("win-1", v1alpha1.InstanceConnected, "Authenticated=True/LoggedIn")
	if result.RequeueAfter <= 0 || result.RequeueAfter > 6*time.Second {
		t.Errorf("tried again after %s", result.RequeueAfter)
	}
}

func TestReconcileRestartOfAHostIsToldOnce(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	f.journal.take()
	f.clock.Step(10 * time.Minute)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.facts = goodFacts()
		h.facts.Boot.Time = f.clock.Now()
		h.facts.PendingReboot = api.PendingReboot{Pending: true, Reasons: []string{api.RebootWindowsUpdate}}
	})
	f.settle("win-1")
	f.expectJournal("Resolve win-1", "Login win-1", "Facts win-1", "write win-1", "event win-1 Normal FactsGathered", "event win-1 Normal RebootPending")
	f.expect("win-1", v1alpha1.InstanceConnected, "RebootRequired=True/RebootPending", "PreflightPassed=True/PreflightPassed")
}

// TestReconcileBuildOfWindowsChanged: updates may bring another build. The host is judged again as soon as the operation that
// installed them has ended, and not when it would be its turn.
func TestReconcileBuildOfWindowsChanged(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceConnected, "PreflightPassed=True/PreflightPassed")
	updated := func(version string, build int) {
		t.Helper()
		f.clock.Step(10 * time.Second)
		f.hosts.set("10.1.42.1", func(h *scriptedHost) {
			h.facts = goodFacts()
			h.facts.System.Version, h.facts.System.Build = version, build
		})
		f.settle("win-1")
		if did := f.journal.take(); len(did) > 0 {
			t.Fatalf("before its turn: %v", did)
		}
		ended := f.get("win-1")
		ended.Status.Operation = &v1alpha1.Operation{
			ID: "op-" + version, Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationSucceeded, Cause: v1alpha1.CauseWindowsUpdates,
			StartedAt: new(metav1.NewTime(f.clock.Now())), FinishedAt: new(metav1.NewTime(f.clock.Now())),
		}
		if err := f.client.Status().Update(t.Context(), ended); err != nil {
			t.Fatal(err)
		}
		f.clock.Step(10 * time.Second)
		f.settle("win-1")
		if got := f.get("win-1").Status.System; got == nil || got.Build != version {
			t.Errorf("status.system is %+v, want build %s", got, version)
		}
	}
	f.journal.take()
	updated("10.0.25398.1369", 25398)
	f.expect("win-1", v1alpha1.InstanceFailed, "PreflightPassed=False/Findings")
	if got := messageOf(t, &f.get("win-1").Status, v1alpha1.ConditionPreflightPassed); !strings.Contains(got, "Windows build 25398 is not supported") {
		t.Errorf("it says %s", got)
	}
	f.journal.take()
	updated("10.0.26100.2314", 26100)
	f.expect("win-1", v1alpha1.InstanceConnected, "PreflightPassed=True/PreflightPassed")
}

func TestReconcileLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	var objects []client.Object
	for i := range 8 {
		objects = append(objects, newInstance(fmt.Sprintf("win-%d", i), fmt.Sprintf("10.1.42.%d", i)))
	}
	f := newFixture(t, objects...)
	for i := range 8 {
		f.hosts.set(fmt.Sprintf("10.1.42.%d", i), func(h *scriptedHost) { h.hang = true })
		f.reconcile(fmt.Sprintf("win-%d", i))
	}
	for range 3 {
		receive(t, f.hosts.entered, "all that one namespace may have")
	}
	f.stop()
	for deadline := time.Now().Add(testDeadline); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestMetrics(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	registry := prometheus.NewPedanticRegistry()
	f.r.metrics = newMetrics(registry, f.r.prober)
	f.settle("win-1")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if c := m.GetCounter(); c != nil {
				got = append(got, fmt.Sprintf("%s %s %v", family.GetName(), m.GetLabel()[0].GetValue(), c.GetValue()))
			}
		}
	}
	if diff := cmp.Diff([]string{"windows_instance_probes_total Healthy 1", "windows_instance_probes_total HostKeyRecorded 1", "windows_instance_probes_total LoggedIn 1"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
