// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/kubelet"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestOperation has hosts drained and restarted. Its tests share a system, as some of
// them kill its programs.
func TestOperation(t *testing.T) {
	t.Parallel()
	key, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s := startSystem(t, system.Options{
		PrivateKey:     key,
		ControllerArgs: []string{"--dial-timeout=2s", "--recheck-interval=2s"},
	})
	t.Run("calm", func(t *testing.T) {
		calm := newGroup(t)
		defer calm.wait()
		calm.run("drain waits for a budget", func(t *testing.T) { drainWaitsForBudget(t, newNodeHost(t, s, signer, "drain")) })
		calm.run("drain passes over a budget", func(t *testing.T) { drainPassesOverBudget(t, newNodeHost(t, s, signer, "past")) })
		calm.run("cancel", func(t *testing.T) { cancelDrain(t, newNodeHost(t, s, signer, "cancel")) })
		calm.run("host does not come back", func(t *testing.T) { hostStaysOff(t, newNodeHost(t, s, signer, "off")) })
		calm.run("only if pending", func(t *testing.T) { rebootIfPending(t, newNodeHost(t, s, signer, "pending")) })
		calm.run("reconfigure", func(t *testing.T) { reconfigure(t, newNodeHost(t, s, signer, "reconfigure")) })
	})
	t.Run("killed at every step", func(t *testing.T) { rebootInSpiteOfKills(t, newNodeHost(t, s, signer, "killed")) })
}

// nodeHost is a host with a Node and a stand-in for its kubelet.
type nodeHost struct {
	sys  *system.System
	host winhost.Host
	name string

	kubelet *kubelet.Kubelet
}

// newNodeHost starts a host, makes its instance and its Node, and waits until the two
// have found each other.
func newNodeHost(t *testing.T, s *system.System, signer ssh.Signer, name string) *nodeHost {
	t.Helper()
	h := &nodeHost{
		sys: s, name: name,
		host: startHost(t, winhost.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}}),
	}
	if err := kubelet.Register(t.Context(), s.Kube, kubelet.Node{Name: name, Address: h.host.Address()}); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.kubelet, err = kubelet.Start(kubelet.Options{Client: s.Kube, Node: name, Logf: t.Logf}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kubelet.Stop)
	if _, err := instances(s).Create(t.Context(), &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: h.host.Address(), Port: int32(h.host.Port()), Username: h.host.User()},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.wait(t, "the host is ready", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.Phase != v1alpha1.InstanceReady || i.Status.Node == nil {
			return fmt.Errorf("it is %s", i.Status.Phase)
		}
		return nil
	})
	return h
}

// runPod puts a pod on the Node that is ready and counts for budgets; owners are what manages it.
func (h *nodeHost) runPod(t *testing.T, name string, seconds int64, owners ...metav1.OwnerReference) {
	t.Helper()
	pods := h.sys.Kube.CoreV1().Pods(metav1.NamespaceDefault)
	eventually(t, "the pod is created", func() error { // its service account may not be there yet
		_, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}, OwnerReferences: owners},
			Spec: corev1.PodSpec{
				NodeName: h.name, TerminationGracePeriodSeconds: &seconds, AutomountServiceAccountToken: new(false),
				Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	eventually(t, "the pod runs", func() error {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
}

// protect makes a budget that lets no pod of the name go.
func (h *nodeHost) protect(t *testing.T, pod string) {
	t.Helper()
	budgets := h.sys.Kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	one := intstr.FromInt32(1)
	if _, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: pod},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the budget counts the pod", func() error {
		budget, err := budgets.Get(t.Context(), pod, metav1.GetOptions{})
		if err == nil && budget.Status.CurrentHealthy != 1 {
			err = fmt.Errorf("it counts %d", budget.Status.CurrentHealthy)
		}
		return err
	})
}

// wait waits until the instance is as it should be. The API may be down meanwhile.
func (h *nodeHost) wait(t *testing.T, what string, condition func(*v1alpha1.WindowsInstance) error) *v1alpha1.WindowsInstance {
	t.Helper()
	return waitInstance(t, instances(h.sys), h.name, what, condition)
}

