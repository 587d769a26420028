// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/system"
)

// TestOneInstallation has the API served by another installation: our controller ends, says why,
// and waits until the API is its own again, with the rights of the manifests.
func TestOneInstallation(t *testing.T) {
	t.Parallel()
	s := startSystem(t, system.Options{})
	serveFrom := func(namespace string) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"service":{"namespace":%q}}}`, namespace)
		if out, err := s.Kubectl(t.Context(), "patch", "apiservice", "v1alpha1.windows.openshift.io", "--type=merge", "--patch="+patch); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	path, args := commandOf(t, s.Controller)
	const says = "leads to namespace theirs"
	serveFrom("theirs")
	select {
	case <-s.Controller.Done():
	case <-t.Context().Done():
		t.Fatal("the controller works on")
	}
	if s.Controller.ExitCode() == 0 || !strings.Contains(s.Controller.LogTail(), says) {
		t.Errorf("it ended with %d:\n%s", s.Controller.ExitCode(), s.Controller.LogTail())
	}

	second, err := s.StartProcess(t.Context(), controlplane.Command{
		Name: "windows-controller-2", Path: path, Args: args,
		Ready: func(ctx context.Context) error { return waitsFor(ctx, s.ControllerHealth+"/readyz/caches", says) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.ControllerReady(t.Context()) == nil {
		t.Error("a controller that waits is ready")
	}
	serveFrom(system.Namespace)
	eventually(t, "the controller works", func() error { return s.ControllerReady(t.Context()) })
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
}

// serverCA is what verifies the certificate of windows-apiserver.
func serverCA(t *testing.T, s *system.System) []byte {
	t.Helper()
	bundle, err := s.ServerCABundle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// TestServingCertificate deletes the certificate that windows-apiserver has made, with the rights of the
// manifests: it makes another one and serves it, and meanwhile nobody notices.
func TestServingCertificate(t *testing.T) {
	t.Parallel()
	s := startSystem(t, system.Options{WithoutController: true})
	roots := x509.NewCertPool()
	served := func() (string, error) {
		t.Helper()
		if bundle, err := s.ServerCABundle(t.Context()); err == nil { // else it is deleted
			roots.AppendCertsFromPEM(bundle)
		}
		raw, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.ServerURL, "https://"))
		if err != nil {
			return "", err
		}
		defer raw.Close()
		connection := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: "windows-apiserver." + system.Namespace + ".svc", MinVersion: tls.VersionTLS12})
		if err := connection.HandshakeContext(t.Context()); err != nil {
			return "", err
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: connection.ConnectionState().PeerCertificates[0].Raw})), nil
	}
	before, err := served()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(serverCA(t, s)), before) {
		t.Error("the certificate is not the one of the Secret")
	}
	if err := s.Kube.CoreV1().Secrets(system.Namespace).Delete(t.Context(), "windows-apiserver-serving-cert", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var after string
	eventually(t, "another certificate is served", func() error {
		// Over the front proxy, and from there on connections of their own.
		if _, err := s.Kubectl(t.Context(), "get", "windowsinstances", "-A"); err != nil {
			t.Error(err)
		}
		after, err = served() // which may be verified by what came after it was looked for
		if err == nil && after == before {
			err = errors.New("it is the one before")
		}
		return err
	})
	if _, err := s.Kubectl(t.Context(), "get", "windowsinstances", "-A"); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(string(serverCA(t, s)), after) {
		t.Error("the certificate is not the one of the Secret")
	}
}

// On a cluster that has no MutatingAdmissionPolicies yet, the oldest that this kube-apiserver can be, both
// programs start, and objects can be written.
func TestOlderCluster(t *testing.T) {
	t.Parallel()
	s := startSystem(t, system.Options{ControlPlane: controlplane.Options{APIServerArgs: []string{"--emulated-version=1.34"}}})
	if _, err := s.Kubectl(t.Context(), "create", "configmap", "windows-instances", "-n", system.Namespace, "--from-literal=192.0.2.1=username=Administrator"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the entry is an instance", func() error {
		names, err := s.Kubectl(t.Context(), "get", "windowsinstances", "-n", system.Namespace, "-o", "name")
		if err == nil && names == "" {
			err = errors.New("there is none")
		}
		return err
	})
}

// waitsFor returns no error when a probe fails with a text.
func waitsFor(ctx context.Context, url, text string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err == nil && !strings.Contains(string(body), text) {
		err = errors.New(string(body))
	}
	return err
}
