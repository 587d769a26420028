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

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// removeAndAddAgain takes everything off a host, and then makes it a Node again.
func removeAndAddAgain(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-again")
	h := s.readyHost(t, namespace, "cfg-again", winhost.Options{})
	first := h.get(t)
	h.remove(t)
	h.waitGone(t)
	h.mustBeClean(t)

	h.declare(t, nil)
	again := h.waitReady(t)
	if again.UID == first.UID || again.Status.Node.UID == first.Status.Node.UID {
		t.Error("instance or Node are those of before")
	}
	if again.Status.CurrentRevision != first.Status.CurrentRevision {
		t.Errorf("the revision is %s, and was %s", again.Status.CurrentRevision, first.Status.CurrentRevision)
	}
}

// removeHalfSetUp removes a host that could not be set up to the end.
func removeHalfSetUp(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-half")
	h := s.newHost(t, namespace, "cfg-half", winhost.Options{})
	setFault(t, h.host, winhost.Fault{FailStart: "kubelet"})
	h.declare(t, nil)
	h.waitFailed(t, "kubelet", "timely fashion")
	i := h.wait(t, "the condition says why", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionConfigured); c == nil || c.Reason != v1alpha1.ReasonConfigurationFailed {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	mustSay(t, messageOf(t, i, v1alpha1.ConditionConfigured), "timely fashion")
	if i.Status.CurrentRevision != "" || meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("a host that is half set up has revision %q\n%s", i.Status.CurrentRevision, describeConditions(i))
	}
	h.remove(t)
	h.waitGone(t)
	h.mustBeClean(t)
}

