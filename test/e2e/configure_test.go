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
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestConfigure sets hosts up. Its tests share a system; those of the second group change
// or break what all hosts depend on, and come one after the other.
func TestConfigure(t *testing.T) {
	t.Parallel()
	s := newSite(t, standin.PayloadOptions{Bytes: 1 << 20})
	t.Run("calm", func(t *testing.T) {
		calm := newGroup(t)
		defer calm.wait()
		for _, tt := range []struct {
			name string
			test func(*testing.T, *site)
		}{
			{"ConfigMap", configureFromConfigMap},
			{"Machine", configureFromMachine},
			{"change", configureChange},
			{"plan", configurePlan},
			{"rename", configureRename},
			{"remove and add again", removeAndAddAgain},
			{"remove what is half set up", removeHalfSetUp},
			{"remove all", removeAll},
			{"unreachable", removeUnreachable},
			{"namespace", removeNamespace},
			{"re-imaged", configureReimaged},
			{"come back", configureComesBack},
			{"credentials", configureRotatedCredentials},
			{"connection", configureCutConnection},
			{"full disk", configureFullDisk},
			{"hung service", configureHungService},
			{"power", configurePowerLoss},
			{"clock", configureWrongClock},
			{"foreign containerd", configureForeignRuntime},
			{"address changed", configureAddressChanged},
			{"renamed", configureRenamed},
			{"restored", configureRestored},
			{"foreign Node removed", removeForeignNode},
		} {
			calm.run(tt.name, func(t *testing.T) { tt.test(t, s) })
		}
	})
	t.Run("namespace without a controller", func(t *testing.T) { removeNamespaceWithoutController(t, s) })
	t.Run("mirror", func(t *testing.T) { configureMirror(t, s) })
	t.Run("wrong digest", func(t *testing.T) { configureWrongDigest(t, s) })
	t.Run("API server away", func(t *testing.T) { configureWithoutAPI(t, s) })
	t.Run("killed", func(t *testing.T) { configureInSpiteOfKills(t, s) })
	t.Run("leader lost", func(t *testing.T) { configureWithLostLeader(t, s) })
}

