// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// Revisions of tests.
const (
	revision1 = "1111111111111111"
	revision2 = "2222222222222222"
)

// setUpWith is what a probe sees of a host that was set up with a revision, and of one
// on which setting up with another was not completed.
func setUpWith(applied, applying string) *observation {
	return healthy(func(f *api.Facts) {
		f.Configuration = api.ConfigurationFacts{AppliedRevision: applied, ApplyingRevision: applying}
	})
}

// reconfigured is an instance whose last look found current, and whose last operation
// ended a minute ago, or goes on.
func reconfigured(t *testing.T, current string, phase v1alpha1.OperationPhase) *v1alpha1.WindowsInstance {
	t.Helper()
	instance := operated(t, v1alpha1.OperationReconfigure, phase)
	instance.Status.CurrentRevision = current
	instance.Status.Operation.Message, instance.Status.Operation.Revision = "The kubelet does not start", revision1
	meta.SetStatusCondition(&instance.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConfiguring, ObservedGeneration: 1, Message: "Before.", LastTransitionTime: metav1.NewTime(testNow),
	})
	if !instance.Status.Operation.Active() {
		instance.Status.Operation.FinishedAt = &metav1.Time{Time: testNow.Add(-time.Minute)}
	}
	return instance
}

// phased is an instance in a phase.
func phased(instance *v1alpha1.WindowsInstance, phase v1alpha1.WindowsInstancePhase) *v1alpha1.WindowsInstance {
	instance.Status.Phase = phase
	return instance
}

// wmcoRunsError is why hosts cannot be configured while WMCO runs.
type wmcoRunsError struct{}

func (wmcoRunsError) Error() string { return "WMCO runs" }
func (wmcoRunsError) Is(target error) bool {
	return target == document.ErrInputs || target == document.ErrOtherOperator
}

