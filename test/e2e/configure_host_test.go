// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	windowsclient "github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/typed/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/openshift"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// site is a system that sets hosts up, and the key that logs in to them.
type site struct {
	*system.System
	signer ssh.Signer
	// payload is the directory of what hosts are set up with.
	payload string
}

// newSite starts a system with a payload.
func newSite(t *testing.T, o standin.PayloadOptions, args ...string) *site {
	t.Helper()
	return newSiteWith(t, o, system.Options{MachineAPI: true, ControllerArgs: args})
}

// newSiteWith starts a system with a payload, in such a cluster.
func newSiteWith(t *testing.T, o standin.PayloadOptions, in system.Options) *site {
	t.Helper()
	key, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "payload")
	if err := standin.WritePayload(t.Context(), dir, o); err != nil {
		t.Fatal(err)
	}
	in.PrivateKey, in.Payload = key, dir
	in.ControllerArgs = append([]string{"--dial-timeout=2s", "--recheck-interval=5s", "--max-disruptive-operations=8"}, in.ControllerArgs...)
	return &site{System: startSystem(t, in), signer: signer, payload: dir}
}

// namespace makes a namespace, which stays as long as the system.
func (s *site) namespace(t *testing.T, name string) string {
	t.Helper()
	namespaces := s.Kube.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	return name
}

func (s *site) instances(namespace string) windowsclient.WindowsInstanceInterface {
	return s.Windows.WindowsV1alpha1().WindowsInstances(namespace)
}

// siteHost is a host that is, or is about to be, set up. Its computer name, the name of its
// Node and that of its instance are the same, unless a test makes it otherwise.
type siteHost struct {
	*site
	host            winhost.Host
	namespace, name string
	// kubelets is how often the kubelet was started, and exporters how often windows_exporter was.
	kubelets, exporters atomic.Int32
	// hang has the kubelet that runs hang.
	hang atomic.Pointer[context.CancelFunc]
	// before is the host as it came.
	before hostState
}

// theirFiles are of somebody who works on a host, and have theirContent.
var theirFiles = []string{`C:\Temp\theirs.txt`, `C:\var\log\theirs\app.log`, `C:\k\theirs.txt`}

const theirContent = "theirs"

// newHost starts a host that has never been set up, and on which somebody works already.
// It has no instance yet.
func (s *site) newHost(t *testing.T, namespace, name string, o winhost.Options) *siteHost {
	t.Helper()
	h := &siteHost{site: s, namespace: namespace, name: name}
	o.Name = name
	o.AuthorizedKeys = append(o.AuthorizedKeys, s.signer.PublicKey())
	services := standin.Services()
	run := services[wmco.KubeletService]
	services[wmco.KubeletService] = func(ctx context.Context, start winhost.ServiceStart) error {
		h.kubelets.Add(1)
		reports, hang := context.WithCancel(ctx)
		defer hang()
		h.hang.Store(&hang)
		err := run(reports, start)
		if ctx.Err() == nil && reports.Err() != nil {
			<-ctx.Done() // it does nothing any more, and Windows takes it for running
		}
		return err
	}
	services[wmco.WindowsExporterService] = func(ctx context.Context, _ winhost.ServiceStart) error {
		h.exporters.Add(1)
		<-ctx.Done()
		return nil
	}
	o.InProcess.Services, o.InProcess.RunAgent = services, true
	host, err := winhost.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("starting a host: %v", err)
	}
	h.host = host
	if s.Cloud != nil {
		s.Cloud.Run(openshift.VirtualMachine{Name: host.Name(), PrivateDNSName: o.Metadata.Hostname, Address: host.Address()})
	}
	t.Cleanup(func() {
		h.giveUp(t)
		if err := host.Close(); err != nil {
			t.Errorf("closing the host: %v", err)
		}
	})
	for _, path := range append([]string{wmco.KubeletConfigPath}, theirFiles...) {
		h.write(t, path, theirContent)
	}
	h.before = h.state(t)
	return h
}

// hangKubelet has the kubelet do nothing any more until it is started anew.
func (h *siteHost) hangKubelet() { (*h.hang.Load())() }

// giveUp deletes the instance of a host that is about to go, so that nobody tries to clean it.
func (h *siteHost) giveUp(t *testing.T) {
	// The context of the test is over by now.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := h.instances(h.namespace)
	_, err := client.Patch(ctx, h.name, types.MergePatchType, []byte(`{"spec":{"removal":{"policy":"Abandon"}}}`), metav1.PatchOptions{})
	if err == nil {
		err = client.Delete(ctx, h.name, metav1.DeleteOptions{})
	}
	// What an entry or a Machine asks for goes with that.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) {
		t.Errorf("giving up %s: %v", h.name, err)
	}
}

