// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/wmcostandin"
)

// TestAdopt: a host that WMCO has configured is watched while WMCO runs, taken over as it is once it does not, updated when
// somebody asks for that, given back while WMCO takes it on already, upgraded by WMCO as its own, taken over once more, and removed
// without a trace. The host of a Machine is given back in peace, and WMCO upgrades it and lets the Machine be.
func TestAdopt(t *testing.T) {
	t.Parallel()
	o := newOpenShift(t, configv1.NonePlatformType)
	o.installWMCO(t, 1)
	h := o.newWMCOHost(t, "adopted")
	if _, err := o.Windows.WindowsV1alpha1().WindowsNodePools(h.namespace).Create(t.Context(), &v1alpha1.WindowsNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs"},
		Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.declare(t, func(spec *v1alpha1.WindowsInstanceSpec) { spec.PoolRef = &v1alpha1.PoolReference{Name: "theirs"} })
	h.waitConfigured(t, v1alpha1.ReasonManagedByWMCO)
	g, commands := h.replacing(t, "theirs"), section(t, "Replace WMCO, and go back")
	calm := undisturbed(t, h.subject())
	h.mustAnswer(t)
	scale := only(t, commands, "oc scale deployment windows-machine-config-operator -n openshift-windows-machine-config-operator --replicas=0")
	for _, more := range [][]string{nil, {"--dry-run=server"}} {
		if _, stderr, code := plugin(t, o.System, append([]string{"adopt", "adopted", "-n", h.namespace}, more...)...); code == 0 || !strings.Contains(stderr, scale) {
			t.Errorf("adopt %v while WMCO runs: %d, %s", more, code, stderr)
		}
	}
	calm.mustHold(t)

	pause := func(paused bool) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused)
		if _, err := o.Windows.WindowsV1alpha1().WindowsNodePools(h.namespace).Patch(t.Context(), "theirs", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	g.run(t, commands, scale, "kubectl patch wnp ")
	h.waitConfigured(t, v1alpha1.ReasonForeignNode) // from then on its certificate requests are approved
	pause(false)
	if op := h.waitOperation(t, h.reconfigure(t).ID); op.Phase != v1alpha1.OperationFailed || !strings.Contains(op.Message, "kubectl windows adopt adopted") {
		t.Errorf("reconfigured before it was taken over: %s: %s", op.Phase, op.Message)
	}
	o.mustNotAdoptFromOLM(t, h)
	if err := o.Kube.AppsV1().Deployments(system.Namespace).Delete(t.Context(), wmco.Deployment, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	machine := o.newMachineHost(t, "machine") // it becomes a node meanwhile

	eventually(t, "the plan", func() error { // after an operation the host is probed once more before it is known to be left to others
		out, err := g.try(t, only(t, commands, "kubectl windows adopt win-7 "))
		for _, want := range []string{wmco.WICDService, wmco.KubeletConfigPath, wmco.WICDKubeconfigPath, wmco.WICDCertsDir, wmco.CSIProxyService, "hack/take-from-wmco.sh", "HTTP_PROXY", "Reboot"} { // what goes with the update, too
			if err != nil || !strings.Contains(out, want) {
				return fmt.Errorf("%w: %s", cmp.Or(err, errors.New("it lacks "+want)), out)
			}
		}
		return nil
	})
	kubelets := h.kubelets.Load()
	g.run(t, commands, "kubectl windows adopt --pool ")
	i := h.wait(t, "it is ours, and waits for an update", func(i *v1alpha1.WindowsInstance) error {
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionUpToDate)
		if !meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionConfigured) || i.Status.CurrentRevision != "wmco-11.0.0" || c == nil || c.Reason != v1alpha1.ReasonRevisionOutdated {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	if s, err := h.theirs(t).Service(wmco.WICDService); err != nil || s != nil {
		t.Errorf("the daemon of WMCO is there: %+v, %v", s, err)
	}
	for _, name := range []string{wmco.ContainerdService, wmco.KubeletService, wmco.KubeProxyService} {
		if s, err := h.theirs(t).Service(name); err != nil || s == nil || s.Settings.StartType != config.StartAutomatic || s.Recovery == nil {
			t.Errorf("service %s would not start with the host: %+v, %v", name, s, err)
		}
	}
	if h.kubelets.Load() != kubelets || i.Status.Operation.Type != v1alpha1.OperationAdopt {
		t.Errorf("the kubelet was started %d times\n%s", h.kubelets.Load()-kubelets, describeOperation(i))
	}
	if op := h.waitOperation(t, h.reconfigure(t).ID); op.Phase != v1alpha1.OperationSucceeded {
		t.Fatalf("the update is %s: %s", op.Phase, op.Message)
	}
	h.waitReady(t)
	for _, path := range []string{wmco.WICDKubeconfigPath, wmco.WICDCertsDir, wmco.KubernetesDir + `\windows-instance-config-daemon.exe`} {
		if _, err := os.Stat(h.local(t, path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there after the update: %v", path, err)
		}
	}
	// WMCO finds the host in its ConfigMap, of which this operator does not make another instance.
	entry := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system.Namespace, Name: wmco.InstancesConfigMap}, Data: map[string]string{h.host.Address(): "username=" + h.host.User()}}
	o.create(t, entry)
	_, former, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	stale := base64.StdEncoding.EncodeToString(former.PublicKey().Marshal())
	met := fmt.Appendf(nil, `{"data":{%q:%q,"10.1.42.1":%q}}`, machine.host.Address(), stale, stale)
	if _, err := o.Kube.CoreV1().ConfigMaps(system.Namespace).Patch(t.Context(), wmco.HostKeysConfigMap, types.MergePatchType, met, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	machine.waitReady(t)
	o.waitRunning(t, machine.namespace, machine.name)
	machine.giveBack(t)
	o.prepareWMCO(t, g, commands)
	o.takenOnUnanswered(t, g, commands, h, machine)
	mustRunOn := h.runPod(t)
	h.killedAtEachStep(t, func() {
		if stdout, stderr, code := plugin(t, o.System, "adopt", "adopted", "-n", h.namespace); code != 0 {
			t.Fatalf("adopt once more: %d, %s%s", code, stdout, stderr)
		}
	})
	mustRunOn()
	machine.adoptMachine(t)
	o.waitRunning(t, machine.namespace, machine.name)
	if others, err := o.instances(system.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(others.Items) > 0 {
		t.Errorf("the entry has an instance: %+v, %v", others, err)
	}
	if err := o.client.Delete(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	h.remove(t)
	h.waitGone(t)
	h.mustBeClean(t)
	g.mustHaveRun(t, commands)
}

// TestAdoptSources: what each user of WMCO has when our programs come: Nodes of entries of `windows-instances`, and of Machines of a MachineSet. Their instances
// come from there, and the commands of the user guide are about their pools. Pods run on while hosts are taken over, and while they are given back. No Machine is replaced.
func TestAdoptSources(t *testing.T) {
	t.Parallel()
	o := newOpenShift(t, configv1.NonePlatformType)
	o.installWMCO(t, 1)
	listed := o.newWMCOHost(t, "listed")
	o.create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: system.Namespace, Name: wmco.InstancesConfigMap}, Data: map[string]string{listed.host.Address(): "username=" + listed.host.User()},
	})
	m := &ocpMachines{openShiftSite: o, platform: ocpPlatform{node: asItsMachine}, set: machineSetName}
	m.create(t, 1)
	machine, address := m.next(t)
	scaled := o.newHost(t, machine.Namespace, machine.Name, winhost.Options{Address: address.String(), Port: 22})
	m.giveAddress(t, machine, address)
	o.madeByWMCO(t, scaled, false)
	machines := m.uids(t)

	sources := []struct {
		made *siteHost
		// instance is named as its source has it.
		instance *siteHost
		pool     string
		// told is which object has the events.
		told   types.NamespacedName
		reason string
	}{
		{
			made: listed, instance: &siteHost{site: listed.site, host: listed.host, namespace: system.Namespace, name: listed.host.Address()}, pool: wmco.InstancesConfigMap,
			told: types.NamespacedName{Namespace: system.Namespace, Name: wmco.InstancesConfigMap}, reason: wmco.InstanceSetup,
		},
		{made: scaled, instance: scaled, pool: m.set, told: types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name}, reason: wmco.MachineSetup},
	}
	for _, s := range sources {
		s.instance.waitConfigured(t, v1alpha1.ReasonManagedByWMCO)
	}
	o.mustBeApprovedByWMCO(t, scaled) // its instance was there when it became a Node
	commands := section(t, "Replace WMCO, and go back")
	end := only(t, commands, "oc scale deployment windows-machine-config-operator -n openshift-windows-machine-config-operator --replicas=0")
	listed.replacing(t, wmco.InstancesConfigMap).run(t, commands, end)
	all := newGroup(t)
	for _, s := range sources {
		all.run(s.pool, func(t *testing.T) {
			h, g, node := s.instance, s.instance.replacing(t, s.pool), s.made.node(t, s.made.name).UID
			g.run(t, commands, "kubectl patch wnp ")
			h.waitConfigured(t, v1alpha1.ReasonForeignNode)
			mustRunOn := s.made.runPod(t)
			eventually(t, "the plan", func() error {
				out, err := g.try(t, only(t, commands, "kubectl windows adopt win-7 "))
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			})
			g.run(t, commands, "kubectl windows adopt --pool ")
			h.wait(t, "it is ours, and waits for an update", func(i *v1alpha1.WindowsInstance) error {
				if !meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionConfigured) || i.Status.CurrentRevision != "wmco-11.0.0" {
					return errors.New(describeConditions(i))
				}
				return nil
			})
			mustRunOn()
			o.waitEvent(t, s.told.Namespace, s.told.Name, s.reason, h.namespace+"/"+h.name)
			if op := h.waitOperation(t, h.reconfigure(t).ID); op.Phase != v1alpha1.OperationSucceeded {
				t.Fatalf("the update is %s: %s", op.Phase, op.Message)
			}
			h.waitReady(t)

			mustRunOn = s.made.runPod(t)
			g.run(t, commands, "kubectl windows release win-7 ", "kubectl windows release --pool ")
			h.waitReleased(t)
			mustRunOn()
			if now := s.made.node(t, s.made.name).UID; now != node {
				t.Errorf("the Node is another one: %s, before %s", now, node)
			}
		})
	}
	all.wait()
	if now := m.uids(t); now != machines {
		t.Errorf("the Machines are %s, and were %s", now, machines)
	}
}