// TestOutdated: what was seen before an operation ended says nothing about the host after it, and
// an end that a wrong clock put into the future keeps nobody from looking.
func TestOutdated(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ended time.Duration // from now
		want  bool
	}{
		{"ended before", -time.Minute, false},
		{"ended since", -time.Second, true},
		{"ended just now", 0, true},
		{"will end in hours", 5 * time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &observation{started: testNow.Add(-10 * time.Second)}
			last := &v1alpha1.Operation{FinishedAt: &metav1.Time{Time: testNow.Add(tt.ended)}}
			if got := outdated(o, last, testNow); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestEvaluateConfigured(t *testing.T) {
	ready := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	brokeOff, began := known(t), new(metav1.NewTime(testNow.Add(-time.Hour)))
	brokeOff.Status.Operation = &v1alpha1.Operation{
		ID: "adopt-1", Type: v1alpha1.OperationAdopt, Phase: v1alpha1.OperationFailed, StartedAt: began, FinishedAt: began, Node: &v1alpha1.OperationNode{Name: ready.Name, UID: ready.UID},
		Steps: []v1alpha1.OperationStep{{Name: v1alpha1.StepAdopt, State: v1alpha1.StepFailed, StartedAt: began}},
	}
	unreachable := &observation{started: testNow, finished: testNow, addresses: []string{"10.1.42.1"}, failed: diagnose.StageLogin,
		err: &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}}
	missing := errors.New("there is no ConfigMap kube-root-ca.crt: create it")
	old := setUpWith("", revision1)
	old.started, old.finished = testNow.Add(-2*time.Minute), testNow.Add(-2*time.Minute)
	notFit := healthy(func(f *api.Facts) { f.System.Build = 14393 })
	history := known(t)
	history.Status.Operation = &v1alpha1.Operation{ID: "op-2", Type: v1alpha1.OperationUncordon, Phase: v1alpha1.OperationSucceeded}
	history.Status.History = []v1alpha1.Operation{{ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed, HostChanged: true, Message: "Disk full", FinishedAt: &metav1.Time{Time: testNow.Add(-time.Hour)}}}
	refused := reconfigured(t, revision2, v1alpha1.OperationFailed)
	adopted := reconfigured(t, revision2, v1alpha1.OperationFailed)
	adopted.Status.History = []v1alpha1.Operation{*adopted.Status.Operation}
	adopted.Status.Operation = &v1alpha1.Operation{ID: "op-2", Type: v1alpha1.OperationAdopt, Phase: v1alpha1.OperationSucceeded, RequestedAt: adopted.Status.Operation.RequestedAt}
	canceled := reconfigured(t, revision2, v1alpha1.OperationCanceled)
	canceled.Status.Operation.CancelRequestedBy = "bob"
	neverSetUp := reconfigured(t, "", v1alpha1.OperationCanceled)
	neverSetUp.Status.Operation.CancelRequestedBy = "bob"
	withdrawn := reconfigured(t, "", v1alpha1.OperationCanceled)
	withdrawnSince := reconfigured(t, "", v1alpha1.OperationFailed)
	withdrawnSince.Status.History = []v1alpha1.Operation{*withdrawnSince.Status.Operation}
	withdrawnSince.Status.Operation = &v1alpha1.Operation{ID: "op-2", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationCanceled, Message: "Not begun, because spec.paused is true."}
	ofBackup := reconfigured(t, "", v1alpha1.OperationCanceled)
	ofBackup.Status.Operation.HostChanged, ofBackup.Status.Operation.Message = true, "It comes from a backup"
	tooOld := reconfigured(t, revision2, v1alpha1.OperationFailed)
	tooOld.Status.Operation.Revision = "3333333333333333"
	current := reconfigured(t, revision1, v1alpha1.OperationFailed)
	halfWay := reconfigured(t, revision2, v1alpha1.OperationFailed)
	halfWay.Status.Operation.HostChanged = true
	unreachedSince := reconfigured(t, revision2, v1alpha1.OperationFailed)
	unreachedSince.Status.History = []v1alpha1.Operation{{ID: "op-0", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationFailed, HostChanged: true}}
	repairedSince := reconfigured(t, revision2, v1alpha1.OperationFailed)
	repairedSince.Status.History = []v1alpha1.Operation{{ID: "op-0", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded}, unreachedSince.Status.History[0]}
	notReady := newNode("win-1", "10.1.42.1", corev1.ConditionUnknown)
	ofWMCO := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	ofWMCO.Annotations = map[string]string{wmco.VersionAnnotation: "11.0.0"}
	ofMachine := known(t)
	ofMachine.OwnerReferences = []metav1.OwnerReference{{APIVersion: machinev1beta1.SchemeGroupVersion.String(), Kind: "Machine", Name: "winworker-a", UID: "m", Controller: new(true)}}
	upgrading := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	upgrading.Labels = map[string]string{wmco.UpgradingLabel: "true"}
	expired := api.KubeletCertificate{Problem: api.CertificateExpired, NotAfter: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	withCertificate := func(c api.KubeletCertificate, changes ...func(*api.Facts)) *observation {
		return healthy(append(changes, func(f *api.Facts) {
			f.Configuration = api.ConfigurationFacts{AppliedRevision: revision1, KubeletCertificate: &c}
		})...)
	}
	wrongClock := func(f *api.Facts) {
		f.Time.Now, f.Time.Answered = f.Time.Now.AddDate(1, 0, 0), f.Time.Now.AddDate(1, 0, 0)
	}
	notTakenOver, changed := heldBy(reconfigured(t, "", v1alpha1.OperationFailed)), heldBy(known(t))
	notTakenOver.Status.Operation.Revision = ""
	changed.Status.History = []v1alpha1.Operation{{ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}}
	removing := operated(t, v1alpha1.OperationRemove, v1alpha1.OperationRunning)
	// releasedHost was configured, and released a minute ago, or is being released.
	releasedHost := func(phase v1alpha1.OperationPhase) *v1alpha1.WindowsInstance {
		i := heldBy(reconfigured(t, "", v1alpha1.OperationSucceeded))
		i.Status.Operation.HostChanged = true
		i.Status.History = []v1alpha1.Operation{*i.Status.Operation}
		i.Status.Operation = &v1alpha1.Operation{ID: "op-2", Type: v1alpha1.OperationRelease, Phase: phase, HostReleased: true}
		if !i.Status.Operation.Active() {
			i.Status.Operation.FinishedAt = &metav1.Time{Time: testNow.Add(-time.Minute)}
		}
		return i
	}
	// maybeReleased was configured, and a release of it has begun.
	maybeReleased := func(phase v1alpha1.OperationPhase, current string) *v1alpha1.WindowsInstance {
		i := releasedHost(phase)
		i.Status.Operation.HostReleased, i.Status.Operation.ReleaseBegun, i.Status.CurrentRevision = false, true, current
		return i
	}
	tells := []string{"Operation op-2 began to release the host and did not complete", "kubectl windows release win-1 -n windows-hosts", "kubectl windows reconfigure win-1 -n windows-hosts"}
	oursStill := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	oursStill.Labels = map[string]string{v1alpha1.NamespaceLabel: "windows-hosts"}
	before := setUpWith(revision1, "")
	before.started, before.finished = testNow.Add(-2*time.Minute), testNow.Add(-2*time.Minute)

	for _, test := range []struct {
		name      string
		snapshot  snapshot
		want      []string // Configured, UpToDate, Ready
		wantText  []string // in the messages of Configured or UpToDate
		wantPhase v1alpha1.WindowsInstancePhase
	}{
		{"new", snapshot{instance: newInstance("win-1", "10.1.42.1")},
			[]string{"Unknown/NotTried", "Unknown/NotTried", "Unknown/NotTried"}, []string{"condition Resolved must be True first"}, v1alpha1.InstancePending},
		{"fit and not set up", snapshot{instance: known(t), observation: setUpWith("", "")},
			[]string{"False/Configuring", "False/RevisionOutdated", "False/Configuring"}, []string{"not configured completely yet", "not configured yet; the desired revision is 111111111111"}, v1alpha1.InstanceConnected},
		{"not fit", snapshot{instance: known(t), observation: notFit},
			[]string{"Unknown/NotTried", "False/RevisionOutdated", "False/Findings"}, []string{"condition PreflightPassed must be True first"}, v1alpha1.InstanceFailed},
		{"being set up for the first time", snapshot{instance: reconfigured(t, "", v1alpha1.OperationRunning), observation: setUpWith("", revision1)},
			[]string{"False/Configuring", "False/RevisionOutdated", "False/Configuring"}, []string{"not configured completely yet"}, v1alpha1.InstanceConfiguring},
		{"waits for a place to be set up", snapshot{instance: reconfigured(t, "", v1alpha1.OperationPending), observation: setUpWith("", "")},
			[]string{"False/Configuring", "False/RevisionOutdated", "False/Configuring"}, []string{"not configured completely yet"}, v1alpha1.InstanceConnected},
		{"set up and looked at before the end of that", snapshot{instance: reconfigured(t, "", v1alpha1.OperationSucceeded), observation: old},
			[]string{"False/Configuring", "False/RevisionOutdated", "False/Configuring"}, []string{"not configured completely yet"}, v1alpha1.InstanceConnected},
		{"set up a moment ago, and not looked at since", snapshot{instance: phased(reconfigured(t, "", v1alpha1.OperationSucceeded), v1alpha1.InstanceConfiguring), observation: old},
			[]string{"False/Configuring", "False/RevisionOutdated", "False/Configuring"}, nil, v1alpha1.InstanceConfiguring},
		{"the attempt to set it up has failed", snapshot{instance: phased(reconfigured(t, "", v1alpha1.OperationFailed), v1alpha1.InstanceConfiguring), observation: old},
			[]string{"False/ConfigurationFailed", "False/RevisionOutdated", "False/ConfigurationFailed"}, nil, v1alpha1.InstanceFailed},
		{"set up, no node yet", snapshot{instance: reconfigured(t, "", v1alpha1.OperationSucceeded), observation: setUpWith(revision1, "")},
			[]string{"True/Configured", "True/RevisionCurrent", "False/NoNode"}, []string{"completely, with revision 111111111111."}, v1alpha1.InstanceJoining},
		{"set up, node not ready", snapshot{instance: known(t), observation: setUpWith(revision1, ""), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse)},
			[]string{"True/Configured", "True/RevisionCurrent", "False/NodeNotReady"}, nil, v1alpha1.InstanceJoining},
		{"all is well", snapshot{instance: known(t), observation: setUpWith(revision1, ""), node: ready},
			[]string{"True/Configured", "True/RevisionCurrent", "True/AllChecksPassed"}, nil, v1alpha1.InstanceReady},
		{"services wait for the network", snapshot{instance: known(t), observation: setUpWith(revision1, ""), node: ready, waiting: []string{"service kube-proxy (waits for the subnet of the Node)"}},
			[]string{"True/Configured", "True/RevisionCurrent", "True/AllChecksPassed"}, []string{"Not configured yet: service kube-proxy (waits for the subnet of the Node)."}, v1alpha1.InstanceReady},
		{"a service waits for what others make on the host", snapshot{instance: known(t), node: ready, observation: healthy(func(f *api.Facts) {
			f.Configuration = api.ConfigurationFacts{AppliedRevision: revision1, Waiting: []api.Waiting{{Service: "kube-proxy", Network: "net"}}}
		})},
			[]string{"True/Configured", "True/RevisionCurrent", "True/AllChecksPassed"}, []string{"Not configured yet: service kube-proxy (waits for network net, which another program has to make on the host)."}, v1alpha1.InstanceReady},
		{"a setting of the cluster does not hold", snapshot{instance: known(t), observation: setUpWith(revision1, ""), node: ready, warnings: []string{"this is one", "that is another"}},
			[]string{"True/Configured", "True/RevisionCurrent", "True/AllChecksPassed"}, []string{"The host has revision 111111111111. Warnings: This is one; that is another."}, v1alpha1.InstanceReady},
		{"many settings of the cluster do not hold", snapshot{instance: known(t), observation: setUpWith(revision1, ""), node: ready, warnings: []string{strings.Repeat("x", 4<<10), "that is another"}},
			[]string{"True/Configured", "True/RevisionCurrent", "True/AllChecksPassed"}, []string{"; that is another."}, v1alpha1.InstanceReady},
		{"a setting of the cluster does not hold, and the host does not follow yet", snapshot{instance: changed, observation: setUpWith(revision2, ""), node: ready, warnings: []string{"this is one"}},
			[]string{"True/Configured", "False/RevisionOutdated", "True/AllChecksPassed"}, []string{"the desired one is 111111111111. It is updated when it gets a disruption slot: ", " Warnings: This is one."}, v1alpha1.InstanceReady},
		{"another revision is wanted", snapshot{instance: changed, observation: setUpWith(revision2, ""), node: ready},
			[]string{"True/Configured", "False/RevisionOutdated", "True/AllChecksPassed"}, []string{"has revision 222222222222; the desired one is 111111111111"}, v1alpha1.InstanceReady},
		{"being brought to another revision", snapshot{instance: reconfigured(t, revision2, v1alpha1.OperationRunning), observation: setUpWith(revision2, revision1), node: ready},
			[]string{"True/Configured", "False/RevisionOutdated", "True/AllChecksPassed"}, nil, v1alpha1.InstanceConfiguring},
		{"a node of others", snapshot{instance: known(t), observation: setUpWith("", ""), node: ready},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, []string{"The host is already Node win-1, which was not made by this controller", "kubectl windows reconfigure"}, v1alpha1.InstanceReady},
		{"a node of WMCO, which runs", snapshot{instance: known(t), observation: setUpWith("", ""), node: ofWMCO, inputs: wmcoRunsError{}},
			[]string{"Unknown/ManagedByWMCO", "Unknown/ManagedByWMCO", "True/AllChecksPassed"}, []string{"oc scale deployment windows-machine-config-operator -n openshift-windows-machine-config-operator --replicas=0"}, v1alpha1.InstanceReady},
		{"a node of WMCO, which has ended", snapshot{instance: known(t), observation: setUpWith("", ""), node: ofWMCO},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, []string{"kubectl windows adopt win-1 -n windows-hosts"}, v1alpha1.InstanceReady},
		{"a node of others, with the daemon of WMCO", snapshot{instance: known(t), observation: healthy(func(f *api.Facts) { f.Services = append(f.Services, api.Service{Name: wmco.WICDService}) }), node: ready},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, []string{"kubectl windows adopt win-1 -n windows-hosts"}, v1alpha1.InstanceReady},
		{"a node of others, whose adoption broke off when that daemon was removed", snapshot{instance: brokeOff, observation: setUpWith("", ""), node: ready},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, []string{"kubectl windows adopt win-1 -n windows-hosts"}, v1alpha1.InstanceReady},
		{"a node of others, and WMCO runs", snapshot{instance: known(t), observation: setUpWith("", ""), node: ready, inputs: wmcoRunsError{}},
			[]string{"Unknown/ForeignNode", "Unknown/InputsMissing", "True/AllChecksPassed"}, []string{"kubectl windows reconfigure"}, v1alpha1.InstanceReady},
		{"a node that WMCO, which runs, may be making", snapshot{instance: ofMachine, observation: setUpWith("", ""), node: ready, inputs: wmcoRunsError{}},
			[]string{"Unknown/ManagedByWMCO", "Unknown/ManagedByWMCO", "True/AllChecksPassed"}, []string{"which the Windows Machine Config Operator (WMCO) may be making: it is only watched", "WMCO runs"}, v1alpha1.InstanceReady},
		{"a node that WMCO, which runs, upgrades", snapshot{instance: known(t), observation: setUpWith("", ""), node: upgrading, inputs: wmcoRunsError{}},
			[]string{"Unknown/ManagedByWMCO", "Unknown/ManagedByWMCO", "True/AllChecksPassed"}, []string{"which the Windows Machine Config Operator (WMCO) manages"}, v1alpha1.InstanceReady},
		{"our node, and WMCO runs", snapshot{instance: known(t), observation: setUpWith(revision1, ""), node: ofWMCO, inputs: wmcoRunsError{}},
			[]string{"True/Configured", "Unknown/InputsMissing", "True/AllChecksPassed"}, nil, v1alpha1.InstanceReady},
		{"a node of others that is not ready", snapshot{instance: known(t), observation: setUpWith("", ""), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse)},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "False/NodeNotReady"}, nil, v1alpha1.InstanceConnected},
		{"a node of others that somebody has us take over", snapshot{instance: reconfigured(t, "", v1alpha1.OperationRunning), observation: setUpWith("", ""), node: ready},
			[]string{"False/Configuring", "False/RevisionOutdated", "False/Configuring"}, nil, v1alpha1.InstanceConfiguring},
		{"a node of others whose host has our agent", snapshot{instance: heldBy(known(t)), observation: setUpWith("", ""), node: ready},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, nil, v1alpha1.InstanceReady},
		{"a node of others that could not be taken over", snapshot{instance: notTakenOver, observation: setUpWith("", ""), node: ready},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, nil, v1alpha1.InstanceReady},
		{"our node that was set up anew", snapshot{instance: changed, observation: setUpWith("", ""), node: ready},
			[]string{"False/Configuring", "False/RevisionOutdated", "False/Configuring"}, nil, v1alpha1.InstanceConnected},
		{"released", snapshot{instance: releasedHost(v1alpha1.OperationSucceeded), observation: setUpWith("", ""), node: ofWMCO},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"},
			[]string{"was released to the Windows Machine Config Operator (WMCO) by operation op-2", "oc delete secret windows-user-data -n openshift-machine-api --ignore-not-found && oc scale deployment windows-machine-config-operator -n openshift-windows-machine-config-operator --replicas=1", "kubectl windows adopt win-1 -n windows-hosts"}, v1alpha1.InstanceReady},
		{"released, and probed before that", snapshot{instance: releasedHost(v1alpha1.OperationSucceeded), observation: before, node: ofWMCO},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, []string{"was released"}, v1alpha1.InstanceReady},
		{"being released, and probed before that", snapshot{instance: releasedHost(v1alpha1.OperationRunning), observation: setUpWith(revision1, ""), node: oursStill},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, []string{"was released"}, v1alpha1.InstanceReady},
		{"released, but for its Node", snapshot{instance: releasedHost(v1alpha1.OperationFailed), observation: setUpWith("", ""), node: oursStill},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, []string{"did not complete", "kubectl windows release win-1 -n windows-hosts"}, v1alpha1.InstanceReady},
		{"maybe released, and its inventory is gone", snapshot{instance: maybeReleased(v1alpha1.OperationFailed, revision1), observation: setUpWith("", ""), node: oursStill},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "False/ForeignNode"}, tells, v1alpha1.InstanceConnected},
		{"maybe released, and it is as it was", snapshot{instance: maybeReleased(v1alpha1.OperationCanceled, revision1), observation: setUpWith(revision1, ""), node: oursStill},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "False/ForeignNode"}, tells, v1alpha1.InstanceConnected},
		{"released, and its Node is gone", snapshot{instance: releasedHost(v1alpha1.OperationSucceeded), observation: setUpWith("", "")},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "False/NoNode"}, []string{"and has no Node", "kubectl windows reconfigure win-1"}, v1alpha1.InstanceConnected},
		{"released, and WMCO runs", snapshot{instance: releasedHost(v1alpha1.OperationSucceeded), observation: setUpWith("", ""), node: ofWMCO, inputs: wmcoRunsError{}},
			[]string{"Unknown/ManagedByWMCO", "Unknown/ManagedByWMCO", "True/AllChecksPassed"}, []string{"which the Windows Machine Config Operator (WMCO) manages"}, v1alpha1.InstanceReady},
		{"released, and WMCO has had it since", snapshot{
			instance: releasedHost(v1alpha1.OperationSucceeded), node: ofWMCO,
			observation: healthy(func(f *api.Facts) { f.Services = append(f.Services, api.Service{Name: wmco.WICDService}) }),
		},
			[]string{"Unknown/ForeignNode", "Unknown/ForeignNode", "True/AllChecksPassed"}, []string{"which the Windows Machine Config Operator (WMCO) has configured"}, v1alpha1.InstanceReady},
		{"interrupted", snapshot{instance: known(t), observation: setUpWith(revision1, revision1), node: ready},
			[]string{"False/Configuring", "True/RevisionCurrent", "False/Configuring"}, []string{"was interrupted and will continue"}, v1alpha1.InstanceConnected},
		{"the certificate has expired", snapshot{instance: known(t), observation: withCertificate(expired), node: notReady},
			[]string{"False/KubeletCertificateUnusable", "True/RevisionCurrent", "False/KubeletCertificateUnusable"}, []string{"join the cluster again", "expired at 2026-01-02T03:04:05Z by the clock of the host."}, v1alpha1.InstanceConnected},
		{"the certificate has expired by a wrong clock", snapshot{instance: known(t), observation: withCertificate(expired, wrongClock), node: notReady},
			[]string{"False/KubeletCertificateUnusable", "True/RevisionCurrent", "False/Findings"}, []string{"That clock is wrong, see condition PreflightPassed"}, v1alpha1.InstanceFailed},
		{"the certificate has expired and the Node is gone", snapshot{instance: known(t), observation: withCertificate(expired)},
			[]string{"False/KubeletCertificateUnusable", "True/RevisionCurrent", "False/KubeletCertificateUnusable"}, nil, v1alpha1.InstanceConnected},
		{"the certificate seems to be that of another node, and the Node is ready", snapshot{instance: known(t), observation: withCertificate(api.KubeletCertificate{Problem: api.CertificateOtherNode}), node: ready},
			[]string{"True/Configured", "True/RevisionCurrent", "True/AllChecksPassed"}, nil, v1alpha1.InstanceReady},
		{"the certificate seems to have expired, and a kubelet reports that the Node is not ready", snapshot{instance: known(t), observation: withCertificate(expired), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse)},
			[]string{"True/Configured", "True/RevisionCurrent", "False/NodeNotReady"}, nil, v1alpha1.InstanceJoining},
		{"the certificate is good and the Node is not ready", snapshot{instance: known(t), observation: withCertificate(api.KubeletCertificate{}), node: notReady},
			[]string{"True/Configured", "True/RevisionCurrent", "False/NodeNotReady"}, nil, v1alpha1.InstanceJoining},
		{"joins again", snapshot{instance: reconfigured(t, revision1, v1alpha1.OperationRunning), observation: withCertificate(expired), node: notReady},
			[]string{"True/Configured", "True/RevisionCurrent", "False/NodeNotReady"}, nil, v1alpha1.InstanceConfiguring},
		{"could not join again, and nothing was changed", snapshot{instance: current, observation: withCertificate(expired), node: notReady},
			[]string{"False/KubeletCertificateUnusable", "True/RevisionCurrent", "False/KubeletCertificateUnusable"}, nil, v1alpha1.InstanceConnected},
		{"failed", snapshot{instance: reconfigured(t, "", v1alpha1.OperationFailed), observation: setUpWith("", revision1), node: ready},
			[]string{"False/ConfigurationFailed", "False/RevisionOutdated", "False/ConfigurationFailed"}, []string{"Operation op-1 failed: The kubelet does not start. ", "kubectl windows reconfigure win-1 -n windows-hosts"}, v1alpha1.InstanceFailed},
		{"failed before a host could not be reached", snapshot{instance: reconfigured(t, "", v1alpha1.OperationFailed), observation: unreachable},
			[]string{"False/ConfigurationFailed", "Unknown/NotTried", "False/ConnectionRefused"}, nil, v1alpha1.InstanceUnreachable},
		{"failed, something else since", snapshot{instance: history, observation: setUpWith(revision2, ""), node: ready},
			[]string{"False/ConfigurationFailed", "False/RevisionOutdated", "False/ConfigurationFailed"}, []string{"Disk full."}, v1alpha1.InstanceFailed},
		{"an update was refused", snapshot{instance: refused, observation: setUpWith(revision2, ""), node: ready},
			[]string{"True/Configured", "False/UpdateFailed", "True/AllChecksPassed"}, []string{"works with revision 222222222222; the desired one is 111111111111. Operation op-1 failed before it changed the host: The kubelet does not start.", "kubectl windows reconfigure win-1 -n windows-hosts"}, v1alpha1.InstanceReady},
		{"an update was refused before the host was adopted", snapshot{instance: adopted, observation: setUpWith(revision2, ""), node: ready},
			[]string{"True/Configured", "False/RevisionOutdated", "True/AllChecksPassed"}, nil, v1alpha1.InstanceReady},
		{"an update was canceled", snapshot{instance: canceled, observation: setUpWith(revision2, ""), node: ready},
			[]string{"True/Configured", "False/UpdateCanceled", "True/AllChecksPassed"}, []string{"Operation op-1 was canceled by bob before it changed the host"}, v1alpha1.InstanceReady},
		{"an update was refused, and another one is wanted since", snapshot{instance: tooOld, observation: setUpWith(revision2, ""), node: ready},
			[]string{"True/Configured", "False/RevisionOutdated", "True/AllChecksPassed"}, nil, v1alpha1.InstanceReady},
		{"a configuration that was not needed was refused", snapshot{instance: current, observation: setUpWith(revision1, ""), node: ready},
			[]string{"True/Configured", "True/RevisionCurrent", "True/AllChecksPassed"}, nil, v1alpha1.InstanceReady},
		{"an update failed half way", snapshot{instance: halfWay, observation: setUpWith(revision2, ""), node: ready},
			[]string{"False/ConfigurationFailed", "False/RevisionOutdated", "False/ConfigurationFailed"}, nil, v1alpha1.InstanceFailed},
		{"an update failed half way, and the host cannot be reached since", snapshot{instance: unreachedSince, observation: setUpWith(revision2, ""), node: ready},
			[]string{"False/ConfigurationFailed", "False/RevisionOutdated", "False/ConfigurationFailed"}, nil, v1alpha1.InstanceFailed},
		{"an update failed half way, and one has succeeded since", snapshot{instance: repairedSince, observation: setUpWith(revision2, ""), node: ready},
			[]string{"True/Configured", "False/UpdateFailed", "True/AllChecksPassed"}, nil, v1alpha1.InstanceReady},
		{"canceled", snapshot{instance: neverSetUp, observation: setUpWith("", "")},
			[]string{"False/ConfigurationFailed", "False/RevisionOutdated", "False/ConfigurationFailed"}, []string{"was canceled by bob"}, v1alpha1.InstanceFailed},
		{"the controller did not want it any more", snapshot{instance: withdrawn, observation: setUpWith("", "")},
			[]string{"False/Configuring", "False/RevisionOutdated", "False/Configuring"}, []string{"not configured completely yet"}, v1alpha1.InstanceConnected},
		{"it failed, and the controller did not want the next one any more", snapshot{instance: withdrawnSince, observation: setUpWith("", "")},
			[]string{"False/ConfigurationFailed", "False/RevisionOutdated", "False/ConfigurationFailed"}, []string{"Operation op-1 failed: The kubelet does not start."}, v1alpha1.InstanceFailed},
		{"half way, in a backup", snapshot{instance: ofBackup, observation: setUpWith("", "")},
			[]string{"False/ConfigurationFailed", "False/RevisionOutdated", "False/ConfigurationFailed"}, []string{"Operation op-1 was ended by the controller: It comes from a backup."}, v1alpha1.InstanceFailed},
		{"inputs are missing", snapshot{instance: known(t), observation: setUpWith("", ""), inputs: missing},
			[]string{"False/InputsMissing", "Unknown/InputsMissing", "False/InputsMissing"}, []string{missing.Error()}, v1alpha1.InstanceFailed},
		{"inputs cannot be read", snapshot{instance: known(t), observation: setUpWith("", ""), inputs: errors.New("read tcp 10.128.0.5:45321->172.30.0.1:443: connection reset")},
			[]string{"False/InputsMissing", "Unknown/InputsMissing", "False/InputsMissing"}, []string{"worked out: read tcp 172.30.0.1:443: connection reset."}, v1alpha1.InstanceFailed},
		{"inputs are missing for a host that is set up", snapshot{instance: known(t), observation: setUpWith(revision1, ""), node: ready, inputs: missing},
			[]string{"True/Configured", "Unknown/InputsMissing", "True/AllChecksPassed"}, []string{missing.Error()}, v1alpha1.InstanceReady},
		{"unreachable", snapshot{instance: known(t), observation: unreachable, node: ready},
			[]string{"Unknown/NotTried", "Unknown/NotTried", "False/ConnectionRefused"}, nil, v1alpha1.InstanceUnreachable},
		{"made a node by WMCO, and not reached since an operation", snapshot{instance: notTakenOver, observation: unreachable, node: ofWMCO},
			[]string{"Unknown/ForeignNode", "Unknown/NotTried", "False/ConnectionRefused"}, []string{"kubectl windows adopt win-1 -n windows-hosts"}, v1alpha1.InstanceUnreachable},
		{"made a node by WMCO that runs, and unreachable", snapshot{instance: known(t), observation: unreachable, node: ofWMCO, inputs: wmcoRunsError{}},
			[]string{"Unknown/ManagedByWMCO", "Unknown/NotTried", "False/ConnectionRefused"}, nil, v1alpha1.InstanceUnreachable},
		{"duplicate", snapshot{instance: known(t), duplicate: "Instance win-0 already represents this host."},
			[]string{"Unknown/NotTried", "Unknown/NotTried", "False/DuplicateHost"}, nil, v1alpha1.InstanceFailed},
		{"paused", snapshot{instance: known(t), observation: setUpWith("", ""), paused: "Paused."},
			[]string{"Unknown/Paused", "Unknown/Paused", "Unknown/Paused"}, nil, v1alpha1.InstancePending},
		{"being removed", snapshot{instance: removing, observation: setUpWith(revision1, ""), node: ready},
			[]string{"True/Configured", "True/RevisionCurrent", "True/AllChecksPassed"}, nil, v1alpha1.InstanceRemoving},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.snapshot.managed, test.snapshot.now = true, testNow
			if test.snapshot.inputs == nil {
				test.snapshot.revision = revision1
			}
			got := evaluate(test.snapshot)
			var conditions []string
			text := ""
			for _, kind := range []string{v1alpha1.ConditionConfigured, v1alpha1.ConditionUpToDate, v1alpha1.ConditionReady} {
				c := meta.FindStatusCondition(got.Conditions, kind)
				if c == nil {
					t.Fatalf("there is no condition %s", kind)
				}
				conditions = append(conditions, string(c.Status)+"/"+c.Reason)
				if strings.Contains(c.Message, "%!") || c.Message == "" {
					t.Errorf("bad condition %+v", c)
				}
				text += c.Message + "\n"
			}
			if diff := cmp.Diff(test.want, conditions); diff != "" {
				t.Errorf("Configured, UpToDate, Ready (-want +got)\n%s", diff)
			}
			for _, want := range test.wantText {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in %q", want, text)
				}
			}
			if got.Phase != test.wantPhase {
				t.Errorf("got phase %s, want %s", got.Phase, test.wantPhase)
			}

			wantSettled(t, test.snapshot, got)
		})
	}
}