// declare makes the instance of the host.
func (h *siteHost) declare(t *testing.T, spec func(*v1alpha1.WindowsInstanceSpec)) {
	t.Helper()
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: h.name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: h.host.Address(), Port: int32(h.host.Port()), Username: h.host.User()},
	}
	if spec != nil {
		spec(&instance.Spec)
	}
	if _, err := h.instances(h.namespace).Create(t.Context(), instance, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// readyHost starts a host, makes its instance and waits until it is a Node that is ready.
func (s *site) readyHost(t *testing.T, namespace, name string, o winhost.Options) *siteHost {
	t.Helper()
	h := s.newHost(t, namespace, name, o)
	h.declare(t, nil)
	h.waitReady(t)
	return h
}

// wait waits until the instance is as it should be.
func (h *siteHost) wait(t *testing.T, what string, condition func(*v1alpha1.WindowsInstance) error) *v1alpha1.WindowsInstance {
	t.Helper()
	return waitInstance(t, h.instances(h.namespace), h.name, h.name+": "+what, condition)
}

// isSetUp returns nil if a host has its desired configuration, and its Node is ready.
func isSetUp(i *v1alpha1.WindowsInstance) error {
	for _, kind := range []string{v1alpha1.ConditionConfigured, v1alpha1.ConditionUpToDate, v1alpha1.ConditionNodeReady, v1alpha1.ConditionReady} {
		if !meta.IsStatusConditionTrue(i.Status.Conditions, kind) {
			return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
		}
	}
	if i.Status.Operation.Active() || i.Status.Phase != v1alpha1.InstanceReady || i.Status.ObservedGeneration != i.Generation {
		return fmt.Errorf("it is %s\n%s", i.Status.Phase, describeOperation(i))
	}
	if i.Status.CurrentRevision == "" || i.Status.CurrentRevision != i.Status.DesiredRevision {
		return fmt.Errorf("it has revision %q, want %q", i.Status.CurrentRevision, i.Status.DesiredRevision)
	}
	return nil
}

func (h *siteHost) waitReady(t *testing.T) *v1alpha1.WindowsInstance {
	t.Helper()
	i := h.wait(t, "the host is a Node that is ready", isSetUp)
	node := h.node(t, i.Status.Node.Name)
	if !nodeIsReady(node) || node.Spec.Unschedulable {
		t.Errorf("Node %s: unschedulable %t, conditions %+v", node.Name, node.Spec.Unschedulable, node.Status.Conditions)
	}
	return i
}

// waitRevision waits until the host is ready with another revision than before.
func (h *siteHost) waitRevision(t *testing.T, before string) *v1alpha1.WindowsInstance {
	t.Helper()
	return h.wait(t, "the host is ready with another revision", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.DesiredRevision == before {
			return errors.New("it must be as it was\n" + describeConditions(i))
		}
		return isSetUp(i)
	})
}

func nodeIsReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (h *siteHost) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := h.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func (h *siteHost) get(t *testing.T) *v1alpha1.WindowsInstance {
	t.Helper()
	i, err := h.instances(h.namespace).Get(t.Context(), h.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (h *siteHost) patch(t *testing.T, patch string) {
	t.Helper()
	if _, err := h.instances(h.namespace).Patch(t.Context(), h.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// reconfigure asks for the host to be brought to what it must be.
func (h *siteHost) reconfigure(t *testing.T) *v1alpha1.Operation {
	t.Helper()
	var op *v1alpha1.Operation
	eventually(t, "the reconfigure is taken", func() error { // one of the controller's own may run
		answer, err := h.instances(h.namespace).Reconfigure(t.Context(), h.name, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		op = answer.Status.Operation
		return nil
	})
	return op
}

// waitOperation waits for the end of an operation, and returns it.
func (h *siteHost) waitOperation(t *testing.T, id string) *v1alpha1.Operation {
	t.Helper()
	var op *v1alpha1.Operation
	h.wait(t, "the operation ends", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.Operation != nil && i.Status.Operation.ID == id {
			op = i.Status.Operation
		}
		for n := range i.Status.History {
			if i.Status.History[n].ID == id {
				op = &i.Status.History[n]
			}
		}
		if op == nil || op.FinishedAt == nil {
			return errors.New(describeOperation(i))
		}
		return nil
	})
	return op
}

// waitFailed waits until an operation on the host has failed, and returns it.
func (h *siteHost) waitFailed(t *testing.T, want ...string) *v1alpha1.Operation {
	t.Helper()
	i := h.wait(t, "the operation fails", func(i *v1alpha1.WindowsInstance) error {
		if op := i.Status.Operation; op == nil || op.Phase != v1alpha1.OperationFailed {
			return errors.New(describeOperation(i))
		}
		return nil
	})
	mustSay(t, i.Status.Operation.Message, want...)
	return i.Status.Operation
}

// waitStep waits until a step of the operation runs or has ended.
func (h *siteHost) waitStep(t *testing.T, step string) {
	t.Helper()
	h.wait(t, "step "+step+" begins", func(i *v1alpha1.WindowsInstance) error {
		if op := i.Status.Operation; op != nil {
			for _, s := range op.Steps {
				if s.Name == step && s.State != v1alpha1.StepPending {
					return nil
				}
			}
		}
		return errors.New(describeOperation(i))
	})
}

// remove deletes the instance.
func (h *siteHost) remove(t *testing.T) {
	t.Helper()
	if err := h.instances(h.namespace).Delete(t.Context(), h.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitGone waits until there is neither the instance nor its Node.
func (h *siteHost) waitGone(t *testing.T) {
	t.Helper()
	eventuallyInstance(t, h.instances(h.namespace), h.name, h.name+": the instance goes", func(i *v1alpha1.WindowsInstance, err error) error {
		if err == nil {
			return fmt.Errorf("%s\n%s", describeConditions(i), describeOperation(i))
		}
		return mustBeGone(err)
	})
	_, err := h.Kube.CoreV1().Nodes().Get(t.Context(), h.name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the Node is still there: %v", err)
	}
}

// waitEvent waits for an event of an object with a reason, which says all of want.
func (s *site) waitEvent(t *testing.T, namespace, name, reason string, want ...string) {
	t.Helper()
	eventually(t, "an event says it", func() error {
		events, err := s.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason + ",involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var messages []string
		for i := range events.Items {
			message := events.Items[i].Message
			if mustHave(message, want...) == nil {
				return nil
			}
			messages = append(messages, message)
		}
		return fmt.Errorf("of %s and reason %s there is %q, want %q", name, reason, messages, want)
	})
}

func describeConditions(i *v1alpha1.WindowsInstance) string {
	var b strings.Builder
	fmt.Fprintf(&b, "it is %s", i.Status.Phase)
	for _, c := range i.Status.Conditions {
		fmt.Fprintf(&b, "\n%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return b.String()
}

func describeOperation(i *v1alpha1.WindowsInstance) string {
	op := i.Status.Operation
	if op == nil {
		return "there is no operation"
	}
	return fmt.Sprintf("%s is %s: %s\n%s", op.Type, op.Phase, op.Message, describeSteps(op))
}

// local is where a file of the host is.
func (h *siteHost) local(t *testing.T, path string) string {
	t.Helper()
	local, err := h.host.LocalPath(path)
	if err != nil {
		t.Fatal(err)
	}
	return local
}

// write writes a file of the host as somebody on it would.
func (h *siteHost) write(t *testing.T, path, content string) {
	t.Helper()
	local := h.local(t, path)
	if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(local, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// read reads a file of the host. There need be none.
func (h *siteHost) read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(h.local(t, path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(content)
}

// hostState is what is on a host: paths and settings with what they hold.
type hostState map[string]string

// state reads all of a host.
func (h *siteHost) state(t *testing.T) hostState {
	t.Helper()
	root := h.local(t, `C:\`)
	state := hostState{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch info, err := entry.Info(); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			state[name] = fmt.Sprintf("file %x", sha256.Sum256(content))
		default:
			state[name] = info.Mode().Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(state, settingsOf(t, root+".json"))
	return state
}

// settingsOf are the settings of a host, but for those that nobody takes back: its name,
// and its features.
func settingsOf(t *testing.T, file string) hostState {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]json.RawMessage
	if err := json.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	state := hostState{}
	for kind, text := range settings {
		var entries map[string]json.RawMessage
		if kind == "Features" || json.Unmarshal(text, &entries) != nil {
			continue
		}
		for name, value := range entries {
			state[kind+": "+name] = string(value)
		}
	}
	return state
}

// difference says what is not as it was, but for what is below the prefixes to ignore.
func (s hostState) difference(before hostState, ignore ...string) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if was, there := before[name]; !there {
			lines = append(lines, "+ "+name)
		} else if was != s[name] {
			lines = append(lines, "~ "+name+": "+was+" is now "+s[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, there := s[name]; !there {
			lines = append(lines, "- "+name)
		}
	}
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return slices.ContainsFunc(ignore, func(prefix string) bool { return strings.HasPrefix(line[2:], prefix) })
	})
	return strings.Join(lines, "\n")
}

// mustBeClean fails the test unless the host is as it came.
func (h *siteHost) mustBeClean(t *testing.T) {
	t.Helper()
	if difference := h.state(t).difference(h.before); difference != "" {
		t.Errorf("the host is not as it came (+ is new, - is gone, ~ is changed):\n%s", difference)
	}
}
