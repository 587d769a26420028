// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/agenthost"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	// cumulativeKB is the security update of TestWindowsUpdates, and otherKB one that is none.
	cumulativeKB, otherKB = "5044281", "5044030"
	// updatedBuild is what the security update makes of Windows on the first host: more than the preflight knows.
	updatedBuild = "10.0.28000.1000"
	// refusal is why Windows does not install it on the second host.
	refusal = "HRESULT 0x80073712: the component store has been corrupted"
)

// offered is an update of Windows.
func offered(kb string, categories ...string) agenthost.Update {
	return agenthost.Update{Offer: updates.Offer{ID: "id-" + kb, Revision: 200, Title: "2026-11 Update (KB" + kb + ")", Articles: []string{kb}, Categories: categories}}
}

// offer has the server of the host offer updates of Windows.
func (h *siteHost) offer(t *testing.T, list ...agenthost.Update) {
	t.Helper()
	host, _ := winhost.SystemOf(h.host)
	if err := host.OfferUpdates(list...); err != nil {
		t.Fatal(err)
	}
}

// installations are the operations by which the controller has installed updates of Windows on the host.
func installations(i *v1alpha1.WindowsInstance) (list []*v1alpha1.Operation) {
	for _, op := range i.Status.Operations() {
		if op.Cause == v1alpha1.CauseWindowsUpdates {
			list = append(list, op)
		}
	}
	return list
}

// waitPending waits until the instance says how many updates of Windows wait on the host, how many of them for security, and which have
// failed.
func (h *siteHost) waitPending(t *testing.T, pending, security int32, failed ...string) *v1alpha1.WindowsInstance {
	t.Helper()
	return h.wait(t, "it says which updates wait", func(i *v1alpha1.WindowsInstance) error {
		u := i.Status.WindowsUpdates
		if u == nil || u.SearchedAt == nil || u.Pending != pending || u.Security != security || len(u.Failed) != len(failed) {
			return fmt.Errorf("it says %+v", u)
		}
		for n, name := range failed {
			if u.Failed[n].Name != name {
				return fmt.Errorf("it says %+v", u)
			}
		}
		return nil
	})
}

// waitInstallation waits until the first operation that installs updates of Windows on the host has ended.
func (h *siteHost) waitInstallation(t *testing.T) *v1alpha1.Operation {
	t.Helper()
	return h.waitInstalling(t, "updates of Windows are installed", func(op *v1alpha1.Operation) bool { return !op.Active() })
}

// waitInstalling waits until the first operation that installs updates of Windows on the host has come to a point, and returns it.
func (h *siteHost) waitInstalling(t *testing.T, what string, come func(*v1alpha1.Operation) bool) *v1alpha1.Operation {
	t.Helper()
	var op *v1alpha1.Operation
	h.wait(t, what, func(i *v1alpha1.WindowsInstance) error {
		list := installations(i)
		if len(list) == 0 || !come(list[0]) {
			return errors.New(describeOperation(i))
		}
		op = list[0]
		return nil
	})
	return op
}