// Whoever starts the controller with a payload, or without it any more, must not have
// revisions of one kind compared with those of the other.
func TestEvaluateSwitchBetweenWatchedAndManaged(t *testing.T) {
	instance := known(t)
	instance.Status = evaluate(snapshot{instance: instance, observation: healthy(), revision: testRevision, now: testNow})
	if instance.Status.CurrentRevision != testRevision {
		t.Fatalf("got revision %q", instance.Status.CurrentRevision)
	}

	got := evaluate(snapshot{instance: instance, managed: true, revision: revision1, now: testNow})
	if c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionConfigured); got.CurrentRevision != "" || got.DesiredRevision != revision1 || c.Reason != v1alpha1.ReasonNotTried {
		t.Errorf("with a payload: got current %q, desired %q, Configured %s", got.CurrentRevision, got.DesiredRevision, c.Reason)
	}
	instance.Status = evaluate(snapshot{instance: instance, managed: true, revision: revision1, observation: setUpWith(revision1, ""), now: testNow})

	got = evaluate(snapshot{instance: instance, revision: testRevision, now: testNow})
	if got.CurrentRevision != "" || meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionUpToDate) {
		t.Errorf("without a payload: got current %q, UpToDate true", got.CurrentRevision)
	}
}

// TestEvaluateLeftWhilePaused: to whom a paused host of WMCO is left follows WMCO, without which nobody would approve the certificate
// requests of its kubelet.
func TestEvaluateLeftWhilePaused(t *testing.T) {
	ofWMCO := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	ofWMCO.Annotations = map[string]string{wmco.VersionAnnotation: "11.0.0"}
	s := snapshot{instance: known(t), managed: true, observation: setUpWith("", ""), node: ofWMCO, inputs: wmcoRunsError{}, now: testNow}
	s.instance.Status = evaluate(s)
	s.observation, s.paused = nil, "It is paused."
	for _, step := range []struct {
		name   string
		inputs error
		want   string
	}{
		{"WMCO runs", wmcoRunsError{}, v1alpha1.ReasonManagedByWMCO},
		{"nobody could find out", errors.New("the API server does not answer"), v1alpha1.ReasonManagedByWMCO},
		{"WMCO has ended", nil, v1alpha1.ReasonForeignNode},
		{"nobody could find out", errors.New("the API server does not answer"), v1alpha1.ReasonForeignNode},
		{"WMCO runs again", wmcoRunsError{}, v1alpha1.ReasonManagedByWMCO},
	} {
		s.inputs = step.inputs
		got := evaluate(s)
		if conditions := conditionsOf(&got); !slices.Contains(conditions, "Configured=Unknown/"+step.want) || !slices.Contains(conditions, "UpToDate=Unknown/"+step.want) {
			t.Errorf("%s: got %v, want %s", step.name, conditions, step.want)
		}
		s.instance.Status = got
	}

	// It was paused before WMCO made it a Node.
	s.paused, s.node, s.observation, s.inputs = "", nil, setUpWith("", ""), wmcoRunsError{}
	s.instance.Status = evaluate(s)
	if got := conditionsOf(&s.instance.Status); !slices.Contains(got, "Configured=False/InputsMissing") {
		t.Fatalf("before it is a Node: %v", got)
	}
	s.paused, s.node, s.observation, s.inputs = "It is paused.", ofWMCO, nil, nil
	if got := evaluate(s); !slices.Contains(conditionsOf(&got), "Configured=Unknown/ForeignNode") {
		t.Errorf("when WMCO has made it a Node and ended: %v", conditionsOf(&got))
	}
	s.instance.Status = v1alpha1.WindowsInstanceStatus{MachineID: s.instance.Status.MachineID}
	if got := evaluate(s); !slices.Contains(conditionsOf(&got), "Configured=Unknown/Paused") {
		t.Errorf("what nobody has found out before the pause: %v", conditionsOf(&got))
	}
}

