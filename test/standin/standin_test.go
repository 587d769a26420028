// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package standin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/kubelet"
)

// joining is a directory that is drive C of a host, as the engine leaves it.
type joining struct {
	drive, commandLine string
	cp                 *controlplane.ControlPlane
	kube               kubernetes.Interface
}

func newJoining(t *testing.T) *joining {
	t.Helper()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	kube, err := kubernetes.NewForConfig(cp.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	j := &joining{drive: t.TempDir(), cp: cp, kube: kube}
	j.write(t)
	return j
}

// write writes what the engine writes.
func (j *joining) write(t *testing.T) {
	t.Helper()
	ca, err := os.ReadFile(j.cp.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	joins, err := j.cp.UserConfig("system:node:joiner", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	bootstrap, err := document.CertificateCredentials{CAFile: wmco.BootstrapCAPath, Certificate: joins.CertData, Key: joins.KeyData}.Kubeconfig(joins.Host, "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	dns, err := document.ClusterDNS("10.96.0.0/12")
	if err != nil {
		t.Fatal(err)
	}
	config, err := yaml.Marshal(document.KubeletConfiguration(dns, document.KubeletOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		wmco.KubeletCAPath: ca, wmco.BootstrapCAPath: ca, wmco.BootstrapKubeconfigPath: bootstrap, wmco.KubeletConfigPath: config,
		`C:\k\kubelet.exe`: []byte("kubelet v1.36.9\n"),
	} {
		if err := os.MkdirAll(filepath.Dir(j.local(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(j.local(path), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j.commandLine = strings.Join([]string{
		`C:\k\kube-log-runner.exe`, `-log-file=C:\var\log\kubelet\kubelet.log`, `C:\k\kubelet.exe`, "--config=" + wmco.KubeletConfigPath,
		"--bootstrap-kubeconfig=" + wmco.BootstrapKubeconfigPath, "--kubeconfig=" + wmco.KubeconfigPath, `--cert-dir=c:\var\lib\kubelet\pki\`,
		"--windows-service", "--node-labels=node.openshift.io/os_id=Windows", "--v=2", "--node-ip=127.0.2.77",
	}, " ")
}

func (j *joining) local(path string) string {
	return filepath.Join(j.drive, filepath.FromSlash(strings.ReplaceAll(path[2:], `\`, "/")))
}

func (j *joining) options(t *testing.T) kubelet.JoinOptions {
	return kubelet.JoinOptions{Drive: j.drive, CommandLine: j.commandLine, Hostname: "Joiner", Logf: t.Logf}
}

// start starts the kubelet; stop ends it and returns what it ended with.
func (j *joining) start(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- kubelet.Join(ctx, j.options(t))
	}()
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// request waits for a request that nobody has decided on.
func (j *joining) request(t *testing.T, signer string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	var found *certificatesv1.CertificateSigningRequest
	eventually(t, "a certificate is asked of "+signer, func() error {
		list, err := j.kube.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if r := &list.Items[i]; r.Spec.SignerName == signer && len(r.Status.Conditions) == 0 {
				found = r
				return nil
			}
		}
		return errors.New("there is no request")
	})
	return found
}

func (j *joining) approve(t *testing.T, r *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	})
	if _, err := j.kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), r.Name, r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// node waits for the Node to be as it should be.
func (j *joining) node(t *testing.T, what string, condition func(*corev1.Node) bool) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	eventually(t, what, func() (err error) {
		node, err = j.kube.CoreV1().Nodes().Get(t.Context(), "joiner", metav1.GetOptions{})
		if err == nil && !condition(node) {
			err = fmt.Errorf("it has %+v", node.Status.Conditions)
		}
		return err
	})
	return node
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// eventually polls condition until it returns nil.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// A host that was given what the engine writes becomes a Node of a real control plane, and
// is one again after a restart without what it was given to bootstrap.
func TestJoin(t *testing.T) {
	j := newJoining(t)
	stop := j.start(t)
	client := j.request(t, certificatesv1.KubeAPIServerClientKubeletSignerName)
	if got, want := client.Spec.Username, "system:node:joiner"; got != want {
		t.Errorf("%s asks for the client certificate, want %s", got, want)
	}
	if _, err := os.Stat(j.local(wmco.KubeconfigPath)); err != nil {
		t.Errorf("a kubelet that asks for its certificate has a kubeconfig: %v", err)
	}
	own := j.local(`C:\var\lib\kubelet\pki\kubelet-client-current.pem`)
	if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has a certificate of its own before it was given one: %v", err)
	}
	j.approve(t, client)
	eventually(t, "its own certificate is on the host", func() error {
		_, err := os.Stat(own)
		return err
	})
	node := j.node(t, "the Node is ready", isReady)
	wantLabels := map[string]string{
		corev1.LabelHostname: "joiner", corev1.LabelOSStable: "windows", corev1.LabelArchStable: "amd64",
		corev1.LabelWindowsBuild: "10.0.20348", "node.openshift.io/os_id": "Windows",
	}
	// The control plane adds the names that labels had in former releases, some time later.
	maps.DeleteFunc(node.Labels, func(label, _ string) bool { return strings.HasPrefix(label, "beta.kubernetes.io/") })
	if !maps.Equal(node.Labels, wantLabels) {
		t.Errorf("labels %v, want %v", node.Labels, wantLabels)
	}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "os" && t.Value == "Windows" }) {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	wantAddresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.2.77"}, {Type: corev1.NodeHostName, Address: "joiner"}}
	if !slices.Equal(node.Status.Addresses, wantAddresses) || node.Status.NodeInfo.KubeletVersion != "v1.36.9" || node.Status.Allocatable.Pods().Value() != 250 {
		t.Errorf("status %+v", node.Status)
	}
	serving := j.request(t, certificatesv1.KubeletServingSignerName)
	if got, want := serving.Spec.Username, "system:node:joiner"; got != want {
		t.Errorf("%s asks for the serving certificate, want %s", got, want)
	}
	j.approve(t, serving)
	current := j.local(`C:\var\lib\kubelet\pki\kubelet-server-current.pem`)
	eventually(t, "the serving certificate is on the host", func() error {
		pair, err := tls.LoadX509KeyPair(current, current)
		if err == nil {
			err = pair.Leaf.VerifyHostname("127.0.2.77")
		}
		return err
	})
	eventually(t, "the Lease is held", func() error {
		lease, err := j.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "joiner", metav1.GetOptions{})
		if err == nil && *lease.Spec.HolderIdentity != "joiner" {
			err = fmt.Errorf("it is held by %s", *lease.Spec.HolderIdentity)
		}
		return err
	})

	// It registers once: a Node that is deleted does not come back while it runs.
	missed := func() int {
		t.Helper()
		log, err := os.ReadFile(j.local(`C:\var\log\kubelet\kubelet.log`))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(log), `"joiner" not found`)
	}
	before := missed()
	if err := j.kube.CoreV1().Nodes().Delete(t.Context(), "joiner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kubelet finds out that its Node is gone", func() error {
		if missed() == before {
			return errors.New("it does not know")
		}
		return nil
	})
	if _, err := j.kube.CoreV1().Nodes().Get(t.Context(), "joiner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node that was deleted: %v", err)
	}
	// It does when the kubelet is restarted, which needs nothing of what it was given.
	if err := stop(); err != nil {
		t.Errorf("the kubelet was stopped: %v", err)
	}
	if err := os.Remove(j.local(wmco.BootstrapKubeconfigPath)); err != nil {
		t.Fatal(err)
	}
	// It has to have networks for pods as soon as something is to make them.
	overlay := j.local(`C:\k\hybrid-overlay-node.exe`)
	if err := os.WriteFile(overlay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop = j.start(t)
	j.node(t, "the Node is there and not ready", func(node *corev1.Node) bool { return len(node.Status.Conditions) > 0 && !isReady(node) })
	if err := os.MkdirAll(j.local(wmco.CNIConfigDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(j.local(wmco.CNIConfigPath), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j.node(t, "the Node is ready again", isReady)

	// Without a certificate and without what it was given it ends.
	if err := stop(); err != nil {
		t.Errorf("the kubelet was stopped: %v", err)
	}
	if err := os.Remove(j.local(`C:\var\lib\kubelet\pki\kubelet-client-current.pem`)); err != nil {
		t.Fatal(err)
	}
	if err := kubelet.Join(t.Context(), j.options(t)); err == nil || !strings.Contains(err.Error(), "unable to load the bootstrap kubeconfig") {
		t.Errorf("got %v", err)
	}
}
