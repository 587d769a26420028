// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// without says in the environment of TestMetricsCertificate that it runs where nothing can be watched.
const without = "TEST_METRICS_CERTIFICATE_WITHOUT_INOTIFY"

const metricsTestName = "metrics.test"

// A certificate of metrics that is replaced is served, and one that cannot be watched for changes
// does not end the process.
func TestMetricsCertificate(t *testing.T) {
	if os.Getenv(without) != "" {
		if err := os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		served := writeCertificate(t, dir)
		serveMetrics(t, dir)(served)
		return
	}
	t.Run("replaced", func(t *testing.T) {
		dir := t.TempDir()
		before := writeCertificate(t, dir)
		mustServe := serveMetrics(t, dir)
		mustServe(before)
		mustServe(writeCertificate(t, dir))
	})
	t.Run("no inotify instances are left", func(t *testing.T) {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMetricsCertificate$", "-test.v")
		again.Env = append(os.Environ(), without+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		output, err := again.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skipf("user namespaces are not to be had here: %v", err)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	})
}

// serveMetrics runs a manager. It returns what waits until a certificate is served that is trusted
// by some authority.
func serveMetrics(t *testing.T, dir string) (mustServe func(authority *x509.CertPool)) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	o := ctrl.Options{Metrics: metricsserver.Options{BindAddress: address, SecureServing: true}, Logger: klog.Background()}
	mgr, err := makeManager(&rest.Config{Host: "https://127.0.0.1:1"}, o, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(authority *x509.CertPool) {
		t.Helper()
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: authority, ServerName: metricsTestName}}
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			select {
			case err := <-ended:
				ended <- nil
				return false, err
			default:
			}
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				err = conn.Close()
			}
			return err == nil, nil
		})
		if err != nil {
			t.Fatalf("the certificate is not served: %v", err)
		}
	}
}

// writeCertificate replaces tls.crt and tls.key of a directory, and returns who trusts them.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey(metricsTestName, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(certificate)
	return authority
}