// The generation of the condition is how the next attempt knows that the spec has changed.
func TestEvaluateFailureSpeaksOfTheGenerationThatFailed(t *testing.T) {
	instance := reconfigured(t, "", v1alpha1.OperationFailed)
	w := snapshot{instance: instance, managed: true, revision: revision1, observation: setUpWith("", ""), now: testNow}
	instance.Status = evaluate(w)
	instance.Generation = 2
	status := evaluate(w)
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConfigured); c.ObservedGeneration != 1 {
		t.Errorf("the failure speaks of generation %d", c.ObservedGeneration)
	}
	instance.Status = status
	instance.Status.Operation.ID = "op-2"
	status = evaluate(w)
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConfigured); c.ObservedGeneration != 2 {
		t.Errorf("the next failure speaks of generation %d", c.ObservedGeneration)
	}
}

// What is desired can change while the host is not looked at.
func TestEvaluateDesiredRevisionChangesWithoutALook(t *testing.T) {
	instance := known(t)
	instance.Status = evaluate(snapshot{instance: instance, managed: true, revision: revision1, observation: setUpWith(revision1, ""), now: testNow})

	got := evaluate(snapshot{instance: instance, managed: true, revision: revision2, now: testNow})
	if !slices.Contains(conditionsOf(&got), "UpToDate=False/RevisionOutdated") || !slices.Contains(conditionsOf(&got), "Configured=True/Configured") {
		t.Errorf("got %v", conditionsOf(&got))
	}
	instance.Status = got
	got = evaluate(snapshot{instance: instance, managed: true, inputs: errors.New("nothing is known"), now: testNow})
	if !slices.Contains(conditionsOf(&got), "UpToDate=Unknown/InputsMissing") || got.DesiredRevision != revision2 {
		t.Errorf("got %v, desired %q", conditionsOf(&got), got.DesiredRevision)
	}
	instance.Status = got
	got = evaluate(snapshot{instance: instance, managed: true, revision: revision1, now: testNow})
	if !slices.Contains(conditionsOf(&got), "UpToDate=True/RevisionCurrent") {
		t.Errorf("got %v", conditionsOf(&got))
	}
}