// waitForEnd waits for the end of an operation and says how it should have ended.
func (h *nodeHost) waitForEnd(t *testing.T, id string, want v1alpha1.OperationPhase) *v1alpha1.Operation {
	t.Helper()
	instance := h.wait(t, "the operation ends", func(i *v1alpha1.WindowsInstance) error {
		if op := i.Status.Operation; op == nil || op.ID != id || op.FinishedAt == nil {
			return fmt.Errorf("it is %+v", op)
		}
		return nil
	})
	op := instance.Status.Operation
	if op.Phase != want {
		t.Fatalf("the operation is %s, want %s: %s\n%s", op.Phase, want, op.Message, describeSteps(op))
	}
	return op
}

func describeSteps(op *v1alpha1.Operation) string {
	var b strings.Builder
	for _, step := range op.Steps {
		fmt.Fprintf(&b, "%s=%s (%s)\n", step.Name, step.State, step.Message)
	}
	return b.String()
}

func (h *nodeHost) drain(t *testing.T) *v1alpha1.Operation {
	t.Helper()
	return h.drainWith(t, v1alpha1.DrainOptions{Force: true})
}

func (h *nodeHost) drainWith(t *testing.T, o v1alpha1.DrainOptions) *v1alpha1.Operation {
	t.Helper()
	answer, err := instances(h.sys).Drain(t.Context(), h.name, &v1alpha1.WindowsInstanceDrain{
		Spec: v1alpha1.WindowsInstanceDrainSpec{DrainOptions: o},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Operation
}

func (h *nodeHost) reboot(t *testing.T, o v1alpha1.RebootOptions) *v1alpha1.Operation {
	t.Helper()
	answer, err := instances(h.sys).Reboot(t.Context(), h.name, &v1alpha1.WindowsInstanceReboot{
		Spec: v1alpha1.WindowsInstanceRebootSpec{RebootOptions: o, Drain: &v1alpha1.DrainOptions{Force: true}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Operation
}

// mustBeCordoned fails the test unless the Node is, or is not.
func (h *nodeHost) mustBeCordoned(t *testing.T, want bool) {
	t.Helper()
	node, err := h.sys.Kube.CoreV1().Nodes().Get(t.Context(), h.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, marked := node.Annotations["windows.openshift.io/cordoned-by"]
	if node.Spec.Unschedulable != want || marked != want {
		t.Errorf("the Node is unschedulable: %v, and has our mark: %v, want %v", node.Spec.Unschedulable, marked, want)
	}
}

// waitForBlocked waits until the operation names the budget that is in its way.
func (h *nodeHost) waitForBlocked(t *testing.T, pod string) {
	t.Helper()
	h.wait(t, "the budget is named", func(i *v1alpha1.WindowsInstance) error {
		op := i.Status.Operation
		if op == nil || len(op.BlockedBy) != 1 {
			return fmt.Errorf("it is %+v", op)
		}
		if b := op.BlockedBy[0]; b.Namespace != metav1.NamespaceDefault || b.Name != pod || b.Budget != pod || b.Message == "" {
			return fmt.Errorf("it is blocked by %+v", b)
		}
		return nil
	})
}

func drainWaitsForBudget(t *testing.T, h *nodeHost) {
	h.runPod(t, "drain-free", 17)
	h.runPod(t, "drain-kept", 30)
	h.protect(t, "drain-kept")
	asked := h.drain(t)
	h.waitForBlocked(t, "drain-kept")
	_, err := instances(h.sys).Uncordon(t.Context(), h.name, &v1alpha1.WindowsInstanceUncordon{}, metav1.CreateOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("a second operation is not refused: %v", err)
	}
	if err := h.sys.Kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault).Delete(t.Context(), "drain-kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	op := h.waitForEnd(t, asked.ID, v1alpha1.OperationSucceeded)
	if op.RequestedBy == "" || len(op.BlockedBy) > 0 || op.Progress == nil || op.Progress.Done != 2 || op.Progress.Total != 2 {
		t.Errorf("got %+v", op)
	}
	for pod, want := range map[string]int64{"drain-free": 17, "drain-kept": 30} {
		if got, ok := h.kubelet.GracePeriod(pod); !ok || got != want {
			t.Errorf("pod %s got a grace period of %d s, want %d s", pod, got, want)
		}
	}
	h.mustBeCordoned(t, true)
	answer, err := instances(h.sys).Uncordon(t.Context(), h.name, &v1alpha1.WindowsInstanceUncordon{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.waitForEnd(t, answer.Status.Operation.ID, v1alpha1.OperationSucceeded)
	h.mustBeCordoned(t, false)
	h.wait(t, "the drain is in the history", func(i *v1alpha1.WindowsInstance) error {
		if len(i.Status.History) != 1 || i.Status.History[0].ID != asked.ID {
			return fmt.Errorf("the history is %+v", i.Status.History)
		}
		return nil
	})
	h.waitForEvents(t, "DrainStarted", "EvictionBlocked", "DrainSucceeded", "UncordonSucceeded")
}

// drainPassesOverBudget deletes a pod whose budget lets nobody evict it. That of a DaemonSet stays.
func drainPassesOverBudget(t *testing.T, h *nodeHost) {
	h.runPod(t, "past-kept", 5)
	h.protect(t, "past-kept")
	labels := map[string]string{"app": "past-daemon"}
	here := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{h.name}}},
	}}}}
	set, err := h.sys.Kube.AppsV1().DaemonSets(metav1.NamespaceDefault).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "past-daemon"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Affinity: &corev1.Affinity{NodeAffinity: here}, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing schedules the pod that its controller makes.
	h.runPod(t, "past-daemon", 5, *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet")))
	op := h.waitForEnd(t, h.drainWith(t, v1alpha1.DrainOptions{Force: true, DisableEviction: true}).ID, v1alpha1.OperationSucceeded)
	if op.Progress == nil || op.Progress.Done != 1 || op.Progress.Total != 1 {
		t.Errorf("got %+v", op.Progress)
	}
	if _, ok := h.kubelet.GracePeriod("past-kept"); !ok {
		t.Error("the pod with the budget was not ended")
	}
	if _, ok := h.kubelet.GracePeriod("past-daemon"); ok {
		t.Error("the pod of the DaemonSet was ended")
	}
}

// waitForEvents waits until there is an event for each reason.
func (h *nodeHost) waitForEvents(t *testing.T, reasons ...string) {
	t.Helper()
	eventually(t, "there are events", func() error {
		list, err := h.sys.Kube.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, reason := range reasons {
			n := 0
			for i := range list.Items {
				// The Node, which is told of as well, has the same name.
				if e := &list.Items[i]; e.Regarding.Kind == "WindowsInstance" && e.Regarding.Name == h.name && e.Reason == reason {
					n++
				}
			}
			if n != 1 {
				return fmt.Errorf("%d are %s", n, reason)
			}
		}
		return nil
	})
}

func cancelDrain(t *testing.T, h *nodeHost) {
	h.runPod(t, "cancel-kept", 30)
	h.protect(t, "cancel-kept")
	asked := h.drain(t)
	h.waitForBlocked(t, "cancel-kept")
	h.mustBeCordoned(t, true)
	if _, err := instances(h.sys).Cancel(t.Context(), h.name, &v1alpha1.WindowsInstanceCancel{
		Spec: v1alpha1.WindowsInstanceCancelSpec{OperationID: asked.ID},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	op := h.waitForEnd(t, asked.ID, v1alpha1.OperationCanceled)
	mustSay(t, op.Message, "Canceled by "+op.CancelRequestedBy, "Node cancel is schedulable")
	h.mustBeCordoned(t, false)
	if _, err := h.sys.Kube.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "cancel-kept", metav1.GetOptions{}); err != nil {
		t.Errorf("the pod that was to stay: %v", err)
	}
}

func hostStaysOff(t *testing.T, h *nodeHost) {
	h.host.SetRestart(winhost.RestartOptions{StaysOff: true})
	asked := h.reboot(t, v1alpha1.RebootOptions{TimeoutSeconds: new(int64(30))})
	op := h.waitForEnd(t, asked.ID, v1alpha1.OperationFailed)
	mustSay(t, op.Message, "did not come back within 30s", "ConnectionRefused", "Node off stays cordoned")
	h.mustBeCordoned(t, true)
	if n := h.host.Restarts(); n != 1 {
		t.Errorf("the host was restarted %d times", n)
	}
}

func rebootIfPending(t *testing.T, h *nodeHost) {
	asked := h.reboot(t, v1alpha1.RebootOptions{Mode: v1alpha1.RebootIfPending})
	op := h.waitForEnd(t, asked.ID, v1alpha1.OperationSucceeded)
	mustSay(t, op.Message, "does not wait for a restart")
	h.mustBeCordoned(t, false)
	if n := h.host.Restarts(); n != 0 {
		t.Errorf("the host was restarted %d times", n)
	}
}

func reconfigure(t *testing.T, h *nodeHost) {
	answer, err := instances(h.sys).Reconfigure(t.Context(), h.name, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.waitForEnd(t, answer.Status.Operation.ID, v1alpha1.OperationSucceeded)
}

// rebootInSpiteOfKills kills the controller as soon as it is seen at a step, at each of
// them, and the API server once on the way. The host is restarted once all the same.
func rebootInSpiteOfKills(t *testing.T, h *nodeHost) {
	h.runPod(t, "killed-pod", 30)
	// Pods stay, the host is down, and the kubelet is silent, until the controller was killed at these steps.
	h.host.SetRestart(winhost.RestartOptions{StaysOff: true})
	h.kubelet.SetKeep(true)
	asked := h.reboot(t, v1alpha1.RebootOptions{})
	killed := map[string]bool{}
	var op *v1alpha1.Operation
	eventuallyInstance(t, instances(h.sys), h.name, "the operation ends", func(i *v1alpha1.WindowsInstance, err error) error {
		if err != nil {
			return err
		}
		if op = i.Status.Operation; op.FinishedAt != nil {
			return nil
		}
		at := slices.IndexFunc(op.Steps, func(s v1alpha1.OperationStep) bool { return s.State == v1alpha1.StepRunning })
		if at < 0 || killed[op.Steps[at].Name] {
			return errors.New("it runs")
		}
		step := op.Steps[at].Name
		killed[step] = true
		h.sys.Controller.Kill9()
		if step == v1alpha1.StepBoot {
			h.sys.Server.Kill9()
			if err := h.sys.Server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the host is down", func() error { // a moment after it was asked
				if h.host.Restarts() == 0 {
					return errors.New("it is not")
				}
				return nil
			})
			h.host.SetRestart(winhost.RestartOptions{})
			if err := h.host.PowerOn(); err != nil {
				t.Fatal(err)
			}
		}
		h.kubelet.SetKeep(!killed[v1alpha1.StepDrain])
		h.kubelet.SetSilent(step != v1alpha1.StepNodeReady)
		if err := h.sys.Controller.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		return errors.New("it was killed")
	})
	if op.ID != asked.ID || op.Phase != v1alpha1.OperationSucceeded {
		t.Fatalf("the operation is %s: %s\n%s", op.Phase, op.Message, describeSteps(op))
	}
	if n := h.host.Restarts(); n != 1 {
		t.Errorf("the host was restarted %d times", n)
	}
	for _, step := range []string{v1alpha1.StepDrain, v1alpha1.StepBoot, v1alpha1.StepNodeReady} {
		if !killed[step] {
			t.Errorf("the controller was not killed at %s", step)
		}
	}
	for _, step := range op.Steps {
		want := v1alpha1.StepSucceeded
		if step.Name == v1alpha1.StepMetadataRoute {
			want = v1alpha1.StepSkipped
		}
		if step.State != want {
			t.Errorf("step %s is %s: %s", step.Name, step.State, step.Message)
		}
	}
	h.mustBeCordoned(t, false)
	t.Logf("killed at %v:\n%s", killed, describeSteps(op))
}
