// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package wine

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/payload/payloadtest"
)

// startTime is how long windows_exporter may take to serve, which now and then ends instead.
const startTime = 4 * time.Minute

// exporterHost is who hosts say they are when they serve metrics.
const exporterHost = "windows-exporter.openshift-windows-machine-config-operator.svc"

// TestExporter: the real windows_exporter.exe takes the arguments and the configuration that documents have for it,
// serves with the certificate in there, and with another one as soon as that is in its place. It is run as a program and
// not as a service, see [payloadtest.Exporter]; and Wine has no performance counters and no containers, so that most of
// what it would measure is not there.
func TestExporter(t *testing.T) {
	mustHaveWine(t)
	program, err := payloadtest.Exporter(t.Context(), payloadtest.Options{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	h := startBareHost(t)
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	first := newServingCert(t)
	bundle := exporterBundle(t, first)
	i := slices.IndexFunc(bundle.Document.Services, func(s config.Service) bool { return s.Name == wmco.WindowsExporterService })
	if i < 0 {
		t.Fatal("the document has no windows_exporter")
	}
	service := bundle.Document.Services[i]
	h.put(service.BinaryPath, content)
	for _, directory := range bundle.Document.Directories {
		if err := os.MkdirAll(h.local(directory.Path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.putTLS(bundle)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		var ends strings.Builder
		// Started again whenever it ends, as its service is. Under load, Wine now and then does not load the DLL of a class
		// that it has ("CreateObject SWbemLocator", class not registered), and it ends.
		for n := 0; n < 20 && ctx.Err() == nil; n++ {
			var out bytes.Buffer
			err := h.pool.Run(ctx, h.target, service.BinaryPath+" "+strings.Join(service.Arguments, " "), nil, &out)
			fmt.Fprintf(&ends, "%v\n%s", err, out.String())
		}
		ended <- ends.String()
	}()
	t.Cleanup(func() {
		stop()
		if why := <-ended; t.Failed() {
			t.Logf("it ended: %.20000s\n%s", why, h.file(wmco.LogDir+`\windows_exporter\windows_exporter.log`))
		}
	})
	eventually(t, startTime, "windows_exporter serves", func() error { return h.metrics(first) })
	// While it runs. When it has ended meanwhile, another one is there for the next start.
	const tries = 5
	for n := 0; ; n++ {
		next := newServingCert(t)
		h.putTLS(exporterBundle(t, next))
		err := h.metrics(next)
		if err == nil {
			break
		}
		if _, former := errors.AsType[*tls.CertificateVerificationError](err); former || n == tries {
			t.Errorf("with another certificate: %v", err)
			break
		}
		eventually(t, startTime, "windows_exporter serves again", func() error { return h.metrics(next) })
	}
	if err := h.metrics(first); err == nil {
		t.Error("it serves with the certificate before")
	}
}

// servingCert is what a server has, in PEM; the certificate is followed by what verifies it.
type servingCert struct{ cert, key []byte }

func newServingCert(t *testing.T) servingCert {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey(exporterHost, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return servingCert{cert, key}
}

// exporterBundle is the document of a host whose programs are never sent, in a cluster that has little.
func exporterBundle(t *testing.T, served servingCert) config.Bundle {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "hack", "payload", "files.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest payload.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	in := document.Inputs{
		AgentPath: `C:\agent.exe`,
		Cluster: document.Cluster{
			ServiceOptions: document.ServiceOptions{Platform: configv1.NonePlatformType, APIServerURL: "https://api.example.com:6443"},
			ServiceCIDRs:   []string{"172.30.0.0/16"},
			KubeletCA:      served.cert, APIServerCA: served.cert,
			ExporterCertificate: served.cert, ExporterKey: served.key,
		},
		DigestKey: bytes.Repeat([]byte{7}, 32),
	}
	for _, f := range manifest.Files {
		if f.Role != payload.RoleAgent {
			in.Payload.Files = append(in.Payload.Files, document.PayloadFile{Name: f.Name, Version: "v1", Path: f.Path, Size: 1, SHA256: strings.Repeat("0", 64)})
		}
	}
	result, err := document.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return result.Bundle
}

func (h *host) local(path string) string {
	h.Helper()
	local, err := h.LocalPath(path)
	if err != nil {
		h.Fatal(err)
	}
	return local
}

// put puts a file on the disk of the host, in place of one before.
func (h *host) put(path string, content []byte) {
	h.Helper()
	local := h.local(path)
	if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(local, content, 0o755); err != nil {
		h.Fatal(err)
	}
}

// putTLS puts what a document has for serving metrics on the disk of the host.
func (h *host) putTLS(b config.Bundle) {
	h.Helper()
	for _, f := range b.Document.Files {
		switch {
		case !strings.HasPrefix(f.Path, wmco.TLSDir+`\`):
		case f.Source.Secret != "":
			h.put(f.Path, b.Secrets[f.Source.Secret])
		default:
			h.put(f.Path, []byte(*f.Source.Text))
		}
	}
}

// metrics reads what the host measures without performance counters, over a connection of its own, and returns an error
// unless the host serves with the certificate.
func (h *host) metrics(served servingCert) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(served.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: exporterHost, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(h.Context(), http.MethodGet, "https://"+h.Address()+":9182/metrics?collect[]=cpu_info", nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), "\nwindows_cpu_info{") {
		return fmt.Errorf("%s: %.2000s", response.Status, body)
	}
	return nil
}