func TestEvaluateTellsOfDriftThatIsLeft(t *testing.T) {
	var left []api.Item
	for i := range 12 {
		left = append(left, api.Item{Kind: "File", Name: fmt.Sprintf(`C:\k\%d`, i)})
	}
	o := healthy(func(f *api.Facts) {
		f.Configuration = api.ConfigurationFacts{AppliedRevision: revision1, Drift: &api.Drift{Revision: revision1, Left: left}}
	})
	status := evaluate(snapshot{instance: known(t), managed: true, revision: revision1, observation: o, now: testNow})
	if got := messageOf(t, &status, v1alpha1.ConditionUpToDate); !strings.Contains(got, `File C:\k\9 and 2 more. To repair it: kubectl windows reconfigure win-1 -n windows-hosts`) {
		t.Errorf("got %q", got)
	}
	o.report.configuration.Drift.Left = []api.Item{
		{Kind: "File", Name: "drained"}, {Kind: "File", Name: "fought", Left: api.LeftContested}, {Kind: "File", Name: "full", Left: api.LeftFailed},
	}
	status = evaluate(snapshot{instance: known(t), managed: true, revision: revision1, observation: o, now: testNow})
	for _, want := range []string{"needs a drain, a restart or a file: File drained. ", "changed by something else each time: File fought. ", "the repair fails: File full. "} {
		if got := messageOf(t, &status, v1alpha1.ConditionUpToDate); !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
}

// TestEvaluateTellsThatTheAgentDoesNotRun: a Node may be ready all the same, and nobody else would notice.
func TestEvaluateTellsThatTheAgentDoesNotRun(t *testing.T) {
	const says = "The host has revision 111111111111. Service windows-node-agent does not run on the host, so that nothing repairs it, starts kube-proxy or makes its routes. " +
		"To repair it: kubectl windows reconfigure win-1 -n windows-hosts"
	agent := func(state string) func(*api.Facts) {
		return func(f *api.Facts) { f.Services = append(f.Services, api.Service{Name: api.ServiceName, State: state}) }
	}
	for _, tt := range []struct {
		name   string
		change func(*api.Facts)
		want   bool
	}{
		{"it runs", agent("Running"), false},
		{"it is being started", agent("StartPending"), false},
		{"it is stopped", agent("Stopped"), true},
		{"somebody has deleted it", func(*api.Facts) {}, true},
		{"it cannot be read", func(f *api.Facts) { f.Errors = append(f.Errors, api.FactError{Area: "services/" + api.ServiceName}) }, false},
		{"no service can be read", func(f *api.Facts) { f.Services, f.Errors = nil, append(f.Errors, api.FactError{Area: "services"}) }, false},
		{"the host was adopted", func(f *api.Facts) { f.Configuration.AppliedRevision = wmco.AdoptedRevision("11.0.0") }, false},
		{"it is being replaced", func(f *api.Facts) { agent("Stopped")(f); f.Configuration.ApplyingRevision = revision2 }, false},
		{"the host is not configured", func(f *api.Facts) { f.Configuration.AppliedRevision = "" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			revision := ""
			o := healthy(func(f *api.Facts) {
				f.Configuration = api.ConfigurationFacts{AppliedRevision: revision1}
				f.Services = append(f.Services, api.Service{Name: wmco.KubeletService, State: "Running"})
				tt.change(f)
				revision = f.Configuration.AppliedRevision
			})
			status := evaluate(snapshot{instance: known(t), managed: true, revision: revision, observation: o, now: testNow})
			got := messageOf(t, &status, v1alpha1.ConditionUpToDate)
			if tt.want && got != says || !tt.want && strings.Contains(got, api.ServiceName) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// scriptedDesired answers what it is told.
type scriptedDesired struct {
	mu       sync.Mutex
	revision string
	err      error
	kept     string // why metrics go on
	// notKept: the revision of the pool is not kept yet, and same is whether it has the programs of the one that the host had.
	notKept, same bool
	asked         []*v1alpha1.WindowsInstance
}

func (d *scriptedDesired) Revision(_ context.Context, instance *v1alpha1.WindowsInstance, _ *v1alpha1.WindowsNodePool, _ *corev1.Node) (revision string, waiting, warnings []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, instance)
	return d.revision, nil, nil, d.err
}

func (*scriptedDesired) PoolRevision(context.Context, *v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool, *corev1.Node) (string, error) {
	return "p-1", nil
}

func (d *scriptedDesired) SamePrograms(_ context.Context, _ *v1alpha1.WindowsNodePool, _, had string) (same, known bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.same && !d.notKept && had != "", !d.notKept, nil
}

func (d *scriptedDesired) MetricsKept() string { return d.kept } // never changes

func (*scriptedDesired) NodeNames() (wmco.HostnameSource, bool) {
	return wmco.HostnameOfWindows, true
}

func TestReconcileManaged(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"))
	desired := &scriptedDesired{revision: revision1, kept: "there is no certificate"}
	f.r.Desired = desired
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceConnected, "PreflightPassed=True/PreflightPassed", "Configured=False/Configuring", "UpToDate=False/RevisionOutdated")
	for _, instance := range desired.asked {
		if instance.Status.System == nil || instance.Status.System.Hostname != "win-1" {
			t.Error("the desired configuration of the host was asked for before anything was known of it")
		}
	}
	f.journal.take()

	// An operation sets it up and ends.
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.facts = goodFacts()
		h.facts.Configuration.AppliedRevision = revision1
	})
	instance := f.get("win-1")
	instance.Status.Operation = &v1alpha1.Operation{ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, FinishedAt: &metav1.Time{Time: f.clock.Now().Truncate(time.Second)}}
	if err := f.client.Status().Update(context.Background(), instance); err != nil {
		t.Fatal(err)
	}
	if got := f.settle("win-1").RequeueAfter; got <= 0 || got > time.Second {
		t.Errorf("the host is looked at again after %s", got)
	}
	f.expect("win-1", v1alpha1.InstanceConnected, "Configured=False/Configuring")
	f.clock.Step(time.Second)
	f.settle("win-1")
	f.expect("win-1", v1alpha1.InstanceJoining, "Configured=True/Configured", "UpToDate=True/RevisionCurrent")
	if got := f.journal.take(); !slices.Contains(got, "event win-1 Normal Configured") {
		t.Errorf("got %v", got)
	}

	// Nothing to do causes no writes.
	f.settle("win-1")
	f.expectJournal()

	// Only a host that serves metrics goes on with that.
	says := func(want bool) {
		t.Helper()
		status := f.get("win-1").Status
		if got := messageOf(t, &status, v1alpha1.ConditionUpToDate); strings.Contains(got, "Warnings: There is no certificate.") != want {
			t.Errorf("got %q", got)
		}
	}
	says(false)
	for path, want := range map[string]bool{`"C:\Program Files\windows_exporter\windows_exporter.exe" --log.level=info`: false, `C:\k\windows_exporter.exe --log.level=info`: true} {
		f.hosts.set("10.1.42.1", func(h *scriptedHost) {
			h.facts.Services = []api.Service{{Name: wmco.WindowsExporterService, Path: path}}
		})
		f.clock.Step(10 * time.Minute)
		f.settle("win-1")
		says(want)
	}

	desired.mu.Lock()
	desired.err = errors.New("there is no Secret")
	desired.mu.Unlock()
	if got := f.settle("win-1").RequeueAfter; got != inputsRetry {
		t.Errorf("what was missing is looked for again after %s", got)
	}
	f.expect("win-1", v1alpha1.InstanceJoining, "Configured=True/Configured", "UpToDate=Unknown/InputsMissing")
}

// The object of an instance that was deleted stays until its host is clean. What is known
// of the host is needed for that, and nobody else may use the host meanwhile.
func TestReconcileInstanceThatIsBeingRemoved(t *testing.T) {
	leaving, next := newInstance("leaving", "10.1.42.1"), newInstance("next", "10.1.42.1")
	leaving.CreationTimestamp = metav1.NewTime(testNow.Add(-2 * time.Hour))
	f := newFixture(t, leaving, next)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.key = newKey(t, "host") })
	f.settle("leaving")
	before := f.get("leaving").Status
	if err := f.client.Delete(context.Background(), f.get("leaving")); err != nil {
		t.Fatal(err)
	}
	f.settle("leaving")

	after := f.get("leaving").Status
	f.expect("leaving", v1alpha1.InstanceRemoving, "Authenticated=True/LoggedIn", "Ready=False/Removing")
	if !equality.Semantic.DeepEqual(before.HostKeys, after.HostKeys) || len(f.hosts.takeForgotten()) > 0 {
		t.Error("the host is forgotten before it is clean")
	}
	f.settle("next")
	f.expect("next", v1alpha1.InstanceFailed, "Resolved=False/DuplicateHost")
	status := f.get("next").Status
	if text := messageOf(t, &status, v1alpha1.ConditionResolved); !strings.Contains(text, "Instance leaving, which was deleted, represents this host") {
		t.Errorf("got %q", text)
	}

	f.release("leaving")
	f.reconcile("leaving")
	if got := f.hosts.takeForgotten(); len(got) != 1 {
		t.Errorf("forgotten are the connections of %v", got)
	}
	f.settle("next")
	f.expect("next", v1alpha1.InstanceConnected, "Authenticated=True/LoggedIn")
}

