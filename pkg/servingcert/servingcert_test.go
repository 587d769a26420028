// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

const (
	namespace = "operator"
	dnsName   = "windows-apiserver.operator.svc"
)

// cluster is what replicas share: the Secret, and what kube-apiserver trusts.
type cluster struct {
	*fake.Clientset

	trusted atomic.Value
}

func newCluster() *cluster {
	c := &cluster{Clientset: fake.NewClientset()}
	c.trusted.Store("")
	return c
}

func (c *cluster) bundle() string { return c.trusted.Load().(string) }

func (c *cluster) trust(_ context.Context, bundle []byte) (bool, error) {
	return c.trusted.Swap(string(bundle)) == string(bundle), nil
}

// replica starts a process.
func (c *cluster) replica(t *testing.T, name string, clock clock.WithTicker) *Certificate {
	t.Helper()
	certificate, err := New(t.Context(), Options{Kube: c, Namespace: namespace, DNSName: dnsName, Replica: name, Trust: c.trust, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func (c *cluster) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret, err := c.CoreV1().Secrets(namespace).Get(t.Context(), SecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func (c *cluster) update(t *testing.T, change func(*corev1.Secret)) {
	t.Helper()
	secret := c.secret(t)
	change(secret)
	if _, err := c.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// given has an administrator create the Secret.
func (c *cluster) given(t *testing.T, data map[string][]byte) {
	t.Helper()
	if _, err := c.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: namespace}, Type: corev1.SecretTypeTLS, Data: data,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// writes is how often somebody has written the Secret.
func (c *cluster) writes() int {
	n := 0
	for _, action := range c.Actions() {
		if action.GetVerb() != "get" {
			n++
		}
	}
	return n
}

// mustTrust fails unless kube-apiserver accepts at a time what a replica serves.
func (c *cluster) mustTrust(t *testing.T, replica *Certificate, now time.Time) {
	t.Helper()
	cert, key := replica.CurrentCertKeyContent()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(c.bundle()))
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: dnsName, CurrentTime: now}); err != nil {
		t.Error(err)
	}
}

func follow(t *testing.T, replicas ...*Certificate) {
	t.Helper()
	for _, replica := range replicas {
		if err := replica.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func served(replica *Certificate) string {
	cert, _ := replica.CurrentCertKeyContent()
	return string(cert)
}

type listener func()

func (l listener) Enqueue() { l() }

// All replicas serve one certificate, which kube-apiserver trusts and nobody writes again.
func TestReplicasShare(t *testing.T) {
	c := newCluster()
	first, second := c.replica(t, "first", clock.RealClock{}), c.replica(t, "second", clock.RealClock{})
	if served(first) != served(second) {
		t.Error("they serve different certificates")
	}
	c.mustTrust(t, first, time.Now())
	follow(t, first, second, first, second)
	if n := c.writes(); n != 1 {
		t.Errorf("%d writes", n)
	}
	if secret := c.secret(t); secret.Type != corev1.SecretTypeTLS || len(secret.Data) != 3 {
		t.Errorf("%s with %v", secret.Type, secret.Data)
	}
}

// Two replicas that start at the same moment both find no Secret: one of them takes what the other has made.
func TestReplicasBegin(t *testing.T) {
	c := newCluster()
	first := c.replica(t, "first", clock.RealClock{})
	hidden := true
	c.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		defer func() { hidden = false }()
		return hidden, nil, apierrors.NewNotFound(corev1.Resource("secrets"), SecretName)
	})
	second := c.replica(t, "second", clock.RealClock{})
	follow(t, first)
	if served(first) != served(second) {
		t.Error("they serve different certificates")
	}
	c.mustTrust(t, first, time.Now())
}

// A certificate is replaced long before it ends, by a server that goes on; at each moment
// kube-apiserver trusts what each replica serves.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		first, second := c.replica(t, "first", clock.RealClock{}), c.replica(t, "second", clock.RealClock{})
		c.update(t, func(s *corev1.Secret) {
			old, err := generate(dnsName, time.Now().Add(time.Hour-period), nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Data = old.data()
		})
		follow(t, first, second, first)
		told := 0
		first.AddListener(listener(func() { told++ }))
		old := served(first)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			first.Run(ctx, 1)
		}()

		wait(time.Hour)
		if served(first) != old {
			t.Error("it is replaced too early")
		}
		wait(interval)
		c.mustTrust(t, first, time.Now())
		if served(first) != old {
			t.Error("it serves what nobody has trusted before")
		}
		wait(interval)
		if served(first) == old || told != 1 {
			t.Errorf("it is not replaced, listeners are told %d times", told)
		}
		c.mustTrust(t, first, time.Now())
		c.mustTrust(t, second, time.Now()) // which still has the one before
		follow(t, second)
		if served(second) != served(first) {
			t.Error("the other replica has another one")
		}
		wait(overlap)
		if strings.Contains(c.bundle(), old) {
			t.Error("the one before is trusted for ever")
		}
		c.mustTrust(t, first, time.Now())
		c.mustTrust(t, second, time.Now())
		if n := c.writes(); n != 4 { // with that of this test
			t.Errorf("%d writes", n)
		}
		cancel()
		<-done
	})
}