// configureFromConfigMap makes a Node of an entry, and takes it away with the entry.
func configureFromConfigMap(t *testing.T, s *site) {
	h := s.newHost(t, system.Namespace, "cfg-entry", winhost.Options{})
	other := s.newHost(t, system.Namespace, "cfg-entry2", winhost.Options{})
	six := s.newHost(t, system.Namespace, "cfg-ipv6", winhost.Options{})
	entryOfSix := fmt.Sprintf("username=%s\nport=%d\nname=%s\n", six.host.User(), six.secondAddress(t, "::1"), six.name)
	mustHaveJoined := h.watchJoin(t)
	configMaps := s.Kube.CoreV1().ConfigMaps(system.Namespace)
	config, err := configMaps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: sourceName},
		Data: map[string]string{
			h.host.Address():     entryFor(h.host, "name="+h.name),
			other.host.Address(): entryFor(other.host, "name="+other.name),
			loopbackIPv6Key:      entryOfSix,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	six.mustNeedIPv4(t)
	moveSix := func(from, to, entry string) {
		t.Helper()
		patch := fmt.Sprintf(`{"data":{%q:null,%q:%q}}`, from, to, entry)
		if _, err := configMaps.Patch(t.Context(), config.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	moveSix(loopbackIPv6Key, six.host.Address(), entryFor(six.host, "name="+six.name))
	h.waitReady(t)
	other.waitReady(t)
	six.waitReady(t)
	moveSix(six.host.Address(), loopbackIPv6Key, entryOfSix)
	six.mustStayNodeOverIPv6(t)
	node := h.node(t, h.name)
	for label, want := range map[string]string{
		corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: "10.0.20348", "node.openshift.io/os_id": "Windows", corev1.LabelHostname: h.name,
	} {
		if got := node.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	if !slices.Contains(node.Spec.Taints, corev1.Taint{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}) {
		t.Errorf("taints %+v", node.Spec.Taints)
	}
	mustHaveJoined()

	neighbor := undisturbed(t, other.subject())
	setEntry := func(value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"data":{%q:%s}}`, h.host.Address(), value)
		if _, err := configMaps.Patch(t.Context(), config.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	putEntryBack(t, h, func() { setEntry("null") }, func() { setEntry(fmt.Sprintf("%q", entryFor(h.host, "name="+h.name))) })
	setEntry("null")
	h.waitGone(t)
	h.mustBeClean(t)
	for _, reason := range []string{wmco.InstanceSetup, wmco.InstanceTeardown} {
		s.waitEvent(t, system.Namespace, sourceName, reason, system.Namespace+"/"+h.name)
	}
	other.waitReady(t)
	neighbor.mustHold(t)
}

// putEntryBack removes the entry of a host whose removal waits, and puts it back. The instance that
// follows takes the host over as it is, with what people had set on the one before.
func putEntryBack(t *testing.T, h *siteHost, remove, putBack func()) {
	patch := func(content string) {
		t.Helper()
		if _, err := h.instances(h.namespace).Patch(t.Context(), h.name, types.MergePatchType, []byte(content), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"metadata":{"labels":{"rack":"7"}},"spec":{"paused":true,"removal":{"afterSeconds":86400}}}`)
	before := h.get(t)
	calm := undisturbed(t, h.subject())
	remove()
	h.wait(t, "the removal waits", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionRemoved); c == nil || c.Reason != v1alpha1.ReasonPaused {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	putBack()
	patch(`{"spec":{"paused":false}}`)
	after := h.wait(t, "another instance has the host", func(i *v1alpha1.WindowsInstance) error {
		if i.UID == before.UID {
			return errors.New(describeConditions(i))
		}
		// It may have been probed before it is given the keys.
		if diff := cmp.Diff(before.Status.HostKeys, i.Status.HostKeys); diff != "" {
			return fmt.Errorf("the host key was recorded again (-before +after):\n%s", diff)
		}
		return isSetUp(i)
	})
	calm.mustHoldWithNewInstances(t, h.subject())
	if after.Labels["rack"] != "7" || after.Spec.Removal == nil || ptr.Deref(after.Spec.Removal.AfterSeconds, 0) != 86400 {
		t.Errorf("labels %v, removal %+v", after.Labels, after.Spec.Removal)
	}
}

// joinRequest is the name of a request for a certificate with which the host may join. Empty: there is none.
func (h *siteHost) joinRequest(t *testing.T) string {
	t.Helper()
	requests, err := h.Kube.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests.Items {
		if h.joinsWith(&requests.Items[i]) {
			return requests.Items[i].Name
		}
	}
	return ""
}

// joinsWith says whether the host joins with what a request is for.
func (h *siteHost) joinsWith(request *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Reason == "HostJoins" && strings.Contains(c.Message, " "+h.namespace+"/"+h.name+" ")
	})
}

// watchJoin returns a function for when the host has joined. It fails the test unless there has
// been a certificate for that, good for an hour, and nothing is left of it on the host. A host that joins
// again soon does so with the one that it was given before.
func (h *siteHost) watchJoin(t *testing.T) (mustHaveJoined func()) {
	t.Helper()
	requests := h.Kube.CertificatesV1().CertificateSigningRequests()
	before, err := requests.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	joins := make(chan *certificatesv1.CertificateSigningRequest, 1)
	if i := slices.IndexFunc(before.Items, func(r certificatesv1.CertificateSigningRequest) bool { return h.joinsWith(&r) }); i >= 0 {
		joins <- &before.Items[i]
	}
	watchFrom(t, before.ResourceVersion, requests.Watch, func(event watch.Event) (goesOn bool) {
		request, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok || event.Type == watch.Deleted || !h.joinsWith(request) {
			return true
		}
		select {
		case joins <- request:
		default: // there is one already
		}
		return false
	})
	return func() {
		t.Helper()
		select {
		case request := <-joins:
			if seconds := ptr.Deref(request.Spec.ExpirationSeconds, 0); seconds != 3600 {
				t.Errorf("the host joins with what is good for %d seconds", seconds)
			}
		case <-time.After(patience):
			t.Fatal("the host has joined, and there was no certificate for that")
		}
		if h.read(t, wmco.BootstrapKubeconfigPath) != "" {
			t.Error("the host has joined, and still has the credentials for that")
		}
	}
}

// configureFromMachine makes a Node of a Machine.
func configureFromMachine(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-machine")
	address := s.HostIP().Next().Next()
	h := s.newHost(t, namespace, "cfg-machine", winhost.Options{Address: address.String(), Port: 22})
	apply := func(args ...string) {
		t.Helper()
		if _, err := s.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	file := t.TempDir() + "/machine.yaml"
	writeFile(t, file, machineYAML(h.name, windowsLabel, ""))
	apply("apply", "-n", namespace, "-f", file)
	status := map[string]any{"status": map[string]any{"phase": "Provisioned", "addresses": []corev1.NodeAddress{internalIP(address.String())}}}
	apply("patch", "machine", h.name, "-n", namespace, "--subresource=status", "--type=merge", "-p", asJSON(t, status))
	h.waitReady(t)
}

// newPool makes a pool of hosts that are declared by hand.
func (s *site) newPool(t *testing.T, namespace, name string, template v1alpha1.PoolTemplate) {
	t.Helper()
	if _, err := s.Windows.WindowsV1alpha1().WindowsNodePools(namespace).Create(t.Context(), &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.WindowsNodePoolSpec{
			Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}, Template: template,
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *site) patchPool(t *testing.T, namespace, name, patch string) {
	t.Helper()
	if _, err := s.Windows.WindowsV1alpha1().WindowsNodePools(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func inPool(name string) func(*v1alpha1.WindowsInstanceSpec) {
	return func(spec *v1alpha1.WindowsInstanceSpec) {
		spec.PoolRef = &v1alpha1.PoolReference{Name: name}
	}
}

// configureChange changes nothing, then one thing after the other, and looks at what it costs.
func configureChange(t *testing.T, s *site) {
	const pool = "p"
	namespace := s.namespace(t, "cfg-change")
	s.newPool(t, namespace, pool, v1alpha1.PoolTemplate{NodeLabels: map[string]string{"example.com/rack": "r1", "example.com/old": "x"}})
	h := s.newHost(t, namespace, "cfg-change", winhost.Options{})
	h.declare(t, inPool(pool))
	first := h.waitReady(t)
	h.waitLabels(t, map[string]string{"example.com/rack": "r1", "example.com/old": "x"})
	starts, restarts := h.kubelets.Load(), h.host.Restarts()

	t.Run("nothing", func(t *testing.T) {
		h.settle(t)
		before, version := h.state(t), h.get(t).ResourceVersion
		looks := len(h.host.Commands())
		eventually(t, "the host is looked at twice", func() error {
			if n := len(h.host.Commands()); n < looks+2 {
				return fmt.Errorf("it was %d times", n-looks)
			}
			return nil
		})
		if now := h.get(t); now.ResourceVersion != version {
			t.Errorf("the instance was written: %s\nmanaged fields %+v", describeConditions(now), now.ManagedFields)
		}
		op := h.waitOperation(t, h.reconfigure(t).ID)
		if op.Phase != v1alpha1.OperationSucceeded || op.Impact != v1alpha1.ImpactNone {
			t.Errorf("the reconfigure is %s with impact %q: %s\n%s", op.Phase, op.Impact, op.Message, describeSteps(op))
		}
		for _, step := range op.Steps {
			if slices.Contains([]string{v1alpha1.StepTransfer, v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepRestart, v1alpha1.StepBoot, v1alpha1.StepJoin}, step.Name) && step.State != v1alpha1.StepSkipped {
				t.Errorf("step %s is %s", step.Name, step.State)
			}
		}
		if difference := h.state(t).difference(before, "var/log/kubelet/"); difference != "" {
			t.Errorf("on the host something was changed:\n%s", difference)
		}
		if h.kubelets.Load() != starts || h.host.Restarts() != restarts {
			t.Errorf("the kubelet was started %d times, the host %d times", h.kubelets.Load()-starts, h.host.Restarts()-restarts)
		}
	})
	t.Run("labels and taints", func(t *testing.T) {
		s.patchPool(t, namespace, pool, `{"spec":{"template":{"nodeLabels":{"example.com/rack":"r2","example.com/old":null},"nodeTaints":[{"key":"example.com/t","effect":"NoSchedule"}]}}}`)
		h.waitLabels(t, map[string]string{"example.com/rack": "r2", "example.com/old": ""})
		h.waitTaint(t, "example.com/t")
	})
	t.Run("kubelet", func(t *testing.T) {
		for _, want := range []struct {
			pods   int64
			impact v1alpha1.ChangeImpact
			drain  v1alpha1.OperationStepState
		}{
			{300, v1alpha1.ImpactRestart, v1alpha1.StepSkipped},
			{42, v1alpha1.ImpactDrain, v1alpha1.StepSucceeded}, // the kubelet rejects those that do not fit
			{43, v1alpha1.ImpactRestart, v1alpha1.StepSkipped},
		} {
			before := h.waitReady(t).Status.DesiredRevision
			starts := h.kubelets.Load()
			s.patchPool(t, namespace, pool, fmt.Sprintf(`{"spec":{"template":{"kubelet":{"maxPods":%d}}}}`, want.pods))
			op := h.waitRevision(t, before).Status.Operation
			if op.Impact != want.impact || op.FindStep(v1alpha1.StepDrain).State != want.drain {
				t.Errorf("%d pods: the impact is %q\n%s", want.pods, op.Impact, describeSteps(op))
			}
			if n := h.kubelets.Load() - starts; n != 1 {
				t.Errorf("%d pods: the kubelet was started %d times, want once", want.pods, n)
			}
			eventually(t, "the Node takes as many pods", func() error {
				node := h.node(t, h.name)
				if n := node.Status.Allocatable.Pods().Value(); n != want.pods || node.Spec.Unschedulable {
					return fmt.Errorf("it takes %d, cordoned: %t", n, node.Spec.Unschedulable)
				}
				return nil
			})
		}
	})
	t.Run("containerd", func(t *testing.T) {
		before := h.waitReady(t).Status.DesiredRevision
		s.patchPool(t, namespace, pool, `{"spec":{"template":{"containerd":{"sandboxImage":"registry.example.com/pause:1"}}}}`)
		op := h.waitRevision(t, before).Status.Operation
		if op.Impact != v1alpha1.ImpactDrain {
			t.Errorf("the impact is %q\n%s", op.Impact, describeSteps(op))
		}
		for _, step := range op.Steps {
			if slices.Contains([]string{v1alpha1.StepCordon, v1alpha1.StepDrain, v1alpha1.StepUncordon}, step.Name) && step.State != v1alpha1.StepSucceeded {
				t.Errorf("step %s is %s: %s", step.Name, step.State, step.Message)
			}
		}
		mustSay(t, h.read(t, `C:\k\containerd\containerd_conf.toml`), "registry.example.com/pause:1")
	})
	if h.host.Restarts() != restarts {
		t.Errorf("the host was restarted %d times", h.host.Restarts()-restarts)
	}
	if h.get(t).UID != first.UID || h.node(t, h.name).UID != first.Status.Node.UID {
		t.Error("instance or Node were made anew")
	}
}

// waitLabels waits until the Node has labels; an empty value is none.
func (h *siteHost) waitLabels(t *testing.T, want map[string]string) {
	t.Helper()
	eventually(t, "the Node has the labels", func() error {
		node := h.node(t, h.name)
		for label, value := range want {
			if node.Labels[label] != value {
				return fmt.Errorf("label %s is %q, want %q", label, node.Labels[label], value)
			}
		}
		return nil
	})
}

// settle waits until a look at the host has changed nothing.
func (h *siteHost) settle(t *testing.T) {
	t.Helper()
	var version string
	var looks int
	eventually(t, "the host settles", func() error {
		i, n := h.get(t), len(h.host.Commands())
		switch {
		case i.ResourceVersion != version:
			version, looks = i.ResourceVersion, n
			return fmt.Errorf("it was written: %s", describeConditions(i))
		case n <= looks+1:
			return fmt.Errorf("it was not looked at since")
		}
		return nil
	})
}

// configurePlan asks what would be done, and has it done.
func configurePlan(t *testing.T, s *site) {
	const pool = "p"
	namespace := s.namespace(t, "cfg-plan")
	s.newPool(t, namespace, pool, v1alpha1.PoolTemplate{})
	h := s.newHost(t, namespace, "cfg-plan", winhost.Options{})
	h.declare(t, inPool(pool))
	h.waitReady(t)
	if plan := h.plan(t); len(plan) > 0 {
		t.Errorf("nothing is to be done, and the plan says %+v", plan)
	}

	// A paused host is not changed by itself.
	h.patch(t, `{"spec":{"paused":true}}`)
	h.wait(t, "it is paused", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.ObservedGeneration != i.Generation || i.Status.Operation.Active() {
			return fmt.Errorf("it is %s", i.Status.Phase)
		}
		return nil
	})
	s.patchPool(t, namespace, pool, `{"spec":{"template":{"kubelet":{"maxPods":43}}}}`)
	var plan []v1alpha1.PlannedChange
	eventually(t, "the plan has the change", func() error {
		if plan = h.plan(t); len(plan) == 0 {
			return fmt.Errorf("it is empty")
		}
		return nil
	})
	before := h.state(t)
	if len(plan) != 1 || plan[0].Kind != "File" || plan[0].Name != `C:\k\kubelet.conf` || plan[0].Action != "Update" || plan[0].Impact != v1alpha1.ImpactDrain || !strings.Contains(plan[0].Message, "pods may get less than before: maxPods") {
		t.Errorf("the plan is %+v", plan)
	}
	if difference := h.state(t).difference(before, "var/log/kubelet/"); difference != "" {
		t.Errorf("a plan changes the host:\n%s", difference)
	}
	revision := h.get(t).Status.CurrentRevision
	h.patch(t, `{"spec":{"paused":false}}`)
	h.wait(t, "it is set up", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.CurrentRevision == revision {
			return fmt.Errorf("it has revision %s\n%s", revision, describeOperation(i))
		}
		return isSetUp(i)
	})
	ours := []string{"var/log/", "Windows/windows-node-agent/", "k/kubelet.conf"}
	if difference := h.state(t).difference(before, ours...); difference != "" {
		t.Errorf("something was changed that is not in the plan:\n%s", difference)
	}
	mustSay(t, h.read(t, `C:\k\kubelet.conf`), `"maxPods":43`)
	if plan := h.plan(t); len(plan) > 0 {
		t.Errorf("all is done, and the plan says %+v", plan)
	}

	// What somebody else changes is in the plan, too.
	h.write(t, `C:\k\kubelet.conf`, "{}")
	switch plan := h.plan(t); {
	case len(plan) == 1 && plan[0].Name == `C:\k\kubelet.conf`:
	case len(plan) == 0 && strings.Contains(h.read(t, `C:\k\kubelet.conf`), `"maxPods":43`): // the agent has looked at the host meanwhile, and repaired it
	default:
		t.Errorf("after a change on the host, the plan is %+v", plan)
	}
	if op := h.waitOperation(t, h.reconfigure(t).ID); op.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("the reconfigure is %s: %s", op.Phase, op.Message)
	}
	mustSay(t, h.read(t, `C:\k\kubelet.conf`), `"maxPods":43`)
}

// plan is what a reconfigure would do.
func (h *siteHost) plan(t *testing.T) []v1alpha1.PlannedChange {
	t.Helper()
	var answer *v1alpha1.WindowsInstanceReconfigure
	eventually(t, "there is a plan", func() (err error) { // it is refused while an operation of the controller's own runs
		answer, err = h.instances(h.namespace).Reconfigure(t.Context(), h.name, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		return err
	})
	return answer.Status.Plan
}

// configureRename gives a host the name that it is to have, with one restart.
func configureRename(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-rename")
	h := s.newHost(t, namespace, "cfg-rename", winhost.Options{})
	h.declare(t, func(spec *v1alpha1.WindowsInstanceSpec) { spec.NodeName = "cfg-renamed" })
	i := h.waitReady(t)
	if i.Status.Node.Name != "cfg-renamed" || i.Status.System.Hostname != "cfg-renamed" {
		t.Errorf("the Node is %s, and the host calls itself %s", i.Status.Node.Name, i.Status.System.Hostname)
	}
	if n := h.host.Restarts(); n != 1 {
		t.Errorf("the host was restarted %d times, want once", n)
	}
}