func TestRestoreLooksAtOnceAtWhatIsNotSettled(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Status: status, Reason: reason}}
	}
	for _, test := range []struct {
		name       string
		conditions []metav1.Condition
		want       bool
	}{
		{"was only watched before", nil, true},
		{"was not managed", condition(metav1.ConditionUnknown, v1alpha1.ReasonNotManaged), true},
		{"was being set up", condition(metav1.ConditionFalse, v1alpha1.ReasonConfiguring), true},
		{"set up", condition(metav1.ConditionTrue, v1alpha1.ReasonConfigured), false},
		{"failed", condition(metav1.ConditionFalse, v1alpha1.ReasonConfigurationFailed), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := newInstance("win-1", "10.1.42.1")
			instance.Status.Conditions = test.conditions
			if got := unsettled(instance); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// A change of the cluster concerns every instance.
func TestEveryone(t *testing.T) {
	f := newFixture(t, newInstance("win-1", "10.1.42.1"), newInstance("win-2", "10.1.42.2"))
	got := f.r.everyone(context.Background(), event.GenericEvent{}.Object)
	want := []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: testNamespace, Name: "win-1"}},
		{NamespacedName: types.NamespacedName{Namespace: testNamespace, Name: "win-2"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// heldBy gives an instance our finalizer.
func heldBy(instance *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	instance.Finalizers = append(instance.Finalizers, v1alpha1.HostFinalizer)
	return instance
}

// TestPoolRevisionNotKeptYet: the template of a pool is known before its revision is kept. What the host works with, and which programs it has
// of before, is recorded when it is, and not guessed.
func TestPoolRevisionNotKeptYet(t *testing.T) {
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "rack-1"}}
	host := newInstance("win-1", "10.1.42.1")
	host.Spec.PoolRef = &v1alpha1.PoolReference{Name: pool.Name}
	f := newFixture(t, host, newInstance("win-2", "10.1.42.2"))
	desired := &scriptedDesired{revision: revision1, same: true}
	f.r.Desired = desired
	works := func() v1alpha1.WindowsInstanceStatus {
		t.Helper()
		of := known(t)
		of.Spec.PoolRef, of.Status.PoolRevision, of.Status.PreviousPoolRevision = host.Spec.PoolRef, "p-0", "p-00"
		s := snapshot{instance: of, managed: true, now: testNow, node: newNode("win-1", "10.1.42.1", corev1.ConditionTrue), observation: healthy(func(f *api.Facts) {
			f.Configuration = api.ConfigurationFacts{AppliedRevision: revision1}
		})}
		f.r.readDesired(t.Context(), &s, pool)
		return evaluate(s)
	}
	desired.notKept = true
	if got := works(); got.PoolRevision != "p-0" || got.PreviousPoolRevision != "p-00" {
		t.Errorf("before it is kept: it works with %q, and with %q before", got.PoolRevision, got.PreviousPoolRevision)
	}
	desired.notKept = false
	if got := works(); got.PoolRevision != "p-1" || got.PreviousPoolRevision != "p-00" {
		t.Errorf("it works with %q, and with %q before", got.PoolRevision, got.PreviousPoolRevision)
	}
	desired.same = false
	if got := works(); got.PoolRevision != "p-1" || got.PreviousPoolRevision != "p-0" {
		t.Errorf("with other programs: it works with %q, and with %q before", got.PoolRevision, got.PreviousPoolRevision)
	}

	kept := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "p-1", OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsNodePool", Name: pool.Name, Controller: new(true)}}}}
	want := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: testNamespace, Name: "win-1"}}}
	if diff := cmp.Diff(want, f.r.hostsOfRevision(t.Context(), kept)); diff != "" || !revisionKept.Create(event.CreateEvent{Object: kept}) {
		t.Errorf("that it is kept wakes (-want +got)\n%s", diff)
	}
	kept.OwnerReferences[0].APIVersion, kept.OwnerReferences[0].Kind = "apps/v1", "DaemonSet"
	if got := f.r.hostsOfRevision(t.Context(), kept); len(got) > 0 || revisionKept.Update(event.UpdateEvent{ObjectOld: kept, ObjectNew: kept}) {
		t.Errorf("one of a workload wakes %v", got)
	}
}

