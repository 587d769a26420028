// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// TestWine takes a host from an entry in the ConfigMap to a Node and back, with the agent's
// Windows build and the real kubelet.exe on it, and nobody but our programs and a control plane
// as it comes to do it. Its tests are one history: each finds what the one before has left.
func TestWine(t *testing.T) {
	t.Parallel()
	h := newWineHost(t)
	for _, chapter := range []struct {
		name string
		test func(*testing.T)
	}{
		{"join under another name", h.join},
		{"certificates", h.certificates},
		{"nothing to do", h.nothingToDo},
		{"change of the kubelet", h.changeKubelet},
		{"drift", h.drift},
		{"power loss", h.powerLoss},
		{"deleted Node", h.nodeDeleted},
		{"expired certificate", h.certificateExpired},
		{"removal", h.leave},
	} {
		if !t.Run(chapter.name, chapter.test) {
			h.dump(t)
			break
		}
	}
}

// join makes a Node of an entry. The host gets the name that its Node must have and the
// feature Containers with one restart.
func (h *wineHost) join(t *testing.T) {
	mustHaveJoined := h.watchJoin(t)
	// It is off until it is said how its Node must be called.
	if err := h.host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Kube.CoreV1().ConfigMaps(system.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: sourceName},
		Data:       map[string]string{h.host.Address(): entryFor(h.host, "name="+h.name)},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.wait(t, "there is an instance", func(*v1alpha1.WindowsInstance) error { return nil })
	h.patch(t, `{"spec":{"nodeName":"`+wineNode+`"}}`)
	if err := h.host.PowerOn(); err != nil {
		t.Fatal(err)
	}

	i := h.waitReady(t)
	if i.Status.Node.Name != wineNode || i.Status.System.Hostname != wineNode {
		t.Errorf("the Node is %s, and the host calls itself %s", i.Status.Node.Name, i.Status.System.Hostname)
	}
	if n := h.host.Restarts(); n != 1 {
		t.Errorf("the host was restarted %d times, want once", n)
	}
	info := h.node(t, wineNode).Status.NodeInfo
	if info.OperatingSystem != "windows" || info.BootID == "" || !strings.HasPrefix(info.KubeletVersion, "v1.") {
		t.Errorf("the kubelet says of its host %+v", info)
	}
	mustHaveJoined()
}

