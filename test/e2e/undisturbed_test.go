// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// subject is a host that must not notice what happens to others.
type subject struct {
	sys             *system.System
	namespace, name string // of its instance
	host            winhost.Host
	kubelets        func() int32 // how often the kubelet was started; nil: not counted
}

// subject is the host as [undisturbed] takes it.
func (h *siteHost) subject() subject {
	return subject{sys: h.System, namespace: h.namespace, name: h.name, host: h.host, kubelets: h.kubelets.Load}
}

// calm is what hosts, their objects and their workload were like.
type calm struct {
	subjects []subject
	before   []map[string]string
}

// ofOthers are the labels and annotations of Nodes that may change at any time, and why.
var ofOthers = map[string]string{
	"node.alpha.kubernetes.io/ttl": "kube-controller-manager writes it, by the number of Nodes",
	"beta.kubernetes.io/os":        "kube-controller-manager copies it from kubernetes.io/os, some time after the Node is there",
	"beta.kubernetes.io/arch":      "as above, from kubernetes.io/arch",
}

// undisturbed remembers what hosts are like: the UIDs of instances, Nodes and pods, how often
// host and kubelet were started, the newest operation, whether the Node is cordoned, its labels
// and annotations but for [ofOthers], and which changes the host was told to make. mustHold compares.
//
// It sees what has happened by then: have something else happen first that comes after what
// might disturb the hosts.
func undisturbed(t *testing.T, subjects ...subject) *calm {
	t.Helper()
	c := &calm{subjects: subjects}
	for _, s := range subjects {
		c.before = append(c.before, s.describeWritten(t))
	}
	return c
}

// describeWritten is describe as soon as the Node has what our controller writes to it.
func (s *subject) describeWritten(t *testing.T) map[string]string {
	t.Helper()
	s.waitWritten(t)
	return s.describe(t)
}

// waitWritten waits until the Node of a host that is configured has what our controller writes to it: that comes a moment after the
// instance says that the host is configured.
func (s *subject) waitWritten(t *testing.T) {
	t.Helper()
	eventually(t, s.name+": its Node has what is written to it", func() error {
		instance, err := s.sys.Windows.WindowsV1alpha1().WindowsInstances(s.namespace).Get(t.Context(), s.name, metav1.GetOptions{})
		if err != nil || instance.Status.Node == nil || !meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionConfigured) {
			return err
		}
		node, err := s.sys.Kube.CoreV1().Nodes().Get(t.Context(), instance.Status.Node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		names := []string{wmco.DesiredVersionAnnotation, "windows.openshift.io/managed-taints"}
		if meta.IsStatusConditionTrue(instance.Status.Conditions, v1alpha1.ConditionUpToDate) {
			names = append(names, wmco.VersionAnnotation)
		}
		for _, name := range names {
			if _, has := node.Annotations[name]; !has {
				return fmt.Errorf("it has labels %v and annotations %v", node.Labels, node.Annotations)
			}
		}
		if node.Labels[v1alpha1.NamespaceLabel] != s.namespace {
			return fmt.Errorf("it has labels %v", node.Labels)
		}
		return nil
	})
}

// mustHold fails the test if any of the hosts was disturbed.
func (c *calm) mustHold(t *testing.T) {
	t.Helper()
	for i, s := range c.subjects {
		if diff := cmp.Diff(c.before[i], s.describe(t)); diff != "" {
			t.Errorf("host %s was disturbed (-before +now):\n%s", s.name, diff)
		}
	}
}

// mustHoldWithNewInstances is mustHold for hosts whose instances were lost, and made anew. subjects
// are the hosts as before with these, which may be in another namespace. A label of the Node says in which.
func (c *calm) mustHoldWithNewInstances(t *testing.T, subjects ...subject) {
	t.Helper()
	for i, s := range subjects {
		if s.namespace != c.subjects[i].namespace {
			s.waitWritten(t)
		}
		before, now := maps.Clone(c.before[i]), s.describe(t)
		if before[ownedBy] == c.subjects[i].namespace {
			before[ownedBy] = s.namespace
		}
		for _, facts := range []map[string]string{before, now} {
			delete(facts, "instance")
			delete(facts, "operation")
		}
		if diff := cmp.Diff(before, now); diff != "" {
			t.Errorf("host %s was disturbed (-before +now):\n%s", s.name, diff)
		}
	}
}