// userOf is a client of somebody who may do what the rules say in a namespace.
func (s *site) userOf(t *testing.T, user, namespace string, rules ...rbacv1.PolicyRule) versioned.Interface {
	t.Helper()
	if _, err := s.Kube.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := s.UserConfig(user, "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// removeUnreachable deletes the instance of a host that has no power: it stays, with what can
// be done about it, until the host is given up by somebody who may do that.
func removeUnreachable(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-away")
	h := s.readyHost(t, namespace, "cfg-away", winhost.Options{})
	if err := h.host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	h.remove(t)
	i := h.wait(t, "the instance says why it stays", func(i *v1alpha1.WindowsInstance) error {
		c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionRemoved)
		if c == nil || c.Reason != v1alpha1.ReasonRemovalFailed {
			return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
		}
		return nil
	})
	mustSay(t, messageOf(t, i, v1alpha1.ConditionRemoved), "ConnectionRefused", "tried again at", "abandon on windowshosts.windows.openshift.io", "kubectl patch windowsinstance "+h.name+" -n "+namespace)
	if i.Status.Phase != v1alpha1.InstanceRemoving {
		t.Errorf("the phase is %s", i.Status.Phase)
	}

	patch := []byte(`{"spec":{"removal":{"policy":"Abandon"}}}`)
	// Every verb on instances is not enough, as administrators of namespaces commonly have them.
	editor := s.userOf(t, "cfg-editor", namespace, ours([]string{"*"}, "windowsinstances"))
	giveUp := func(client versioned.Interface) error {
		_, err := client.WindowsV1alpha1().WindowsInstances(namespace).Patch(t.Context(), h.name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	eventually(t, "an editor is refused for the right reason", func() error {
		err := giveUp(editor)
		if err == nil {
			t.Fatal("an editor may give up a host")
		}
		if !apierrors.IsForbidden(err) {
			return err
		}
		mustSay(t, err.Error(), `"abandon" on windowshosts.windows.openshift.io "`+h.name+`"`)
		return nil
	})
	// The finalizer cannot be taken away by hand either.
	_, err := editor.WindowsV1alpha1().WindowsInstances(namespace).Patch(t.Context(), h.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the finalizer can be taken away: %v", err)
	}
	abandon := ours([]string{"abandon"}, "windowshosts")
	abandon.ResourceNames = []string{h.name}
	admin := s.userOf(t, "cfg-admin", namespace, ours([]string{"get", "update", "patch", "delete"}, "windowsinstances"), abandon)
	eventually(t, "who may do it gives up the host", func() error { return giveUp(admin) })
	h.waitGone(t)
	if h.read(t, `C:\k\kubelet.conf`) == "theirs" {
		t.Error("a host that is given up was cleaned")
	}
}

// removeNamespace deletes a namespace with a host that answers, one that does not, and one that
// is being removed, also with the controller dead. The hosts that nobody removed run on, and
// instances elsewhere get them when somebody hands them over.
func removeNamespace(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-namespace")
	h, away, leaving := s.newHost(t, namespace, "cfg-ns-1", winhost.Options{}), s.newHost(t, namespace, "cfg-ns-2", winhost.Options{}), s.newHost(t, namespace, "cfg-ns-3", winhost.Options{})
	all := []*siteHost{h, away, leaving}
	for _, host := range all {
		host.declare(t, nil)
	}
	for _, host := range all {
		host.waitReady(t)
	}
	before := undisturbed(t, h.subject())
	if err := away.host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	setFault(t, leaving.host, winhost.Fault{HangStop: "kubelet"})
	leaving.remove(t)
	leaving.waitStep(t, v1alpha1.StepCleanup)
	s.deleteNamespace(t, namespace)
	leaving.waitGone(t)
	leaving.mustBeClean(t)
	if err := away.host.PowerOn(); err != nil {
		t.Fatal(err)
	}
	h.handOver(t, "cfg-namespace-2")
	away.handOver(t, "cfg-namespace-2")
	before.mustHoldWithNewInstances(t, h.subject())
	// They are ours as before: removing them leaves nothing.
	h.remove(t)
	h.waitGone(t)
	h.mustBeClean(t)
}

// removeNamespaceWithoutController deletes a namespace while nothing but windows-apiserver runs.
func removeNamespaceWithoutController(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-nobody")
	h, going := s.newHost(t, namespace, "cfg-nobody-1", winhost.Options{}), s.newHost(t, namespace, "cfg-nobody-2", winhost.Options{})
	h.declare(t, nil)
	going.declare(t, nil)
	h.waitReady(t)
	going.waitReady(t)
	before := undisturbed(t, h.subject(), going.subject())
	s.Controller.Kill9()
	going.remove(t) // nobody sees it before the namespace goes
	s.deleteNamespace(t, namespace)
	if err := s.Controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.takeBack(t, namespace)
	going.takeBack(t, namespace)
	before.mustHoldWithNewInstances(t, h.subject(), going.subject())
}

// TestOwnNamespaceDeleted deletes the namespace of our programs, with their objects and their
// volume. That ends, nothing happens to the hosts, and a new installation takes them back.
func TestOwnNamespaceDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t, standin.PayloadOptions{})
	tenant := s.namespace(t, "own-tenant")
	entry, declared := s.newHost(t, system.Namespace, "own-entry", winhost.Options{}), s.newHost(t, tenant, "own-declared", winhost.Options{})
	createEntry := func() {
		t.Helper()
		_, err := s.Kube.CoreV1().ConfigMaps(system.Namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: sourceName},
			Data:       map[string]string{entry.host.Address(): entryFor(entry.host, "name="+entry.name)},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	createEntry()
	declared.declare(t, nil)
	plain := entry.waitReady(t).Status.DesiredRevision
	declared.waitReady(t)
	const template = `{"spec":{"template":{"kubelet":{"maxPods":300},"nodeTaints":[{"key":"example.com/t","effect":"NoSchedule"}]}}}`
	s.patchPool(t, system.Namespace, sourceName, template)
	entry.waitRevision(t, plain)
	entry.waitTaint(t, "example.com/t")
	before := undisturbed(t, entry.subject(), declared.subject())

	s.deleteNamespace(t, system.Namespace)
	if _, err := s.Kubectl(t.Context(), "get", "apiservice", "v1alpha1.windows.openshift.io"); err == nil {
		t.Error("the APIService is still there, and holds up the deletion of every namespace")
	}
	// Namespaces of others are not held up either.
	s.deleteNamespace(t, s.namespace(t, "own-other"))
	if err := s.Reinstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A tenant who names the host first does not get it.
	squatter := siteHost{site: s, host: entry.host, namespace: tenant, name: "own-squatter"}
	squatter.declare(t, nil)
	squatter.waitReason(t, v1alpha1.ConditionResolved, v1alpha1.ReasonHostOfAnotherNamespace)
	createEntry()
	// The pool has lost its template, and that is rolled out to nobody before somebody says so.
	mustSay(t, messageOf(t, entry.waitReason(t, v1alpha1.ConditionUpToDate, v1alpha1.ReasonConfirmationNeeded), v1alpha1.ConditionUpToDate), "kubectl windows rollout resume "+sourceName, "kubectl windows reconfigure "+entry.name)
	declared.takeBack(t, tenant)
	entry.waitTaint(t, "example.com/t")
	eventually(t, "the pool says what it waits for", func() error {
		pool, err := s.Windows.WindowsV1alpha1().WindowsNodePools(system.Namespace).Get(t.Context(), sourceName, metav1.GetOptions{})
		if err == nil && !strings.Contains(pool.Status.BlockedBy, entry.name+": It was configured before") {
			err = errors.New(pool.Status.BlockedBy)
		}
		return err
	})
	before.mustHoldWithNewInstances(t, entry.subject(), declared.subject())
	// The backup comes late, and that is enough.
	s.patchPool(t, system.Namespace, sourceName, template)
	entry.waitReason(t, v1alpha1.ConditionUpToDate, v1alpha1.ReasonRevisionCurrent)
	entry.waitTaint(t, "example.com/t")
	before.mustHoldWithNewInstances(t, entry.subject(), declared.subject())
}

// waitTaint waits until the Node of the host has a taint.
func (h *siteHost) waitTaint(t *testing.T, key string) {
	t.Helper()
	eventually(t, "the Node has taint "+key, func() error {
		if taints := h.node(t, h.name).Spec.Taints; !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key }) {
			return fmt.Errorf("it has %+v", taints)
		}
		return nil
	})
}

// deleteNamespace deletes a namespace and waits for its end.
func (s *site) deleteNamespace(t *testing.T, namespace string) {
	t.Helper()
	wantRefusedIn(s.System, namespace)
	if err := s.Kube.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace "+namespace+" goes", func() error {
		left, err := s.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("it is still there: %+v", left.Status)
		}
		return mustBeGone(err)
	})
}

// takeBack makes an instance for the host in its namespace again, and waits until it is ready.
func (h *siteHost) takeBack(t *testing.T, namespace string) {
	t.Helper()
	h.declareIn(t, namespace)
	h.waitReady(t)
}

// handOver makes an instance for the host in another namespace, and runs the command that its condition has.
func (h *siteHost) handOver(t *testing.T, namespace string) {
	t.Helper()
	h.declareIn(t, namespace)
	message := h.waitReason(t, v1alpha1.ConditionResolved, v1alpha1.ReasonHostOfAnotherNamespace).Status.KeptOff().Message
	_, command, _ := strings.Cut(message, "kubectl ")
	if out, err := h.Kubectl(t.Context(), strings.Fields(command)...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", command, err, out)
	}
	h.waitReady(t)
}

func (h *siteHost) declareIn(t *testing.T, namespace string) {
	t.Helper()
	namespaces := h.Kube.CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	h.namespace = namespace
	h.declare(t, nil)
}