// TestEvaluatePoolRevision: a host worked with a revision of its pool when it had it completely, its Node was ready, and nothing
// has failed since.
func TestEvaluatePoolRevision(t *testing.T) {
	node := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	observed := func(applied string) *observation {
		return healthy(func(f *api.Facts) { f.Configuration = api.ConfigurationFacts{AppliedRevision: applied} })
	}
	for _, tt := range []struct {
		name   string
		of     *v1alpha1.WindowsInstance
		s      snapshot
		noPool bool
		// want is what it works with, and before what it worked with before that, which was p-0.
		want, before string
	}{
		{name: "it works", of: known(t), s: snapshot{observation: observed(revision1), node: node, poolRevision: "p-2"}, want: "p-2", before: "p-1"},
		{name: "it works as before", of: known(t), s: snapshot{observation: observed(revision1), node: node, poolRevision: "p-1"}, want: "p-1", before: "p-0"},
		{name: "an update succeeded", of: reconfigured(t, revision1, v1alpha1.OperationSucceeded), s: snapshot{observation: observed(revision1), node: node, poolRevision: "p-2"}, want: "p-2", before: "p-1"},
		{name: "it has another one", of: known(t), s: snapshot{observation: observed(revision2), node: node, poolRevision: "p-2"}, want: "p-1", before: "p-0"},
		{name: "its Node is not ready", of: known(t), s: snapshot{observation: observed(revision1), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse), poolRevision: "p-2"}, want: "p-1", before: "p-0"},
		{name: "it is being changed", of: reconfigured(t, revision1, v1alpha1.OperationRunning), s: snapshot{observation: observed(revision1), node: node, poolRevision: "p-2"}, want: "p-1"},
		{name: "the update failed when all was changed", of: reconfigured(t, revision1, v1alpha1.OperationFailed), s: snapshot{observation: observed(revision1), node: node, poolRevision: "p-2"}, want: "p-1"},
		{name: "an update broke it", of: reconfigured(t, revision1, v1alpha1.OperationSucceeded), s: snapshot{observation: observed(revision1), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse), poolRevision: "p-2"}, want: "p-1"},
		{name: "an update with the same programs broke it", of: reconfigured(t, revision1, v1alpha1.OperationSucceeded), s: snapshot{observation: observed(revision1), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse), poolRevision: "p-2", samePrograms: true}, want: "p-1", before: "p-0"},
		{name: "it goes back to the programs of before", of: reconfigured(t, revision1, v1alpha1.OperationRunning), s: snapshot{observation: observed(revision1), node: node, poolRevision: "p-2", programsOfBefore: true}, want: "p-1", before: "p-0"},
		{name: "it goes back to what somebody wants, and has had more programs before", of: reconfigured(t, revision1, v1alpha1.OperationRunning), s: snapshot{
			observation: observed(revision1), node: node, poolRevision: "p-2",
			rolledBack: &v1alpha1.PoolRollback{Revision: "p-1", To: "p-2", RequestedBy: "alice"},
		}, want: "p-1", before: "p-0"},
		{name: "it has gone back to what somebody wants", of: reconfigured(t, revision1, v1alpha1.OperationSucceeded), s: snapshot{
			observation: observed(revision1), node: node, poolRevision: "p-2", programsOfBefore: true,
			rolledBack: &v1alpha1.PoolRollback{Revision: "p-1", To: "p-2", RequestedBy: "alice"},
		}, want: "p-2"},
		{name: "it has gone back to what somebody wants, and has had more programs before", of: reconfigured(t, revision1, v1alpha1.OperationSucceeded), s: snapshot{
			observation: observed(revision1), node: node, poolRevision: "p-2",
			rolledBack: &v1alpha1.PoolRollback{Revision: "p-1", To: "p-2", RequestedBy: "alice"},
		}, want: "p-2", before: "p-0"},
		{name: "it has the programs of before again", of: reconfigured(t, revision1, v1alpha1.OperationSucceeded), s: snapshot{
			observation: observed(revision1), node: node, poolRevision: "p-2", programsOfBefore: true,
		}, want: "p-2", before: "p-1"},
		{name: "it gets another one than somebody wants", of: reconfigured(t, revision1, v1alpha1.OperationRunning), s: snapshot{
			observation: observed(revision1), node: node, poolRevision: "p-2",
			rolledBack: &v1alpha1.PoolRollback{Revision: "p-1", To: "p-3", RequestedBy: "alice"},
		}, want: "p-1"},
		{name: "it works with another template and the same programs", of: known(t), s: snapshot{observation: observed(revision1), node: node, poolRevision: "p-2", samePrograms: true}, want: "p-2", before: "p-0"},
		{name: "nobody knows which one it is", of: known(t), s: snapshot{observation: observed(revision1), node: node}, want: "p-1", before: "p-0"},
		{name: "it is in no pool", of: known(t), s: snapshot{observation: observed(revision1), node: node}, noPool: true},
		{name: "it was broken by what it has, and that is rolled back", of: known(t), s: snapshot{
			observation: observed(revision1), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse), poolRevision: "p-0",
			rolledBack: &v1alpha1.PoolRollback{Revision: "p-1", To: "p-0", Instances: []string{"win-1"}},
		}, want: "p-0"},
		{name: "it was broken by what it has, and cannot have what its pool goes back to", of: known(t), s: snapshot{
			observation: observed(revision1), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse),
			rolledBack: &v1alpha1.PoolRollback{Revision: "p-1", To: "p-0", Instances: []string{"win-1"}},
		}, want: "p-1", before: "p-0"},
		{name: "it was installed again", of: known(t), s: snapshot{observation: observed("")}},
		{name: "it does not say what was configured on it", of: known(t), s: snapshot{observation: healthy(func(f *api.Facts) {
			f.Errors = append(f.Errors, api.FactError{Area: "configuration"})
		})}, want: "p-1", before: "p-0"},
		{name: "its first configuration was interrupted", of: known(t), s: snapshot{observation: setUpWith("", revision1)}, want: "p-1", before: "p-0"},
		{name: "another one was broken by it", of: known(t), s: snapshot{
			observation: observed(revision1), node: newNode("win-1", "10.1.42.1", corev1.ConditionFalse), poolRevision: "p-1",
			rolledBack: &v1alpha1.PoolRollback{Revision: "p-1", To: "p-0", Instances: []string{"win-2"}},
		}, want: "p-1", before: "p-0"},
		{name: "it works with it after all", of: known(t), s: snapshot{
			observation: observed(revision1), node: node, poolRevision: "p-1",
			rolledBack: &v1alpha1.PoolRollback{Revision: "p-1", To: "p-0", Instances: []string{"win-1"}},
		}, want: "p-1", before: "p-0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.of.Status.PoolRevision, tt.of.Status.PreviousPoolRevision, tt.of.Spec.PoolRef = "p-1", "p-0", &v1alpha1.PoolReference{Name: "p"}
			if tt.noPool {
				tt.of.Spec.PoolRef = nil
			}
			if op := tt.of.Status.Operation; op != nil {
				op.HostChanged = true
			}
			tt.s.instance, tt.s.managed, tt.s.revision, tt.s.now, tt.s.desiredPool = tt.of, true, revision1, testNow, tt.s.poolRevision
			got := evaluate(tt.s)
			if got.PoolRevision != tt.want || got.PreviousPoolRevision != tt.before {
				t.Errorf("it works with %q, and with %q before, want %q and %q: %v", got.PoolRevision, got.PreviousPoolRevision, tt.want, tt.before, conditionsOf(&got))
			}
			if got.DesiredPoolRevision != tt.s.poolRevision {
				t.Errorf("desired is %q, want %q", got.DesiredPoolRevision, tt.s.poolRevision)
			}
		})
	}
}

