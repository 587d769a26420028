// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/agenthost"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/winhost"
)

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// configureReimaged puts an empty host in the place of one that was set up.
func configureReimaged(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-image")
	h := s.readyHost(t, namespace, "cfg-image", winhost.Options{})
	address, port := h.host.Address(), h.host.Port()
	machine := agenthost.MachineID(h.local(t, `C:\`))
	if err := h.host.Close(); err != nil {
		t.Fatal(err)
	}
	fresh := s.newHost(t, namespace, h.name, winhost.Options{Address: address, Port: port})
	firmware, _, _ := strings.Cut(machine, "/")
	writeFile(t, agenthost.MachineFile(fresh.local(t, `C:\`)), firmware+"/installed-again")
	i := fresh.wait(t, "another host key is seen", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionHostKeyTrusted); c == nil || c.Reason != v1alpha1.ReasonHostKeyChanged {
			return errors.New(describeConditions(i))
		}
		return nil
	})
	if n := len(fresh.host.Commands()); n > 0 {
		t.Errorf("%d commands were run on a host that nobody trusts: %q", n, fresh.host.Commands())
	}
	mustSay(t, messageOf(t, i, v1alpha1.ConditionHostKeyTrusted), ssh.FingerprintSHA256(fresh.host.HostKey()))
	fresh.patch(t, fmt.Sprintf(`{"spec":{"hostKeys":[%q]}}`, keyLine(fresh.host.HostKey())))
	fresh.wait(t, "the host is set up anew", func(i *v1alpha1.WindowsInstance) error {
		if fresh.kubelets.Load() == 0 {
			return fmt.Errorf("it has no kubelet\n%s\n%s", describeConditions(i), describeOperation(i))
		}
		return isSetUp(i)
	})
	fresh.waitReady(t)
	fresh.remove(t)
	fresh.waitGone(t)
	fresh.mustBeClean(t)
}

// configureRotatedCredentials has a host of credentials of its own refuse them in the middle.
func configureRotatedCredentials(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-keys")
	_, before := newPEM(t)
	signer, after := newPEM(t)
	old, err := ssh.ParsePrivateKey(before)
	if err != nil {
		t.Fatal(err)
	}
	secrets := s.Kube.CoreV1().Secrets(namespace)
	secret, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"private-key.pem": before},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lendCredentials(t, s.System, namespace)
	h := s.newHost(t, namespace, "cfg-keys", winhost.Options{})
	if err := h.host.SetAuthorizedKeys(old.PublicKey()); err != nil {
		t.Fatal(err)
	}
	h.declare(t, func(spec *v1alpha1.WindowsInstanceSpec) {
		spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: secret.Name}
	})
	h.waitStep(t, v1alpha1.StepTransfer)
	if err := h.host.SetAuthorizedKeys(signer.PublicKey()); err != nil {
		t.Fatal(err)
	}
	secret.Data["private-key.pem"] = after
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// As a rotation does, the host is restarted: nobody is logged in any more.
	reboot(t, h.host)
	h.settleFailed(t)
	h.waitReady(t)
}

// settleFailed waits until a host is set up, or asks for it once more if that has failed:
// by itself that takes a minute.
func (h *siteHost) settleFailed(t *testing.T) {
	t.Helper()
	i := h.wait(t, "the operation ends", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.Operation == nil || i.Status.Operation.FinishedAt == nil {
			return errors.New(describeOperation(i))
		}
		return nil
	})
	if i.Status.Operation.Phase == v1alpha1.OperationFailed {
		t.Logf("%s: %s", h.name, i.Status.Operation.Message)
		h.waitOperation(t, h.reconfigure(t).ID)
	}
}

// configureCutConnection cuts the connection in the middle of the transfer, again and again,
// and then in the middle of the work on the host.
func configureCutConnection(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-cut")
	h := s.newHost(t, namespace, "cfg-cut", winhost.Options{})
	h.declare(t, nil)
	h.waitStep(t, v1alpha1.StepConnect)
	// The largest file has 1 MiB.
	setFault(t, h.host, winhost.Fault{CutAfterBytes: 600 << 10})
	h.waitStep(t, v1alpha1.StepApply)
	setFault(t, h.host, winhost.Fault{Freeze: true})
	eventually(t, "nothing moves", func() error {
		if h.host.Connections() == 0 {
			return nil
		}
		setFault(t, h.host, winhost.Fault{RefuseTCP: true})
		return nil
	})
	setFault(t, h.host, winhost.Fault{})
	h.settleFailed(t)
	h.waitReady(t)
	h.remove(t)
	h.waitGone(t)
	h.mustBeClean(t)
}

// configureFullDisk fills the disk of a host before it is set up.
func configureFullDisk(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-disk")
	h := s.newHost(t, namespace, "cfg-disk", winhost.Options{})
	h.declare(t, nil)
	h.waitStep(t, v1alpha1.StepConnect) // our agent is there by now: a full disk would keep it away
	setFault(t, h.host, winhost.Fault{DiskFull: true})
	i := h.wait(t, "the operation fails", func(i *v1alpha1.WindowsInstance) error {
		if op := i.Status.Operation; op == nil || op.Phase != v1alpha1.OperationFailed {
			return errors.New(describeOperation(i))
		}
		return nil
	})
	if message := i.Status.Operation.Message; !strings.Contains(message, "full") && !strings.Contains(message, "space") && !strings.Contains(message, "room") {
		t.Errorf("it does not say that the disk is full: %s", message)
	}
	setFault(t, h.host, winhost.Fault{})
	if op := h.waitOperation(t, h.reconfigure(t).ID); op.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("with room on the disk it is %s: %s", op.Phase, op.Message)
	}
	h.waitReady(t)
}

// configureHungService changes a setting of a service that does not stop: its process is ended.
func configureHungService(t *testing.T, s *site) {
	const pool = "p"
	namespace := s.namespace(t, "cfg-hung")
	s.newPool(t, namespace, pool, v1alpha1.PoolTemplate{})
	h := s.newHost(t, namespace, "cfg-hung", winhost.Options{})
	h.declare(t, inPool(pool))
	before := h.waitReady(t).Status.DesiredRevision
	setFault(t, h.host, winhost.Fault{HangStop: "kubelet"})
	starts := h.kubelets.Load()
	s.patchPool(t, namespace, pool, `{"spec":{"template":{"kubelet":{"maxPods":44}}}}`)
	h.waitRevision(t, before)
	if n := h.kubelets.Load() - starts; n != 1 {
		t.Errorf("the kubelet was started %d times, want once", n)
	}
}

// allowPullSecret lets our programs read the credentials of registries where OpenShift keeps
// them, of which mirrors make part. There are none here.
func (s *site) allowPullSecret(t *testing.T) {
	t.Helper()
	s.namespace(t, "openshift-config")
	s.namespace(t, "openshift-machine-config-operator")
	s.namespace(t, "openshift-network-operator")
	if _, err := s.Kubectl(t.Context(), "apply", "-f", filepath.Join("..", "..", "artifacts", "openshift", "inputs.yaml")); err != nil {
		t.Fatal(err)
	}
}

var digestMirrorSets = schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "imagedigestmirrorsets"}

// configureMirror adds a mirror, which is a file on each host and interrupts nothing.
func configureMirror(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-mirror")
	s.allowPullSecret(t)
	h := s.readyHost(t, namespace, "cfg-mirror", winhost.Options{})
	client, err := dynamic.NewForConfig(s.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	revision, starts, restarts := h.get(t).Status.DesiredRevision, h.kubelets.Load(), h.host.Restarts()
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": map[string]any{"name": "mirror"},
		"spec": map[string]any{"imageDigestMirrors": []any{map[string]any{"source": "registry.example.com", "mirrors": []any{"mirror.example.com/m"}}}},
	}}
	if _, err := client.Resource(digestMirrorSets).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	op := h.waitRevision(t, revision).Status.Operation
	if op.Impact != v1alpha1.ImpactNone {
		t.Errorf("the impact is %q\n%s", op.Impact, describeSteps(op))
	}
	hosts := h.read(t, `C:\k\containerd\registries\registry.example.com\hosts.toml`)
	mustSay(t, hosts, "mirror.example.com")
	if h.kubelets.Load() != starts || h.host.Restarts() != restarts {
		t.Error("the kubelet or the host was restarted")
	}
	if err := client.Resource(digestMirrorSets).Delete(t.Context(), "mirror", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.wait(t, "the mirror goes", func(i *v1alpha1.WindowsInstance) error {
		if i.Status.CurrentRevision != revision {
			return fmt.Errorf("it has revision %s\n%s", i.Status.CurrentRevision, describeOperation(i))
		}
		return isSetUp(i)
	})
	if left := h.read(t, `C:\k\containerd\registries\registry.example.com\hosts.toml`); left != "" {
		t.Errorf("it is still there: %s", left)
	}
}

// configureWrongDigest spoils a file of the payload: it reaches no host.
func configureWrongDigest(t *testing.T, s *site) {
	path := filepath.Join(s.payload, "files", "kubelet.exe")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.ToUpper(good)
	writeFile(t, path, string(bad))
	namespace := s.namespace(t, "cfg-digest")
	h := s.newHost(t, namespace, "cfg-digest", winhost.Options{})
	h.declare(t, nil)
	op := h.waitFailed(t, "kubelet.exe", "digest")
	err = filepath.WalkDir(h.local(t, `C:\`), func(path string, entry os.DirEntry, err error) error {
		var content []byte
		if err == nil && entry.Type().IsRegular() {
			content, err = os.ReadFile(path)
		}
		if bytes.Contains(content, bad) {
			t.Errorf("%s has the content that nobody vouches for", path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	writeFile(t, path, string(good))
	if op := h.waitOperation(t, h.reconfigure(t).ID); op.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("with the right content it is %s: %s", op.Phase, op.Message)
	}
	h.waitReady(t)
	t.Logf("it said: %s", op.Message)
}

// configureWithoutAPI takes the API server of the cluster away while a host is set up, for less time than a leader outlives that.
func configureWithoutAPI(t *testing.T, s *site) {
	namespace := s.namespace(t, "cfg-api")
	h := s.newHost(t, namespace, "cfg-api", winhost.Options{})
	h.declare(t, nil)
	h.waitStep(t, v1alpha1.StepTransfer)
	id := h.get(t).Status.Operation.ID
	s.APIServer.Kill9()
	pause(t.Context(), time.Minute)
	if err := s.APIServer.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRefusedUntilNow(s.System)
	if op := h.waitOperation(t, id); op.Phase != v1alpha1.OperationSucceeded {
		t.Errorf("it is %s: %s", op.Phase, op.Message)
	}
	h.waitReady(t)
}

// configureInSpiteOfKills kills the controller, and our API server, again and again while ten
// hosts are set up.
func configureInSpiteOfKills(t *testing.T, s *site) {
	const kills = 6
	namespace := s.namespace(t, "cfg-killed")
	hosts := make([]*siteHost, 10)
	for n := range hosts {
		hosts[n] = s.newHost(t, namespace, fmt.Sprintf("cfg-killed-%d", n), winhost.Options{})
	}
	for _, h := range hosts {
		h.declare(t, nil)
	}
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for n := range kills {
		pause(t.Context(), time.Duration(500+random.IntN(3000))*time.Millisecond)
		killed := []*controlplane.Process{s.Controller, s.Server}[n%2]
		killed.Kill9()
		if err := killed.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range hosts {
		h.waitReady(t)
		if n := h.host.Restarts(); n > 1 {
			t.Errorf("%s was restarted %d times", h.name, n)
		}
		if i := h.get(t); len(i.Status.History) > 0 {
			t.Errorf("%s needed more than one operation: %s\n%+v", h.name, describeOperation(i), i.Status.History)
		}
	}
	// And while they are cleaned.
	for _, h := range hosts {
		h.remove(t)
	}
	for range kills / 2 {
		pause(t.Context(), time.Duration(300+random.IntN(2000))*time.Millisecond)
		s.Controller.Kill9()
		if err := s.Controller.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range hosts {
		h.waitGone(t)
		h.mustBeClean(t)
	}
}

// manyHosts is how many hosts are set up at once. All of them are part of this process.
const manyHosts = 20

// TestConfigureMany sets many hosts up at once, one of which is dead and one slow.
func TestConfigureMany(t *testing.T) {
	t.Parallel()
	const count = manyHosts
	s := newSite(t, standin.PayloadOptions{})
	namespace := s.namespace(t, "cfg-many")
	hosts := make([]*siteHost, count)
	for n := range hosts {
		hosts[n] = s.newHost(t, namespace, fmt.Sprintf("cfg-many-%03d", n), winhost.Options{})
	}
	dead, slow := hosts[0], hosts[1]
	setFault(t, dead.host, winhost.Fault{HangAtAccept: true})
	setFault(t, slow.host, winhost.Fault{Latency: 75 * time.Millisecond})
	began := time.Now()
	var all errgroup.Group
	all.SetLimit(8)
	for _, h := range hosts {
		all.Go(func() error {
			_, err := h.instances(namespace).Create(t.Context(), &v1alpha1.WindowsInstance{
				ObjectMeta: metav1.ObjectMeta{Name: h.name},
				Spec:       v1alpha1.WindowsInstanceSpec{Address: h.host.Address(), Port: int32(h.host.Port()), Username: h.host.User()},
			}, metav1.CreateOptions{})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	s.waitAll(t, namespace, hosts[2:])
	t.Logf("%d hosts were set up in %.1f s", count-2, time.Since(began).Seconds())
	if i := dead.get(t); i.Status.CurrentRevision != "" || i.Status.Operation != nil {
		t.Errorf("a dead host was set up\n%s", describeOperation(i))
	}
	slow.waitReady(t)
	t.Logf("the slow one after %.1f s", time.Since(began).Seconds())
	setFault(t, dead.host, winhost.Fault{})
	dead.waitReady(t)
	t.Logf("the controller takes %d MiB", residentMiB(t, s.Controller.PID()))

	// A change that interrupts nothing reaches all of them.
	s.allowPullSecret(t)
	client, err := dynamic.NewForConfig(s.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": map[string]any{"name": "mirror"},
		"spec": map[string]any{"imageDigestMirrors": []any{map[string]any{"source": "registry.example.com", "mirrors": []any{"mirror.example.com/m"}}}},
	}}
	began = time.Now()
	if _, err := client.Resource(digestMirrorSets).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		eventually(t, h.name+" has the mirror", func() error {
			if h.read(t, `C:\k\containerd\registries\registry.example.com\hosts.toml`) == "" {
				return errors.New("it does not")
			}
			return nil
		})
	}
	s.waitAll(t, namespace, hosts)
	t.Logf("a mirror was on %d hosts after %.1f s", count, time.Since(began).Seconds())
	for _, h := range hosts {
		if n := h.host.Restarts(); n != 1 {
			t.Errorf("%s was restarted %d times, want once", h.name, n)
		}
	}
}

// waitAll waits until hosts are set up, without asking for each of them alone.
func (s *site) waitAll(t *testing.T, namespace string, hosts []*siteHost) {
	t.Helper()
	eventually(t, "all hosts are set up", func() error {
		list, err := s.instances(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		missing := 0
		var first error
		for i := range list.Items {
			instance := &list.Items[i]
			if !slices.ContainsFunc(hosts, func(h *siteHost) bool { return h.name == instance.Name }) {
				continue
			}
			if err := isSetUp(instance); err != nil {
				if missing++; first == nil {
					first = fmt.Errorf("%s: %w", instance.Name, err)
				}
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d are not, as %w", missing, first)
		}
		return nil
	})
}
