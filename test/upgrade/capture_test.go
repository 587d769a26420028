// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package upgrade

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

var (
	captureDir    = flag.String("capture", "", "directory that does not exist, for what the programs of this tree leave behind; empty: nothing is captured")
	captureCommit = flag.String("capture-commit", "", "commit of the programs of this tree")
)

// longLife is that of all certificates of a fixture: it is used as long as its release is.
const longLife = 100 * 365 * 24 * time.Hour

// hostPort is where SSH servers of hosts are.
const hostPort = 2022

// TestCapture makes a fixture.
func TestCapture(t *testing.T) {
	if *captureDir == "" {
		t.Skip("there is no -capture")
	}
	c := newCapture(t)
	c.watchOnly(t)
	c.configure(t)
	c.finishOperations(t)
	c.beginOperations(t)
	c.save(t)
}

// capture is a cluster that a fixture is made of.
type capture struct {
	*cluster
	client ssh.Signer
}

func newCapture(t *testing.T) *capture {
	t.Helper()
	f := &fixture{dir: *captureDir, clusterFile: clusterFile{
		Commit: *captureCommit,
		// No other control plane has it: see controlplane.Restore.
		Block: netip.MustParsePrefix("127.224.1.0/24"), Port: 6443,
	}}
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ca, caKey := newCA(t)
	key, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{caCertFile: ca, caKeyFile: caKey, clientKeyFile: key} {
		if err := f.write(content, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := standin.WritePayload(t.Context(), f.path(payloadDir), standin.PayloadOptions{Bytes: 1}); err != nil {
		t.Fatal(err)
	}
	// What is on hosts of the agent is no program.
	agents := t.TempDir()
	for _, name := range []string{"windows-node-agent.exe", "windows-node-agent"} {
		if err := os.WriteFile(filepath.Join(agents, name), []byte("This is the agent of "+f.Commit+".\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &capture{client: signer, cluster: startCluster(t, f, nil, "--agent-dir="+agents)}
}

// newCA makes a certificate authority that does not expire while the fixture is used.
func newCA(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(longLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// addHost starts a host that has never been configured.
func (c *capture) addHost(t *testing.T, name string) {
	t.Helper()
	key, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.fixture.write(key, "hosts", name, hostKeyFile); err != nil {
		t.Fatal(err)
	}
	address := c.fixture.Block.Addr().As4()
	address[3] = byte(200 + len(c.fixture.Hosts))
	entry := hostEntry{Name: name, Address: netip.AddrFrom4(address).String(), Port: hostPort}
	c.fixture.Hosts = append(c.fixture.Hosts, entry)
	h := c.startHost(t, entry, filepath.Join(t.TempDir(), name), signer, c.client)
	for path, content := range theirs {
		local := h.local(t, path)
		if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(local, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// declare makes the instance of a host.
func (c *capture) declare(t *testing.T, name, pool string) {
	t.Helper()
	c.addHost(t, name)
	h := c.hosts[name]
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: h.Address(), Port: int32(h.Port()), Username: h.User()},
	}
	if pool != "" {
		instance.Spec.PoolRef = &v1alpha1.PoolReference{Name: pool}
	}
	if _, err := c.instances().Create(t.Context(), instance, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// watchOnly has an instance looked at by a controller that has no payload. It is taken away
// then, before another controller sees it.
func (c *capture) watchOnly(t *testing.T) {
	c.startController(t, "--payload=")
	c.declare(t, hostWatched, "")
	c.wait(t, hostWatched, "it is watched", func(i *v1alpha1.WindowsInstance) error {
		if condition := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionConfigured); condition == nil || condition.Reason != v1alpha1.ReasonNotManaged ||
			!meta.IsStatusConditionTrue(i.Status.Conditions, v1alpha1.ConditionPreflightPassed) {
			return errors.New("it is not yet")
		}
		return nil
	})
	if err := c.Controller.Stop(); err != nil {
		t.Fatal(err)
	}
	c.saveObjects(t, func(key string) bool { return strings.HasSuffix(key, instancesPrefix+hostWatched) })
}

// configure makes Nodes of all hosts but the first.
func (c *capture) configure(t *testing.T) {
	c.startController(t)
	for name, template := range map[string]v1alpha1.PoolTemplate{
		poolReady: {
			NodeLabels: map[string]string{"example.com/rack": "r1"},
			NodeTaints: []v1alpha1.NodeTaint{{Key: "example.com/reserved", Value: "games", Effect: v1alpha1.NodeTaintPreferNoSchedule}},
			Kubelet: &v1alpha1.KubeletTemplate{
				MaxPods: new(int32(110)), LogVerbosity: new(int32(3)), EvictionHard: map[string]string{"memory.available": "500Mi"},
				SystemReserved: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
			},
			Containerd:  &v1alpha1.ContainerdTemplate{LogLevel: v1alpha1.ContainerdLogWarn},
			LogRotation: &v1alpha1.LogRotationTemplate{MaxSize: new(resource.MustParse("20Mi")), MaxAgeSeconds: new(int64(72 * 3600))},
		},
		poolChanging: {}, poolHalf: {},
	} {
		if _, err := c.Windows.WindowsV1alpha1().WindowsNodePools(system.Namespace).Create(t.Context(), &v1alpha1.WindowsNodePool{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.WindowsNodePoolSpec{Source: v1alpha1.PoolSource{Instances: &v1alpha1.InstancesSource{}}, Template: template},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.declare(t, hostReady, poolReady)
	c.declare(t, hostChanging, poolChanging)
	c.declare(t, hostHalf, poolHalf)
	c.declare(t, hostRebooting, "")
	c.declare(t, hostRemoving, "")
	c.addHost(t, hostEntered)
	h := c.hosts[hostEntered]
	if _, err := c.Kube.CoreV1().ConfigMaps(system.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: entriesConfigMap},
		Data:       map[string]string{h.Address(): fmt.Sprintf("username=%s\nport=%d\nname=%s", h.User(), h.Port(), hostEntered)},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{hostReady, hostChanging, hostHalf, hostRebooting, hostRemoving, hostEntered} {
		c.wait(t, name, "it is a Node that is ready", isConfigured)
	}
}

// finishOperations has operations end.
func (c *capture) finishOperations(t *testing.T) {
	client := c.instances()
	drain := v1alpha1.DrainOptions{Force: true, TimeoutSeconds: new(int64(300)), PodSelector: "app"}
	for _, ask := range []func() (*v1alpha1.Operation, error){
		func() (*v1alpha1.Operation, error) {
			answer, err := client.Drain(t.Context(), hostReady, &v1alpha1.WindowsInstanceDrain{Spec: v1alpha1.WindowsInstanceDrainSpec{DrainOptions: drain}}, metav1.CreateOptions{})
			return operationOf(answer, err, func() *v1alpha1.Operation { return answer.Status.Operation })
		},
		func() (*v1alpha1.Operation, error) {
			answer, err := client.Uncordon(t.Context(), hostReady, &v1alpha1.WindowsInstanceUncordon{}, metav1.CreateOptions{})
			return operationOf(answer, err, func() *v1alpha1.Operation { return answer.Status.Operation })
		},
		func() (*v1alpha1.Operation, error) {
			answer, err := client.Reboot(t.Context(), hostReady, &v1alpha1.WindowsInstanceReboot{Spec: v1alpha1.WindowsInstanceRebootSpec{
				RebootOptions: v1alpha1.RebootOptions{Mode: v1alpha1.RebootGraceful, TimeoutSeconds: new(int64(600))}, Drain: &drain,
			}}, metav1.CreateOptions{})
			return operationOf(answer, err, func() *v1alpha1.Operation { return answer.Status.Operation })
		},
		func() (*v1alpha1.Operation, error) {
			answer, err := client.Reconfigure(t.Context(), hostReady, &v1alpha1.WindowsInstanceReconfigure{}, metav1.CreateOptions{})
			return operationOf(answer, err, func() *v1alpha1.Operation { return answer.Status.Operation })
		},
	} {
		op, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		c.waitOperation(t, hostReady, op.ID)
	}
	c.wait(t, hostReady, "it is ready again", isConfigured)
}

func operationOf(_ any, err error, operation func() *v1alpha1.Operation) (*v1alpha1.Operation, error) {
	if err != nil {
		return nil, err
	}
	return operation(), nil
}

// beginOperations begins operations and holds each where it takes the longest.
func (c *capture) beginOperations(t *testing.T) {
	// A host that cannot be cleaned.
	if err := c.hosts[hostRemoving].PowerOff(); err != nil {
		t.Fatal(err)
	}
	if err := c.instances().Delete(t.Context(), hostRemoving, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// A host that does not come back.
	c.hosts[hostRebooting].SetRestart(winhost.RestartOptions{StaysOff: true})
	if _, err := c.instances().Reboot(t.Context(), hostRebooting, &v1alpha1.WindowsInstanceReboot{}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// A host with a pod that must not go.
	c.runPod(t)
	c.patchPool(t, poolChanging, `{"spec":{"template":{"containerd":{"sandboxImage":"registry.example.com/pause:1"}}}}`)
	c.wait(t, hostRemoving, "it cannot be cleaned", func(i *v1alpha1.WindowsInstance) error {
		if condition := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionRemoved); condition == nil || condition.Reason != v1alpha1.ReasonRemovalFailed {
			return errors.New("it is tried")
		}
		return nil
	})
	c.wait(t, hostRebooting, "it is off", func(*v1alpha1.WindowsInstance) error {
		if c.hosts[hostRebooting].Restarts() == 0 {
			return errors.New("it is on")
		}
		return nil
	})
	c.wait(t, hostChanging, "a pod is in the way", func(i *v1alpha1.WindowsInstance) error {
		if op := i.Status.Operation; op == nil || len(op.BlockedBy) == 0 {
			return errors.New("none is")
		}
		return nil
	})
	// A host that loses its power when half of it is changed, and a controller that dies.
	c.patchPool(t, poolHalf, `{"spec":{"template":{"kubelet":{"maxPods":43}}}}`)
	inventory := c.hosts[hostHalf].local(t, `C:\Windows\windows-node-agent\state\inventory.json`)
	eventually(t, hostHalf+": it is being changed", func() error {
		text, err := os.ReadFile(inventory)
		if err == nil && !bytes.Contains(text, []byte(`"applying":`)) {
			err = errors.New("it is not")
		}
		return err
	})
	off := c.hosts[hostHalf].PowerOff()
	c.Controller.Kill9()
	if off != nil {
		t.Fatal(off)
	}
}

// runPod puts a pod on a Node, and has a budget protect it.
func (c *capture) runPod(t *testing.T) {
	t.Helper()
	if _, err := c.Kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "kept"}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := c.Kube.CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "kept", Labels: map[string]string{"app": "kept"}, OwnerReferences: []metav1.OwnerReference{{
			// A drain leaves pods alone that no controller makes anew; this one is never asked.
			APIVersion: "example.com/v1", Kind: "Game", Name: "game", UID: "0e5ed1a7-7f2a-4d5c-9d3e-5a8a9c1f3a10", Controller: new(true),
		}}},
		Spec: corev1.PodSpec{
			NodeName: hostChanging, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the budget counts the pod", func() error {
		budget, err := c.Kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault).Get(t.Context(), "kept", metav1.GetOptions{})
		if err == nil && budget.Status.CurrentHealthy != 1 {
			err = fmt.Errorf("it counts %d", budget.Status.CurrentHealthy)
		}
		return err
	})
}

func (c *capture) patchPool(t *testing.T, name, patch string) {
	t.Helper()
	if _, err := c.Windows.WindowsV1alpha1().WindowsNodePools(system.Namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// save writes what is left when all power is cut.
func (c *capture) save(t *testing.T) {
	c.fixture.TakenAt = time.Now().UTC().Truncate(time.Second)
	c.saveObjects(t, func(key string) bool {
		return slices.ContainsFunc(kept, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	for name, h := range c.hosts {
		if err := h.PowerOff(); err != nil {
			t.Fatal(err)
		}
		if err := c.fixture.captureHost(name, h.dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.fixture.writeYAML(c.fixture.clusterFile, "cluster.yaml"); err != nil {
		t.Fatal(err)
	}
}

// kept are the prefixes of keys of objects that are ours, or that ours are about. What the
// control plane and the system make at each start is left out.
var kept = []string{
	"/registry/windows.openshift.io/", "/registry/minions/",
	"/registry/pods/default/", "/registry/poddisruptionbudgets/default/",
	"/registry/configmaps/" + system.Namespace + "/windows-", "/registry/secrets/" + system.Namespace + "/windows-",
	"/registry/secrets/kube-system/bootstrap-token-",
}

// saveObjects takes objects out of etcd.
func (c *capture) saveObjects(t *testing.T, keep func(key string) bool) {
	t.Helper()
	if err := withEtcd(t.Context(), c.EtcdURL(), func(ctx context.Context, client *clientv3.Client) error {
		answer, err := client.Get(ctx, "/registry/", clientv3.WithPrefix())
		if err != nil {
			return err
		}
		for _, kv := range answer.Kvs {
			key := string(kv.Key)
			if !keep(key) {
				continue
			}
			if err := c.saveObject(key, kv.Value); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if _, err := client.Delete(ctx, key); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// saveObject writes an object as it is stored.
func (c *capture) saveObject(key string, stored []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(stored), []byte("{")) { // it is no JSON
		object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(stored, nil, nil)
		if err != nil {
			return err
		}
		object.GetObjectKind().SetGroupVersionKind(*kind)
		if stored, err = yaml.Marshal(object); err != nil {
			return err
		}
	}
	text, err := yaml.JSONToYAML(stored)
	if err != nil {
		return err
	}
	return c.fixture.write(text, objectsDir, key+".yaml")
}
