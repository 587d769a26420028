// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

// Package bench measures the whole system against its peers, in pairs within one
// run, so that the ratios mean something on any machine: `make bench`. Nothing here
// runs as a test.
package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// startSystem starts a system of its own for a benchmark.
func startSystem(b *testing.B, o system.Options) (*system.System, ssh.Signer, []byte) {
	b.Helper()
	key, signer, err := winhost.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	o.PrivateKey = key
	o.ControlPlane.Fsync = true
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	s, err := system.Start(ctx, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Stop(); err != nil {
			b.Error(err)
		}
	})
	return s, signer, key
}

// startHost starts a stand-in that our key logs in to.
func startHost(b *testing.B, signer ssh.Signer, o winhost.Options) winhost.Host {
	b.Helper()
	o.AuthorizedKeys = []ssh.PublicKey{signer.PublicKey()}
	host, err := winhost.Start(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = host.Close() })
	return host
}

// namespace makes a namespace.
func namespace(b *testing.B, s *system.System, name string) string {
	b.Helper()
	if _, err := s.Kube.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	return name
}

// createInstance makes an instance for a host by hand.
func createInstance(b *testing.B, s *system.System, ns, name string, host winhost.Host) {
	b.Helper()
	_, err := s.Windows.WindowsV1alpha1().WindowsInstances(ns).Create(context.Background(), &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: host.Address(), Port: int32(host.Port()), Username: host.User()},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

// waitFor polls until n instances of the namespace have the condition.
func waitFor(b *testing.B, s *system.System, ns, condition string, n int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		list, err := s.Windows.WindowsV1alpha1().WindowsInstances(ns).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			b.Fatal(err)
		}
		have := 0
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Conditions {
				if c.Type == condition && c.Status == metav1.ConditionTrue {
					have++
				}
			}
		}
		if have >= n {
			return
		}
		select {
		case <-ctx.Done():
			b.Fatalf("%d of %d instances are %s", have, n, condition)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// residentMiB is the resident memory of a process.
func residentMiB(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return resident * float64(os.Getpagesize()) / (1 << 20)
}

// cpuSeconds is the processor time that a process has used, in user and system mode:
// fields 14 and 15 of /proc/PID/stat (proc(5)), in the hundredths of a second that
// Linux counts in on every architecture that we run on.
func cpuSeconds(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// The name of the program, in brackets, may hold spaces.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		b.Fatal(err)
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	if err != nil {
		b.Fatal(err)
	}
	return (user + system) / 100
}

// authorizedKey is the base64 part of a public key.
func authorizedKey(key ssh.PublicKey) string {
	return strings.Fields(string(ssh.MarshalAuthorizedKey(key)))[1]
}

// environmentNumber is a number of the environment that a run can be made smaller with. It
// is read before there is a benchmark that could fail.
func environmentNumber(name string, otherwise int) int {
	value, ok := os.LookupEnv(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("%s is %q, and not a number of at least 1", name, value))
	}
	return n
}