// mustAnswer fails the test unless people get what they may ask of a host that is only watched.
func (h *siteHost) mustAnswer(t *testing.T) {
	t.Helper()
	for _, ask := range [][]string{
		{"exec", h.name, "-n", h.namespace, "--", "hostname"}, {"logs", h.name, "kubelet", "-n", h.namespace, "--tail=1"},
		{"inspect", h.name, "-n", h.namespace}, {"check", h.name, "-n", h.namespace},
	} {
		if stdout, stderr, code := plugin(t, h.System, ask...); code != 0 || stdout == "" {
			t.Errorf("%q on a watched host: %d, %s%s", ask, code, stdout, stderr)
		}
	}
	const winRM = 5986 // it may be forwarded, and nobody listens
	address, said := forwardIn(t, h.System, h.namespace, h.name, winRM)
	refusedConnection(t, address)
	said.waitFor(t, "nothing on the host accepts connections there")
}

// adoptMachine takes over the host of a Machine, which is in no pool, so that its first update follows by itself. Its Node stays.
func (h *siteHost) adoptMachine(t *testing.T) {
	t.Helper()
	node := h.node(t, h.name).UID
	if stdout, stderr, code := plugin(t, h.System, "adopt", h.name, "-n", h.namespace); code != 0 {
		t.Fatalf("adopting the host of a Machine: %d, %s%s", code, stdout, stderr)
	}
	h.wait(t, "it is ours, and updated", func(i *v1alpha1.WindowsInstance) error {
		if !meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionUpToDate) || wmco.IsAdoptedRevision(i.Status.CurrentRevision) {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	h.waitReady(t)
	for name, there := range map[string]bool{api.ServiceName: true, wmco.KubeletService: true, wmco.WICDService: false} {
		if s, err := h.theirs(t).Service(name); err != nil || (s != nil) != there {
			t.Errorf("service %s after the update: %+v, %v", name, s, err)
		}
	}
	if now := h.node(t, h.name).UID; now != node {
		t.Errorf("Node %s was made again", h.name)
	}
}

// replacing runs the commands of the user guide for adopting and releasing, about this host and its pool.
func (h *siteHost) replacing(t *testing.T, pool string) *guided {
	t.Helper()
	return &guided{System: h.System, dir: t.TempDir(), names: strings.NewReplacer(
		"win-7", h.name, wmco.InstancesConfigMap, pool, "-n openshift-windows-machine-config-operator", "-n "+h.namespace,
	)}
}

// mustNotAdoptFromOLM has WMCO, which has ended, belong to the Operator Lifecycle Manager for a while, which would start it again: its
// host is not taken over.
func (o *openShiftSite) mustNotAdoptFromOLM(t *testing.T, h *siteHost) {
	t.Helper()
	label := func(owner string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"olm.owner":%s}}}`, owner)
		if _, err := o.Kube.AppsV1().Deployments(system.Namespace).Patch(t.Context(), wmco.Deployment, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`"windows-machine-config-operator.v11.0.0"`)
	eventually(t, "it is not taken over", func() error {
		stdout, stderr, code := plugin(t, o.System, "adopt", h.name, "-n", h.namespace, "--dry-run=server")
		if code == 0 || !strings.Contains(stderr, "oc delete clusterserviceversions.operators.coreos.com windows-machine-config-operator.v11.0.0 -n "+system.Namespace) {
			return fmt.Errorf("%d, %s%s", code, stdout, stderr)
		}
		return nil
	})
	label("null")
}

// giveBack releases a host: its pods, its Node and its services go on as they are, and WMCO finds on the Node what it looks for.
func (h *siteHost) giveBack(t *testing.T) {
	t.Helper()
	if stdout, stderr, code := plugin(t, h.System, "release", h.name, "-n", h.namespace, "--dry-run=server"); code != 0 || !strings.Contains(stdout, api.ServiceName) || !strings.Contains(stdout, "Node") {
		t.Errorf("what a release changes: %d, %s%s", code, stdout, stderr)
	}
	node := h.node(t, h.name)
	mustRunOn := h.runPod(t)
	ready := meta.FindStatusCondition(h.get(t).Status.Conditions, v1alpha1.ConditionNodeReady).LastTransitionTime
	h.killedAtEachStep(t, func() {
		if stdout, stderr, code := plugin(t, h.System, "release", h.name, "-n", h.namespace); code != 0 {
			t.Fatalf("release: %d, %s%s", code, stdout, stderr)
		}
	})
	h.waitReleased(t)
	if now := meta.FindStatusCondition(h.get(t).Status.Conditions, v1alpha1.ConditionNodeReady); now.Status != metav1.ConditionTrue || now.LastTransitionTime != ready {
		t.Errorf("the Node was not ready meanwhile: %+v", now)
	}
	mustRunOn()
	for name, there := range map[string]bool{api.ServiceName: false, wmco.KubeletService: true, wmco.KubeProxyService: true} {
		if s, err := h.theirs(t).Service(name); err != nil || (s != nil) != there || s != nil && s.Settings.StartType != config.StartAutomatic {
			t.Errorf("service %s: %+v, %v", name, s, err)
		}
	}
	now := h.node(t, h.name)
	_, ours := now.Labels[v1alpha1.NamespaceLabel]
	version := now.Annotations[wmco.VersionAnnotation]
	if ours || now.UID != node.UID || version == "" || version == "11.0.0" || len(now.Annotations[wmco.PublicKeyHashAnnotation]) != 64 || now.Spec.Unschedulable {
		t.Errorf("the Node has labels %v and annotations %v", now.Labels, now.Annotations)
	}
	if _, err := h.Kube.CoreV1().ConfigMaps(system.Namespace).Get(t.Context(), "windows-services-"+version, metav1.GetOptions{}); err != nil {
		t.Errorf("the services of its version are not there: %v", err)
	}
}

// waitReleased waits until the host is that of others, as far as its instance knows.
func (h *siteHost) waitReleased(t *testing.T) {
	t.Helper()
	h.wait(t, "it is that of others", func(i *v1alpha1.WindowsInstance) error {
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionConfigured)
		if c == nil || c.Reason != v1alpha1.ReasonForeignNode || !strings.Contains(c.Message, "was released") || i.Status.CurrentRevision != "" || i.Status.MayHaveChangedHost() {
			return errors.New(describeConditions(i))
		}
		return nil
	})
}

// killedAtEachStep has the controller killed and started again at each step of the operation that do has somebody request, when it is recorded
// that the step runs.
func (h *siteHost) killedAtEachStep(t *testing.T, do func()) {
	t.Helper()
	before := h.get(t)
	changes, err := h.instances(h.namespace).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", h.name).String(), ResourceVersion: before.ResourceVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	var wg sync.WaitGroup
	wg.Go(func() {
		for change := range changes.ResultChan() {
			i, is := change.Object.(*v1alpha1.WindowsInstance)
			if !is || i.Status.Operation.ID == before.Status.Operation.ID || !i.Status.Operation.Active() {
				continue
			}
			step, _ := i.Status.Operation.Runs()
			if step == nil || slices.Contains(steps, step.Name) {
				continue
			}
			steps = append(steps, step.Name)
			h.Controller.Kill9()
			if err := h.Controller.Restart(t.Context()); err != nil {
				t.Errorf("starting the controller again: %v", err)
			}
		}
	})
	do()
	changes.Stop()
	wg.Wait()
	if len(steps) < 2 {
		t.Errorf("the controller was killed at the steps %q", steps)
	}
}

// runPod has a pod on the Node of the host. mustRunOn fails the test unless the pod, the kubelet and the host run on, and ends the pod.
func (h *siteHost) runPod(t *testing.T) (mustRunOn func()) {
	t.Helper()
	var pod *corev1.Pod
	pods := h.Kube.CoreV1().Pods(h.namespace)
	eventually(t, "the pod is created", func() (err error) { // its service account may not be there yet
		pod, err = pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "stays"},
			Spec:       corev1.PodSpec{NodeName: h.name, AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/app"}}},
		}, metav1.CreateOptions{})
		return err
	})
	kubelets, restarts := h.kubelets.Load(), h.host.Restarts()
	return func() {
		t.Helper()
		if got, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || got.UID != pod.UID || got.DeletionTimestamp != nil {
			t.Errorf("its pod is gone: %v", err)
		}
		if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Error(err)
		}
		if h.kubelets.Load() != kubelets || h.host.Restarts() != restarts {
			t.Errorf("the kubelet was started %d times, the host %d times", h.kubelets.Load()-kubelets, h.host.Restarts()-restarts)
		}
	}
}

// waitConfigured waits until the condition Configured has the reason.
func (h *siteHost) waitConfigured(t *testing.T, reason string) {
	t.Helper()
	h.wait(t, "it is "+reason, func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionConfigured); c == nil || c.Reason != reason {
			return errors.New(describeConditions(i))
		}
		return nil
	})
}

// newWMCOHost starts a host that is a Node which WMCO has made. It has no instance yet.
func (o *openShiftSite) newWMCOHost(t *testing.T, name string) *siteHost {
	t.Helper()
	h := o.newHost(t, o.namespace(t, name), name, winhost.Options{Port: 22}) // where WMCO connects to
	o.madeByWMCO(t, h, true)
	return h
}

// madeByWMCO has WMCO have made a host a Node, which has the name of its instance: that of an entry, or else of a Machine.
func (o *openShiftSite) madeByWMCO(t *testing.T, h *siteHost, entry bool) {
	t.Helper()
	if err := h.theirs(t).Remove(wmco.KubeletConfigPath); err != nil {
		t.Fatal(err)
	}
	h.before = h.state(t)
	made := o.wmcoHost(t, h)
	if err := made.Put(h.theirs(t)); err != nil {
		t.Fatal(err)
	}
	if err := h.host.Reboot(); err != nil {
		t.Fatal(err)
	}
	approve(t, o, "system:node:"+h.name)
	services, err := made.Published()
	if err != nil {
		t.Fatal(err)
	}
	for _, cm := range []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Name: "windows-services-11.0.0"}, Data: services, Immutable: new(true)},
		// A host is there until it is a Node, which has its key then.
		{ObjectMeta: metav1.ObjectMeta{Name: wmco.HostKeysConfigMap, Labels: map[string]string{"app.kubernetes.io/managed-by": wmco.Deployment}}},
	} {
		if _, err := o.Kube.CoreV1().ConfigMaps(system.Namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	byoh := ""
	if entry {
		byoh = `"windowsmachineconfig.openshift.io/byoh":"true",`
	}
	nodes := o.Kube.CoreV1().Nodes()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%s"node-role.kubernetes.io/worker":""},"annotations":{"windowsmachineconfig.openshift.io/version":"11.0.0",`+
		`"windowsmachineconfig.openshift.io/desired-version":"11.0.0","windowsmachineconfig.openshift.io/pub-key-hash":%q,"windowsmachineconfig.openshift.io/username":%q,`+
		`"windowsmachineconfig.openshift.io/ssh-host-key":%q,"windowsmachineconfig.openshift.io/ssh-host-key-type":%q}}}`,
		byoh, wmcostandin.Hash(o.signer.PublicKey()), o.encryptedUser(t, h.host.User()), base64.StdEncoding.EncodeToString(h.host.HostKey().Marshal()), h.host.HostKey().Type())
	eventually(t, "WMCO has made the Node", func() error {
		if node, err := nodes.Get(t.Context(), h.name, metav1.GetOptions{}); err != nil || !nodeIsReady(node) {
			return fmt.Errorf("it is not ready: %w", errors.Join(err, errors.New("no condition")))
		}
		_, err := nodes.Patch(t.Context(), h.name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	t.Cleanup(func() { _ = nodes.Delete(context.Background(), h.name, metav1.DeleteOptions{}) })
}

// encryptedUser is a user as WMCO writes it on Nodes.
func (o *openShiftSite) encryptedUser(t *testing.T, user string) string {
	t.Helper()
	secret, err := o.Kube.CoreV1().Secrets(system.Namespace).Get(t.Context(), wmco.PrivateKeySecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	value, err := takeover.EncryptUsername(user, secret.Data["private-key.pem"])
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// wmcoHost is what WMCO leaves on a host. The cluster trusts an authority and has a proxy by then, and has neither any more.
func (o *openShiftSite) wmcoHost(t *testing.T, h *siteHost) wmcostandin.Made {
	t.Helper()
	admin := o.AdminConfig()
	bootstrap := clientcmdapi.NewConfig()
	bootstrap.Clusters["local"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	bootstrap.AuthInfos["kubelet"] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData, Token: admin.BearerToken}
	bootstrap.Contexts["kubelet"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "kubelet"}
	bootstrap.CurrentContext = "kubelet"
	text, err := clientcmd.Write(*bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	return wmcostandin.Made{
		Node: h.name, Address: h.host.Address(), Server: admin.Host, KubeletVersion: standin.Version,
		Bootstrap: text, ServerCA: admin.CAData, Trusted: admin.CAData, Proxy: wmcostandin.ProxyOfCluster(),
		ClientCA: object[mcfgv1.ControllerConfig](t, o, "machine-config-controller").Spec.KubeAPIServerServingCAData,
	}
}

// mustBeApprovedByWMCO fails the test unless WMCO has approved the certificates that the kubelet of the host has asked for as the node that it is, and
// nobody else has.
func (o *openShiftSite) mustBeApprovedByWMCO(t *testing.T, h *siteHost) {
	t.Helper()
	eventually(t, "the kubelet has its certificates", func() error {
		list, err := o.Kube.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		asked := 0
		for i := range list.Items {
			r := &list.Items[i]
			if r.Spec.Username != "system:node:"+h.name {
				continue
			}
			asked++
			if len(r.Status.Conditions) == 0 {
				return fmt.Errorf("request %s is pending", r.Name)
			}
			if slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Reason != approvedByWMCO }) {
				t.Fatalf("request %s for %s has conditions %+v", r.Name, r.Spec.SignerName, r.Status.Conditions)
			}
		}
		if asked == 0 {
			return errors.New("it has asked for none")
		}
		return nil
	})
}

// approvedByWMCO is the reason of what approve approves.
const approvedByWMCO = "WMCOApprove"

// approve approves as WMCO what the kubelet of a node asks for, until the test has ended.
func approve(t *testing.T, o *openShiftSite, user string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		requests := o.Kube.CertificatesV1().CertificateSigningRequests()
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			list, err := requests.List(ctx, metav1.ListOptions{})
			if err != nil {
				return
			}
			for i := range list.Items {
				r := &list.Items[i]
				if len(r.Status.Conditions) > 0 || r.Spec.SignerName == certificatesv1.KubeletServingSignerName && r.Spec.Username != user || r.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName {
					continue
				}
				r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: approvedByWMCO, Message: "approved"}}
				_, _ = requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{})
			}
		}, 200*time.Millisecond)
	}()
}