// describe is all that must stay, by what it is.
func (s *subject) describe(t *testing.T) map[string]string {
	t.Helper()
	facts := map[string]string{"restarts": fmt.Sprint(s.host.Restarts()), "changes": s.changes()}
	if s.kubelets != nil {
		facts["kubelet starts"] = fmt.Sprint(s.kubelets())
	}
	instance, err := s.sys.Windows.WindowsV1alpha1().WindowsInstances(s.namespace).Get(t.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		facts["instance"] = err.Error()
		return facts
	}
	facts["instance"] = string(instance.UID)
	facts["deleted"] = fmt.Sprint(instance.DeletionTimestamp != nil)
	if op := instance.Status.Operation; op != nil {
		facts["operation"] = fmt.Sprintf("%s %s", op.Type, op.ID)
	}
	if ref := instance.Status.Node; ref != nil {
		maps.Copy(facts, s.describeNode(t, ref.Name))
	}
	return facts
}

// ownedBy is the fact that says in which namespace the instance of a Node is.
const ownedBy = "label " + v1alpha1.NamespaceLabel

func (s *subject) describeNode(t *testing.T, name string) map[string]string {
	t.Helper()
	node, err := s.sys.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return map[string]string{"Node": err.Error()}
	}
	pods, err := s.sys.Kube.CoreV1().Pods(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	facts := nodeFacts(node)
	for i := range pods.Items {
		pod := &pods.Items[i]
		facts["pod "+pod.Namespace+"/"+pod.Name] = fmt.Sprintf("%s, deleted %t", pod.UID, pod.DeletionTimestamp != nil)
	}
	return facts
}

func nodeFacts(node *corev1.Node) map[string]string {
	facts := map[string]string{
		"Node": string(node.UID), "boot of the Node": node.Status.NodeInfo.BootID, "cordoned": fmt.Sprint(node.Spec.Unschedulable),
	}
	for kind, entries := range map[string]map[string]string{"label ": node.Labels, "annotation ": node.Annotations} {
		for name, value := range entries {
			if _, may := ofOthers[name]; !may {
				facts[kind+name] = value
			}
		}
	}
	return facts
}

// changes lists the commands that changed the host, or asked it to restart.
func (s *subject) changes() string {
	changing := []string{api.CommandApply, api.CommandCleanup, api.CommandCommit, api.CommandRestart}
	var told []string
	for _, line := range s.host.Commands() {
		if words := strings.Fields(line); len(words) > 1 && slices.Contains(changing, words[len(words)-1]) {
			told = append(told, words[len(words)-1])
		}
	}
	return strings.Join(told, " ")
}

// TestUndisturbed has the helper see what it is for.
func TestUndisturbed(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	host := startHost(t, winhost.Options{})
	kubectlIn(t, instanceYAML(ns, "w", host), "create", "-f", "-").ok(t)
	waitFor(t, ns, "w", preflightPassed)
	s := subject{sys: sys, namespace: ns, name: "w", host: host}
	undisturbed(t, s).mustHold(t)
	before := s.describe(t)
	kubectl(t, "delete", "wi", "w", "-n", ns).ok(t)
	kubectlIn(t, instanceYAML(ns, "w", host), "create", "-f", "-").ok(t)
	waitFor(t, ns, "w", preflightPassed)
	if cmp.Equal(before, s.describe(t)) {
		t.Errorf("an instance that was made anew is not noticed: %v", before)
	}
	if got := before["changes"]; got != "" {
		t.Errorf("a host that is watched was changed: %s", got)
	}
	for name, tt := range map[string]struct {
		change   func(*corev1.Node)
		disturbs bool
	}{
		"nothing":                          {func(*corev1.Node) {}, false},
		"a label":                          {func(n *corev1.Node) { n.Labels["l"] = "2" }, true},
		"a label less":                     {func(n *corev1.Node) { delete(n.Labels, "l") }, true},
		"an annotation":                    {func(n *corev1.Node) { n.Annotations["a"] = "2" }, true},
		"an annotation more":               {func(n *corev1.Node) { n.Annotations["b"] = "" }, true},
		"what kube-controller-manager has": {func(n *corev1.Node) { n.Annotations["node.alpha.kubernetes.io/ttl"] = "30" }, false},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}}}
		was := nodeFacts(node)
		if tt.change(node); cmp.Equal(was, nodeFacts(node)) == tt.disturbs {
			t.Errorf("%s: %v, and was %v", name, nodeFacts(node), was)
		}
	}
}
