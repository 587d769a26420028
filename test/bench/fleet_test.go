// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	goodHosts = 180
	badHosts  = 20
)

// BenchmarkFleet measures how long it takes until 180 good hosts have passed
// preflight: alone, with 20 more that hang or refuse, and one after the other, as a
// controller with a serial loop would have it. ratio-bad-to-none is the second over the
// first, ratio-serial the third over the first.
func BenchmarkFleet(b *testing.B) {
	s, signer, _ := startSystem(b, system.Options{})
	var without, with time.Duration
	run := 0
	for b.Loop() {
		for _, bad := range []int{0, badHosts} {
			run++
			ns := namespace(b, s, fmt.Sprintf("bench-%d", run))
			var hosts []winhost.Host
			for i := range goodHosts + bad {
				host := startHost(b, signer, winhost.Options{Name: fmt.Sprintf("f%d-%d", run, i)})
				var fault winhost.Fault
				switch {
				case i >= bad:
				case i%2 == 0:
					fault.HangAtAccept = true
				default:
					fault.RefuseTCP = true
				}
				if err := host.SetFault(fault); err != nil {
					b.Fatal(err)
				}
				hosts = append(hosts, host)
			}
			began := time.Now()
			// The bad ones are created first: they are the first to be tried.
			for i, host := range hosts {
				createInstance(b, s, ns, fmt.Sprintf("w%03d", i), host)
			}
			waitFor(b, s, ns, v1alpha1.ConditionPreflightPassed, goodHosts)
			if bad == 0 {
				without += time.Since(began)
			} else {
				with += time.Since(began)
			}
			if err := s.Windows.WindowsV1alpha1().WindowsInstances(ns).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				b.Fatal(err)
			}
			for _, host := range hosts {
				if err := host.Close(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	serial := serially(b, s, signer)
	b.ReportMetric(serial.Seconds()*float64(b.N)/without.Seconds(), "ratio-serial")
	b.ReportMetric(with.Seconds()/without.Seconds(), "ratio-bad-to-none")
	b.ReportMetric(without.Seconds()/float64(b.N), "s-without-bad")
	b.ReportMetric(with.Seconds()/float64(b.N), "s-with-bad")
}

// serially brings 180 hosts through preflight, each after the one before it.
func serially(b *testing.B, s *system.System, signer ssh.Signer) time.Duration {
	b.Helper()
	ns := namespace(b, s, "bench-serial")
	hosts := make([]winhost.Host, goodHosts)
	for i := range hosts {
		hosts[i] = startHost(b, signer, winhost.Options{Name: fmt.Sprintf("s-%d", i)})
	}
	began := time.Now()
	for i, host := range hosts {
		createInstance(b, s, ns, fmt.Sprintf("w%03d", i), host)
		waitFor(b, s, ns, v1alpha1.ConditionPreflightPassed, i+1)
	}
	return time.Since(began)
}