// TestWindowsUpdates: the security updates that wait are installed on the hosts of a pool that wants it, in its window, on one after the
// other, also when the controller is killed after the download, and when it has let the host be drained. One that fails is said everywhere and not
// tried again by itself, and the hosts after it wait until a person has it installed. Another pool wants none.
func TestWindowsUpdates(t *testing.T) {
	t.Parallel()
	certs, certPEM := metricsCertificate(t)
	s := newSite(t, standin.PayloadOptions{Bytes: 1 << 20}, "--metrics-cert-dir="+certs)
	m := newScraper(t, s.System, certPEM)
	f := &fleet{site: s, namespace: s.namespace(t, "updates"), name: "fleet"}
	for _, name := range []string{f.name, "left"} {
		pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}}}
		pool.Spec.UpdateStrategy.RollingUpdate.SettleSeconds = new(int32(1))
		if _, err := s.Windows.WindowsV1alpha1().WindowsNodePools(f.namespace).Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	host := func(pool, name string, list ...agenthost.Update) *siteHost {
		h := s.newHost(t, f.namespace, name, winhost.Options{})
		h.offer(t, list...)
		h.declare(t, func(spec *v1alpha1.WindowsInstanceSpec) { spec.PoolRef = &v1alpha1.PoolReference{Name: pool} })
		return h
	}
	good := offered(cumulativeKB, updates.ClassSecurity)
	changing, failing := good, good
	changing.Version, failing.FailInstall = updatedBuild, refusal
	first, second, third := host(f.name, "fleet-0", changing, offered(otherKB)), host(f.name, "fleet-1", failing), host(f.name, "fleet-2", good)
	f.hosts = []*siteHost{first, second, third}
	left := host("left", "left-0", good)

	for _, h := range append([]*siteHost{left}, f.hosts...) {
		h.waitReady(t)
	}
	before := map[*siteHost]int{}
	for _, h := range append([]*siteHost{left}, f.hosts...) {
		pending := int32(1)
		if h == first {
			pending = 2
		}
		h.waitPending(t, pending, 1)
		before[h] = h.host.Restarts() // they were restarted to be configured
	}
	run := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := plugin(t, s.System, append(args, "-n", f.namespace)...)
		if code != 0 {
			t.Fatalf("%v: code %d\n%s%s", args, code, stdout, stderr)
		}
		return stdout
	}
	mustCount := func(pool string, want float64) {
		t.Helper()
		metric := fmt.Sprintf(`windows_instances_updates_pending{namespace=%q,pool=%q,security="true"}`, f.namespace, pool)
		eventually(t, fmt.Sprintf("%s is %v", metric, want), func() error {
			n, err := m.read(t.Context(), m.controllerMetrics(), metric)
			if err == nil && n != want {
				err = fmt.Errorf("it is %v", n)
			}
			return err
		})
	}
	pod := runPodToEvict(t, first)
	mostCordoned := s.watchCordoned(t, "fleet-")

	// The window opens in half a day.
	opens := time.Now().UTC().Add(12 * time.Hour)
	f.patch(t, fmt.Sprintf(`{"spec":{"windowsUpdates":{"install":"Security"},"updateStrategy":{"window":{"schedule":"%d %d * * *","durationSeconds":60}}}}`, opens.Minute(), opens.Hour()))
	f.wait(t, "it waits for its window", func(p *v1alpha1.WindowsNodePool) error {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionUpdating)
		if !strings.HasPrefix(p.Status.BlockedBy, "fleet-0, fleet-1, fleet-2: The window of pool fleet opens at ") || c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonAllUpdated || !strings.Contains(c.Message, "Updates of Windows or restarts are outstanding. Hosts wait for the window") {
			return fmt.Errorf("%+v; blocked by %q", c, p.Status.BlockedBy)
		}
		return nil
	})
	for _, h := range f.hosts {
		if list := installations(h.get(t)); len(list) > 0 || h.host.Restarts() != before[h] {
			t.Errorf("%s: out of the window it was restarted %d times, and has %+v", h.name, h.host.Restarts()-before[h], list)
		}
	}
	mustSay(t, run("describe", "wnp/fleet"), "Windows updates:   Security\n", "├─ fleet-0   up to date, updates of Windows to be installed: 1, waits: The window of pool fleet opens at ", "Waiting:\n  fleet-0, fleet-1, fleet-2: The window of pool fleet opens at ")
	mustCount(f.name, 3)

	// The window is always open.
	f.patch(t, `{"spec":{"updateStrategy":{"window":{"schedule":"* * * * *","durationSeconds":3600}}}}`)
	prepared := first.waitInstalling(t, "updates are downloaded", func(op *v1alpha1.Operation) bool {
		step := op.FindStep(v1alpha1.StepDownloadUpdates)
		return step != nil && step.State == v1alpha1.StepSucceeded
	})
	s.killController(t)
	first.waitInstalling(t, "it may be drained", func(op *v1alpha1.Operation) bool { return op.AdmittedImpact == v1alpha1.ImpactReboot })
	s.killController(t)
	op := first.waitInstallation(t)
	if op.ID != prepared.ID {
		t.Errorf("another operation has installed them than the one that had downloaded them:\n%s\n%s", describeSteps(prepared), describeSteps(op))
	}
	if op.Phase != v1alpha1.OperationSucceeded || op.FindStep(v1alpha1.StepDrain).State != v1alpha1.StepSucceeded || first.host.Restarts() != before[first]+1 {
		t.Errorf("it was restarted %d times: %s: %s\n%s", first.host.Restarts()-before[first], op.Phase, op.Message, describeSteps(op))
	}
	mustSay(t, op.Message, "Installed: KB"+cumulativeKB+". The host was restarted.")
	if _, err := s.Kube.CoreV1().Pods(f.namespace).Get(t.Context(), pod, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its pod was not evicted: %v", err)
	}
	i := first.waitPending(t, 1, 0)
	mustSay(t, messageOf(t, i, v1alpha1.ConditionPreflightPassed), "[UnknownBuild] Windows build 28000 is newer")
	if i.Status.System.Build != updatedBuild {
		t.Errorf("status.system.build is %s", i.Status.System.Build)
	}
	node := first.node(t, first.name)
	if got, label := node.Status.NodeInfo.KernelVersion, node.Labels[corev1.LabelWindowsBuild]; got != updatedBuild || label != "10.0.28000" {
		t.Errorf("its Node has version %s and label %s", got, label)
	}

	if op := second.waitInstallation(t); op.Phase != v1alpha1.OperationFailed {
		t.Errorf("it is %s: %s", op.Phase, op.Message)
	} else {
		mustSay(t, op.Message, "KB"+cumulativeKB+": it cannot be installed: "+refusal, "The host was not restarted.")
	}
	f.wait(t, "the third host waits", func(p *v1alpha1.WindowsNodePool) error {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDegraded)
		if !strings.HasPrefix(p.Status.BlockedBy, "fleet-2: Updates of Windows could not be installed on more than 0 hosts of pool fleet (spec.updateStrategy.rollingUpdate.maxFailures): fleet-1.") ||
			c == nil || c.Reason != v1alpha1.ReasonUpdatesStopped || p.Status.Phase != v1alpha1.PoolDegraded {
			return fmt.Errorf("%s: %+v; blocked by %q", p.Status.Phase, c, p.Status.BlockedBy)
		}
		return nil
	})
	second.waitPending(t, 1, 1, "KB"+cumulativeKB)
	second.waitReady(t)
	mustSay(t, run("get", "-o", "wide", "fleet-1"), " 1 (1 security, 1 failed) ")
	mustSay(t, run("describe", "wnp/fleet"), "├─ fleet-1   up to date, updates of Windows that could not be installed: KB"+cumulativeKB+"\n")
	eventually(t, "describe says it, with its event", func() error { // events come a moment after what they tell of
		got := run("describe", "fleet-1")
		for _, want := range []string{
			"Failed update:   KB" + cumulativeKB + ": it cannot be installed: " + refusal + "; not tried again for 23h; to try it now: kubectl windows reboot fleet-1 -n updates --install-updates=Security\n",
			"Warning   RebootFailed",
		} {
			if !strings.Contains(got, want) {
				return fmt.Errorf("it does not say %q:\n%s", want, got)
			}
		}
		return nil
	})
	mustSay(t, strings.Join(strings.Fields(run("inspect", "fleet-1")), " "), "Update KB"+cumulativeKB+" Failed it cannot be installed: "+refusal)
	mustCount(f.name, 2)
	if list := installations(third.get(t)); len(list) > 0 {
		t.Errorf("the third host has %+v", list)
	}

	// Somebody repairs the second host.
	second.offer(t, good)
	mustSay(t, run("reboot", "fleet-1", "--install-updates=Security"), "windowsinstance/fleet-1 rebooted (")
	if op := third.waitInstallation(t); op.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("it is %s: %s", op.Phase, op.Message)
	}
	first.waitPending(t, 1, 0)
	second.waitPending(t, 0, 0)
	third.waitPending(t, 0, 0)
	mustCount(f.name, 0)
	f.wait(t, "all is well", func(p *v1alpha1.WindowsNodePool) error {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDegraded)
		if c == nil || c.Reason != v1alpha1.ReasonAsExpected || p.Status.BlockedBy != "" || !meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionUpdating) || p.Status.Phase != v1alpha1.PoolReady {
			return fmt.Errorf("%s: %+v; blocked by %q", p.Status.Phase, c, p.Status.BlockedBy)
		}
		return nil
	})
	for _, h := range f.hosts {
		if list := installations(h.waitReady(t)); len(list) != 1 || h.host.Restarts() != before[h]+1 {
			t.Errorf("%s was restarted %d times, by %+v", h.name, h.host.Restarts()-before[h], list)
		}
	}
	if most := mostCordoned(); most != 1 {
		t.Errorf("%d Nodes were cordoned at the same time, want 1", most)
	}

	i = left.waitPending(t, 1, 1)
	if list := installations(i); len(list) > 0 || left.host.Restarts() != before[left] {
		t.Errorf("in a pool that wants no updates it was restarted %d times, by %+v", left.host.Restarts()-before[left], list)
	}
	mustCount("left", 1)
}

// runPodToEvict has a pod on the Node of a host that ends as soon as it is asked to, and returns its name.
func runPodToEvict(t *testing.T, h *siteHost) string {
	t.Helper()
	name := "on-" + h.name
	eventually(t, "the pod is created", func() error { // its service account may not be there yet
		_, err := h.Kube.CoreV1().Pods(h.namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName: h.name, TerminationGracePeriodSeconds: new(int64(1)), AutomountServiceAccountToken: new(false),
				Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/app"}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	return name
}