func wait(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of the bubble
	synctest.Wait()
}

// A Secret of ours that is deleted, or damaged, is made again, and no request fails meanwhile.
func TestLost(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *cluster){
		"deleted": func(t *testing.T, c *cluster) {
			if err := c.CoreV1().Secrets(namespace).Delete(t.Context(), SecretName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		"no key": func(t *testing.T, c *cluster) {
			c.update(t, func(s *corev1.Secret) { s.Data[corev1.TLSPrivateKeyKey] = nil })
		},
		"no certificate": func(t *testing.T, c *cluster) {
			c.update(t, func(s *corev1.Secret) { s.Data[corev1.TLSCertKey] = []byte("none") })
		},
		"another bundle": func(t *testing.T, c *cluster) {
			c.update(t, func(s *corev1.Secret) { s.Data[corev1.ServiceAccountRootCAKey] = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			first, second := c.replica(t, "first", clock.RealClock{}), c.replica(t, "second", clock.RealClock{})
			old := served(first)
			lose(t, c)
			for range 3 {
				follow(t, first)
				c.mustTrust(t, first, time.Now())
				c.mustTrust(t, second, time.Now())
			}
			follow(t, second)
			if served(first) == old || served(first) != served(second) {
				t.Error("it was not made again, by one of them")
			}
			c.replica(t, "third", clock.RealClock{})
			if n := c.writes(); n > 3 {
				t.Errorf("%d writes", n)
			}
		})
	}
}

// The certificate is for the Service in the namespace that the programs are in by now.
func TestAnotherName(t *testing.T) {
	c := newCluster()
	c.replica(t, "before", clock.RealClock{}).DNSName = "another.svc"
	c.update(t, func(s *corev1.Secret) {
		made, err := generate("another.svc", time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Data = made.data()
	})
	c.mustTrust(t, c.replica(t, "now", clock.RealClock{}), time.Now())
}

// Clocks that are wrong by more than a year make and accept the same certificate as those that are right.
func TestWrongClocks(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"ahead": 400 * 24 * time.Hour, "behind": -400 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			now := time.Now()
			off := c.replica(t, "off", testingclock.NewFakeClock(now.Add(wrong)))
			c.mustTrust(t, off, now)
			right := c.replica(t, "right", testingclock.NewFakeClock(now))
			for range 3 {
				follow(t, off, right)
			}
			if n := c.writes(); n != 1 || served(off) != served(right) {
				t.Errorf("%d writes", n)
			}
		})
	}
}

// What an administrator or cert-manager has put there is served, also when it changes, and never written: when it
// is old, when it is for another name, when it cannot be read.
func TestGiven(t *testing.T) {
	made := func(t *testing.T, name string, at time.Time) map[string][]byte {
		t.Helper()
		made, err := generate(name, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		return made.data()
	}
	c := newCluster()
	c.given(t, made(t, "another.svc", time.Now().Add(-2*period)))
	first := c.replica(t, "first", clock.RealClock{})
	for range 2 {
		if secret := c.secret(t); served(first) != string(secret.Data[corev1.TLSCertKey]) || c.bundle() != string(secret.Data[corev1.ServiceAccountRootCAKey]) {
			t.Error("it is not served and trusted")
		}
		c.update(t, func(s *corev1.Secret) { s.Data = made(t, dnsName, time.Now()) })
		follow(t, first, first)
	}
	// Without a ca.crt an administrator has to say what verifies it.
	trusted := c.bundle()
	c.update(t, func(s *corev1.Secret) {
		s.Data = made(t, dnsName, time.Now())
		delete(s.Data, corev1.ServiceAccountRootCAKey)
	})
	follow(t, first)
	if served(first) != string(c.secret(t).Data[corev1.TLSCertKey]) || c.bundle() != trusted || first.Bundle() != nil {
		t.Error("it is not served, or something is trusted for it")
	}
	good := served(first)
	c.update(t, func(s *corev1.Secret) { s.Data[corev1.TLSCertKey] = []byte("damaged") })
	before := maps.Clone(c.secret(t).Data)
	if err := first.RunOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "Secret operator/windows-apiserver-serving-cert: it is not ours") {
		t.Error(err)
	}
	if served(first) != good {
		t.Error("what cannot be served replaces what can")
	}
	if !maps.EqualFunc(before, c.secret(t).Data, bytes.Equal) {
		t.Error("it was written")
	}
	if _, err := New(t.Context(), Options{Kube: c, Namespace: namespace, DNSName: dnsName, Trust: c.trust, Clock: clock.RealClock{}}); err == nil {
		t.Error("a server starts without a certificate")
	}
}

// While kube-apiserver cannot be told, the server goes on with what it has.
func TestNotTrusted(t *testing.T) {
	c := newCluster()
	first := c.replica(t, "first", clock.RealClock{})
	old := served(first)
	first.Trust = func(context.Context, []byte) (bool, error) { return false, errors.New("away") }
	c.update(t, func(s *corev1.Secret) { s.Data = nil })
	if err := first.RunOnce(t.Context()); err == nil || served(first) != old {
		t.Errorf("%v", err)
	}
}
