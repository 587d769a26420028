// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package wine

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// joinsAs makes what a host joins with as that node.
func (c *cluster) joinsAs(t *testing.T, nodeName string) *document.CertificateCredentials {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encodedKey, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := cert.MakeCSR(key, &pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	name, uid, err := csr.RequestCertificateWithContext(t.Context(), c.kube, request, "", certificatesv1.KubeAPIServerClientKubeletSignerName,
		new(time.Hour), []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := csr.WaitForCertificate(t.Context(), c.kube, name, uid)
	if err != nil {
		t.Fatal(err)
	}
	return &document.CertificateCredentials{CAFile: wmco.BootstrapCAPath, Certificate: certificate, Key: encodedKey}
}

// approve approves every request for a certificate until the test ends.
func (c *cluster) approve(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
	})
	requests := c.kube.CertificatesV1().CertificateSigningRequests()
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			list, err := requests.List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for i := range list.Items {
				r := &list.Items[i]
				if len(r.Status.Conditions) > 0 {
					continue
				}
				r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
					{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"},
				}
				if _, err := requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{}); err == nil {
					t.Logf("approved %s of %s for %s", r.Name, r.Spec.Username, r.Spec.SignerName)
				}
			}
		}
	}()
}

// document is that of a host that must join, or of one that has.
func (h *host) document(c *cluster, bootstrap *document.CertificateCredentials) *document.Result {
	h.Helper()
	in := document.Inputs{
		AgentPath: h.agent,
		Cluster: document.Cluster{
			ServiceOptions: document.ServiceOptions{Platform: configv1.NonePlatformType, APIServerURL: c.url},
			ServiceCIDRs:   []string{"172.30.0.0/16"},
			KubeletCA:      c.ca,
			APIServerCA:    c.ca,
			TrustedCA:      c.ca,
			// What a cluster may have besides. There is no such proxy: the kubelet has to
			// know that it needs none.
			ExporterCertificate: c.ca,
			ExporterKey:         []byte("a key"),
			Proxy:               document.Proxy{HTTPS: "http://user:password@proxy.example.com:3128", None: winhost.Gateway},
			ImageDigestMirrors: []configv1.ImageDigestMirrors{
				{Source: "registry.example.com/team", Mirrors: []configv1.ImageMirror{"mirror.example.com/team"}},
			},
		},
		Instance:  document.Instance{Bootstrap: bootstrap},
		DigestKey: bytes.Repeat([]byte{7}, 32),
	}
	for _, f := range h.payload.Manifest.Files {
		if f.Role == payload.RoleAgent {
			continue // it is there before any document
		}
		in.Payload.Files = append(in.Payload.Files, document.PayloadFile{Name: f.Name, Version: f.Version, Path: f.Path, Size: f.Size, SHA256: f.SHA256})
	}
	r, err := document.Build(in)
	if err != nil {
		h.Fatal(err)
	}
	return r
}

// ready waits for a Node.
func (c *cluster) ready(t *testing.T, name string) {
	t.Helper()
	eventually(t, 8*time.Minute, "the Node is ready", func() error {
		node, err := c.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", node.Status.Conditions)
	})
}

// dump shows what the host has to say when the test has failed.
func (h *host) dump() {
	h.Cleanup(func() {
		if !h.Failed() {
			return
		}
		for _, path := range []string{`C:\var\log\kubelet\kubelet.log`, `C:\var\log\containerd\containerd.log`} {
			if local, err := h.LocalPath(path); err == nil {
				text, err := os.ReadFile(local)
				h.Logf("%s: %v\n%s", path, err, text[max(0, len(text)-8000):])
			}
		}
	})
}

// TestNode: with everything that a cluster may have, a host joins, is as its document says by
// what Windows' own tools say, and is as it came after a cleanup.
func TestNode(t *testing.T) {
	h := startHost(t)
	h.dump()
	before := hosttest.TakeSnapshot(t, h.Host)
	c := startCluster(t)
	c.approve(t)
	h.send("windows-node-agent.exe", h.agent)
	d := h.document(c, c.joinsAs(t, strings.ToLower(h.Name())))
	for _, w := range d.Waiting {
		t.Logf("waiting: %+v", w)
	}
	if r := h.apply(&d.Bundle); r.Outcome != api.OutcomeRebootRequired {
		t.Fatalf("first: %+v", r)
	}
	if err := h.Reboot(); err != nil {
		t.Fatal(err)
	}
	if r := h.apply(&d.Bundle); r.Outcome != api.OutcomeApplied {
		t.Fatalf("second: %+v", r)
	}
	c.ready(t, strings.ToLower(h.Name()))
	h.verify(&d.Bundle)

	if r := h.change("cleanup", nil); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("cleanup: %+v", r)
	}
	// The agent does not remove itself; who sent it does.
	h.run("rmdir /s /q "+api.Root, nil)
	for _, difference := range before.Differences(hosttest.TakeSnapshot(t, h.Host)) {
		t.Errorf("after the cleanup: %s", difference)
	}
}