// TestDesiredPoolRevision: which revision of its pool is desired of a host is said together with the desired configuration, and stays with it.
func TestDesiredPoolRevision(t *testing.T) {
	for name, tt := range map[string]struct {
		s            snapshot
		want, ofPool string
	}{
		"it is known":                       {snapshot{managed: true, revision: revision2, desiredPool: "p-2"}, revision2, "p-2"},
		"it cannot be read for a moment":    {snapshot{managed: true, revision: revision1, pool: &v1alpha1.WindowsNodePool{}}, revision1, "p-1"},
		"it has left its pool":              {snapshot{managed: true, revision: revision1}, revision1, ""},
		"it is of none":                     {snapshot{managed: true, revision: revision2}, revision2, ""},
		"what is desired cannot be said":    {snapshot{managed: true, inputs: errors.New("it is missing")}, revision1, "p-1"},
		"hosts are only watched since then": {snapshot{revision: revision2}, revision2, ""},
	} {
		i := known(t)
		i.Status.DesiredRevision, i.Status.DesiredPoolRevision = revision1, "p-1"
		i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfigured}}
		tt.s.instance, tt.s.now = i, testNow
		if got := evaluate(tt.s); got.DesiredRevision != tt.want || got.DesiredPoolRevision != tt.ofPool {
			t.Errorf("%s: %q of %q", name, got.DesiredRevision, got.DesiredPoolRevision)
		}
	}
}

// TestHeldFromItsUpdate: the condition says what keeps a host from its update, and is not written once more for what nobody says at the moment.
func TestHeldFromItsUpdate(t *testing.T) {
	const (
		base   = "The host has revision 222222222222; the desired one is 111111111111."
		window = "It is updated when it gets a disruption slot in the window of pool p (spec.updateStrategy.window)."
	)
	says := func(text string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRevisionOutdated, Message: text})
		}
	}
	inPool := func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "p"} }
	runs := func(i *v1alpha1.WindowsInstance) {
		i.Status.Operation = &v1alpha1.Operation{ID: "op-1", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationRunning}
	}
	for _, tt := range []struct {
		name  string
		edit  []func(*v1alpha1.WindowsInstance)
		held  string
		known bool
		want  string
	}{
		{"it waits for its turn", []func(*v1alpha1.WindowsInstance){inPool}, "", true, base},
		{"in no pool", nil, "", true, base + " It is updated when it gets a disruption slot: at most one of the hosts in no pool of a namespace is out of service at a time."},
		{"it waits for a window", []func(*v1alpha1.WindowsInstance){inPool, says(base)}, window, true, base + " " + window},
		{"nobody says it yet", []func(*v1alpha1.WindowsInstance){inPool, says(base + " " + window)}, "", false, base + " " + window},
		{"and another revision is wanted", []func(*v1alpha1.WindowsInstance){inPool, says("The host has revision 333333333333; the desired one is 222222222222. " + window)}, "", false, base},
		{"it does not wait any more", []func(*v1alpha1.WindowsInstance){inPool, says(base + " " + window)}, "", true, base},
		{"because it is updated", []func(*v1alpha1.WindowsInstance){inPool, says(base + " " + window), runs}, "", true, base + " " + window},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := heldBy(known(t))
			i.Status.History = []v1alpha1.Operation{{ID: "op-0", Type: v1alpha1.OperationReconfigure, Phase: v1alpha1.OperationSucceeded, HostChanged: true}}
			meta.SetStatusCondition(&i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfigured})
			for _, edit := range tt.edit {
				edit(i)
			}
			got := evaluate(snapshot{
				instance: i, managed: true, revision: revision1, held: tt.held, heldKnown: tt.known, now: testNow,
				observation: setUpWith(revision2, ""), node: newNode("win-1", "10.1.42.1", corev1.ConditionTrue),
			})
			if c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionUpToDate); c == nil || c.Message != tt.want {
				t.Errorf("got %+v", c)
			}
		})
	}
}