// certificates: the kubelet has got both of its certificates by our controller.
func (h *wineHost) certificates(t *testing.T) {
	requests, err := h.Kube.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	signed := map[string]string{} // who asked, by signer
	for i := range requests.Items {
		r := &requests.Items[i]
		if h.joinsWith(r) {
			continue // it asks with that one for its own
		}
		for _, c := range r.Status.Conditions {
			if c.Type == certificatesv1.CertificateApproved && strings.Contains(c.Message, h.name) {
				signed[r.Spec.SignerName] = r.Spec.Username
			}
		}
	}
	if who := signed[certificatesv1.KubeAPIServerClientKubeletSignerName]; who != "system:node:"+wineNode {
		t.Errorf("%q got the kubelet's certificate of a client, want the Node", who)
	}
	if who := signed[certificatesv1.KubeletServingSignerName]; who != "system:node:"+wineNode {
		t.Errorf("%q got the kubelet's certificate of a server, want the Node", who)
	}
	// kube-apiserver verifies it.
	eventually(t, "the kubelet answers", func() error {
		out, err := h.Kubectl(t.Context(), "get", "--raw", "/api/v1/nodes/"+wineNode+"/proxy/healthz")
		if err == nil && out != "ok" {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
}

// nothingToDo asks what a reconfigure would do to a host that is as desired.
func (h *wineHost) nothingToDo(t *testing.T) {
	out := h.plugin(t, "reconfigure", h.name, "--dry-run=server")
	mustSay(t, out, "nothing would change")
}

// changeKubelet changes what only the kubelet is about, for which it is restarted, and nothing
// else.
func (h *wineHost) changeKubelet(t *testing.T) {
	const maxPods = 300 // with fewer than before, its pods would leave
	before, was := h.processes(t), h.get(t).Status
	h.patchPool(t, system.Namespace, sourceName, fmt.Sprintf(`{"spec":{"template":{"kubelet":{"maxPods":%d}}}}`, maxPods))
	i := h.waitRevision(t, was.DesiredRevision)
	since := i.Status.OperationList() // Wine is slow at times, so that one may have failed, of which the next one did the rest
	since = since[:max(0, slices.IndexFunc(since, func(op *v1alpha1.Operation) bool { return op.ID == was.Operation.ID }))]
	if !slices.ContainsFunc(since, func(op *v1alpha1.Operation) bool { return op.Impact == v1alpha1.ImpactRestart }) {
		t.Errorf("no operation since has the impact %s\n%s", v1alpha1.ImpactRestart, describeOperation(i))
	}
	eventually(t, "the Node takes as many pods", func() error {
		node := h.node(t, wineNode)
		if n := node.Status.Capacity.Pods().Value(); n != maxPods || !nodeIsReady(node) {
			return fmt.Errorf("it takes %d, and its conditions are %+v", n, node.Status.Conditions)
		}
		return nil
	})
	restarted := before.restarted(h.processes(t))
	if !slices.Equal(restarted, []string{wmco.KubeletService}) {
		t.Errorf("the services %q have other processes than before, want the kubelet alone", restarted)
	}
}

// drift: somebody on the host stops a service and deletes a file. The agent's service puts
// both right by itself, and can be asked about it.
func (h *wineHost) drift(t *testing.T) {
	const file = wmco.KubeletConfigPath
	operation, content := h.get(t).Status.Operation.ID, h.read(t, file)
	// It looks when it starts, and then once a minute: not between the two.
	h.run(t, "net stop "+api.ServiceName)
	h.run(t, "net stop "+wmco.KubeletService)
	if err := os.Remove(h.local(t, file)); err != nil {
		t.Fatal(err)
	}
	h.run(t, "net start "+api.ServiceName)
	eventually(t, "both are put right", func() error {
		inspection, err := h.instances(h.namespace).Inspect(t.Context(), h.name, metav1.GetOptions{}) // Wine is slow at times
		if err != nil {
			return err
		}
		drift := inspection.Configuration.Drift
		if drift == nil {
			return errors.New("no drift is known")
		}
		if len(drift.Repaired) != 2 || len(drift.Left) > 0 {
			return fmt.Errorf("the drift is %+v", drift)
		}
		mustSay(t, strings.Join(drift.Repaired, "\n"), file, "Service "+wmco.KubeletService)
		return nil
	})
	if h.read(t, file) != content {
		t.Error("the file is another one than before")
	}
	mustSay(t, h.plugin(t, "inspect", h.name), "Drift", "Repaired", file)
	if h.processes(t)[wmco.KubeletService] == 0 {
		t.Error("the service does not run")
	}
	if now := h.get(t).Status.Operation.ID; now != operation {
		t.Errorf("operation %s put it right, and not the agent", now)
	}
}

// powerLoss takes the power while the host is changed. It is brought to the end afterwards.
func (h *wineHost) powerLoss(t *testing.T) {
	before := h.waitReady(t)
	boot := h.node(t, wineNode).Status.NodeInfo.BootID
	h.patchPool(t, system.Namespace, sourceName, `{"spec":{"template":{"containerd":{"sandboxImage":"registry.example.com/pause:1"}}}}`)
	h.wait(t, "it is being configured", func(i *v1alpha1.WindowsInstance) error {
		op := i.Status.Operation
		running := slices.ContainsFunc(op.Steps, func(s v1alpha1.OperationStep) bool {
			return s.Name == v1alpha1.StepApply && s.State == v1alpha1.StepRunning
		})
		if op.ID == before.Status.Operation.ID || !running {
			return errors.New(describeOperation(i))
		}
		return nil
	})
	eventually(t, "the agent has begun", func() error {
		if !h.applying(t) {
			return errors.New("it has not")
		}
		return nil
	})
	if err := h.host.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if !h.applying(t) {
		t.Error("the host was configured before the power was lost")
	}
	if err := h.host.PowerOn(); err != nil {
		t.Fatal(err)
	}
	i := h.waitRevision(t, before.Status.DesiredRevision)
	t.Logf("%s", describeOperation(i))
	eventually(t, "the Node is ready after the boot", func() error {
		node := h.node(t, wineNode)
		if node.Status.NodeInfo.BootID == boot || !nodeIsReady(node) || node.Spec.Unschedulable {
			return fmt.Errorf("boot %s, unschedulable %t, conditions %+v", node.Status.NodeInfo.BootID, node.Spec.Unschedulable, node.Status.Conditions)
		}
		return nil
	})
	mustSay(t, h.read(t, wmco.ContainerdConfigPath), "registry.example.com/pause:1")
	mustSay(t, h.plugin(t, "reconfigure", h.name, "--dry-run=server"), "nothing would change")
}

// nodeDeleted deletes the Node, which a kubelet makes again only when it is restarted.
func (h *wineHost) nodeDeleted(t *testing.T) {
	before, node, running := h.waitReady(t), h.node(t, wineNode), h.processes(t)
	if err := h.Kube.CoreV1().Nodes().Delete(t.Context(), wineNode, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.waitRejoined(t, before)
	if h.node(t, wineNode).UID == node.UID {
		t.Error("the Node is the one that was deleted")
	}
	if restarted := running.restarted(h.processes(t)); !slices.Equal(restarted, []string{wmco.KubeletService}) {
		t.Errorf("restarted were %v, want the kubelet alone", restarted)
	}
}

// certificateExpired has the host find that its certificate has expired while it had no power.
func (h *wineHost) certificateExpired(t *testing.T) {
	before, node := h.get(t), h.node(t, wineNode)
	h.replaceCertificate(t, wineNode, h.clusterCA(t), time.Now().Add(-time.Hour), nil)
	h.waitRejoined(t, before)
	if h.node(t, wineNode).UID != node.UID {
		t.Error("the Node is another one")
	}
}

// waitRejoined waits until the host is ready after another operation than before.
func (h *wineHost) waitRejoined(t *testing.T, before *v1alpha1.WindowsInstance) {
	t.Helper()
	h.wait(t, "the host has joined again", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.Operation.ID == before.Status.Operation.ID {
			return errors.New(describeConditions(i))
		}
		return isSetUp(i)
	})
	if h.read(t, wmco.BootstrapKubeconfigPath) != "" {
		t.Error("what the host joined with is still there")
	}
}

// leave removes the entry, after which nothing is left of anything.
func (h *wineHost) leave(t *testing.T) {
	if _, err := h.Kube.CoreV1().ConfigMaps(system.Namespace).Patch(t.Context(), sourceName, "application/merge-patch+json", []byte(`{"data":null}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	h.waitGone(t)
	if _, err := h.Kube.CoreV1().Nodes().Get(t.Context(), wineNode, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node is still there: %v", err)
	}
	for _, difference := range h.before.Differences(hosttest.TakeSnapshot(t, h.host)) {
		t.Errorf("the host is not as it came: %s", difference)
	}
}
