// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/message"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

var clusterKey = types.NamespacedName{Namespace: "operator", Name: "cloud-private-key"}

// keyPair is a private key in PEM, and the fingerprint of its public key.
func keyPair(t *testing.T) (private []byte, fingerprint string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	private = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	kept, err := new(host.CredentialCache).Keep(map[string][]byte{"private-key.pem": private})
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	return private, kept[0].Fingerprint
}

func secretWith(name types.NamespacedName, private []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Data: map[string][]byte{"private-key.pem": private}}
}

// fixture is a Reconciler of a cluster that is made up.
type fixture struct {
	*Reconciler
	t        *testing.T
	recorder *record.FakeRecorder
	registry *prometheus.Registry
	// forbidden: the kept Secret may not be written.
	forbidden bool
	// unread: it may not be read.
	unread bool
	// read are the namespaces in which it was read.
	read map[string]bool
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{t: t, read: map[string]bool{}, recorder: record.NewFakeRecorder(100), registry: prometheus.NewRegistry()}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.WindowsInstance{}).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if key.Name == host.KeptSecret {
				f.read[key.Namespace] = true
				if f.unread {
					return apierrors.NewForbidden(corev1.Resource("secrets"), host.KeptSecret, nil)
				}
			}
			return c.Get(ctx, key, o, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if f.forbidden {
				return apierrors.NewForbidden(corev1.Resource("secrets"), host.KeptSecret, nil)
			}
			return c.Apply(ctx, o, options...)
		},
	}).Build()
	f.Reconciler = newReconciler(c, Options{Cluster: clusterKey, ProbeTimeout: time.Minute, Current: NewCurrent(clusterKey), Recorder: f.recorder, Registerer: f.registry})
	return f
}

// reconcile looks at a namespace, and returns the fingerprints that are kept of a Secret there.
func (f *fixture) reconcile(secret types.NamespacedName) []string {
	f.t.Helper()
	result, err := f.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: secret.Namespace}})
	if err != nil {
		f.t.Fatal(err)
	}
	if result.RequeueAfter < 0 || result.RequeueAfter > interval {
		f.t.Errorf("again after %s", result.RequeueAfter)
	}
	var found corev1.Secret
	err = f.client.Get(f.t.Context(), types.NamespacedName{Namespace: secret.Namespace, Name: host.KeptSecret}, &found)
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	kept, err := host.ParseKept(found.Data[secret.Name])
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, c := range kept.Credentials {
		if len(c.Data) == 0 {
			c.Fingerprint = "public key of " + c.Fingerprint
		}
		out = append(out, c.Fingerprint)
	}
	return out
}

// reconcileUnread looks at the namespace of the operator, where nothing may be read.
func (f *fixture) reconcileUnread() {
	f.t.Helper()
	result, err := f.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: clusterKey.Namespace}})
	if err != nil || result.RequeueAfter == 0 {
		f.t.Errorf("again after %s, %v", result.RequeueAfter, err)
	}
}

// set records which key the host of an instance has.
func (f *fixture) set(i *v1alpha1.WindowsInstance, has, gets string) {
	f.t.Helper()
	found := &v1alpha1.WindowsInstance{}
	if err := f.client.Get(f.t.Context(), client.ObjectKeyFromObject(i), found); err != nil {
		f.t.Fatal(err)
	}
	found.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: has, RotatingTo: gets}
	if err := f.client.Status().Update(f.t.Context(), found); err != nil {
		f.t.Fatal(err)
	}
}

// replace gives a Secret another key.
func (f *fixture) replace(name types.NamespacedName, private []byte, annotations map[string]string) {
	f.t.Helper()
	secret := &corev1.Secret{}
	if err := f.client.Get(f.t.Context(), name, secret); err != nil {
		f.t.Fatal(err)
	}
	secret.Data["private-key.pem"], secret.Annotations = private, annotations
	if err := f.client.Update(f.t.Context(), secret); err != nil {
		f.t.Fatal(err)
	}
}

// expectEvent takes an event with a beginning; without one there must be none.
func (f *fixture) expectEvent(want string) {
	f.t.Helper()
	select {
	case got := <-f.recorder.Events:
		if want == "" || !strings.HasPrefix(got, want) {
			f.t.Errorf("event %q, want %q", got, want)
		}
	default:
		if want != "" {
			f.t.Errorf("no event %q", want)
		}
	}
}

func TestReconcile(t *testing.T) {
	first, was := keyPair(t)
	second, is := keyPair(t)
	one, two := instanceWith("win-1", "unknown", ""), instanceWith("win-2", "unknown", "")
	f := newFixture(t, secretWith(clusterKey, first), one, two)
	expect := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, f.reconcile(clusterKey)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", when, diff)
		}
	}
	expect("nobody has logged in")
	f.set(one, was, "")
	expect("somebody has", was)
	f.set(two, was, "")
	expect("all have", was)
	f.expectEvent("")

	f.replace(clusterKey, second, nil)
	expect("the Secret has another key", is, was)
	f.expectEvent("Normal KeyRotationStarted 2 of 2 hosts have none of its keys, and get " + is + ".")
	f.set(one, is, "")
	expect("one host has it", is, was)
	f.expectEvent("")
	if err := testutil.CollectAndCompare(f.metrics.hosts, strings.NewReader(`# HELP windows_credentials_hosts Hosts by the Secret with their credentials and the key that they accept: current is the one of the Secret, former another one, unknown those that were not logged in to so far.
# TYPE windows_credentials_hosts gauge
windows_credentials_hosts{key="current",namespace="operator",secret="cloud-private-key"} 1
windows_credentials_hosts{key="former",namespace="operator",secret="cloud-private-key"} 1
windows_credentials_hosts{key="unknown",namespace="operator",secret="cloud-private-key"} 0
`)); err != nil {
		t.Error(err)
	}
	f.set(two, is, "")
	expect("all have it", is, was)
	f.expectEvent("Normal KeyRotated All 2 hosts have the key of the Secret.")
	later := time.Now().Add(2 * f.ProbeTimeout)
	f.now = func() time.Time { return later }
	expect("for a while", is)
	f.expectEvent("")

	third, next := keyPair(t)
	f.replace(clusterKey, third, map[string]string{v1alpha1.CompromisedKeysAnnotation: is})
	expect("the former key is compromised", next, "public key of "+is)
	f.expectEvent("Normal KeyRotationStarted")
	f.replace(clusterKey, []byte("nonsense"), nil)
	expect("what is no key changes nothing", next, "public key of "+is)
	for _, i := range []*v1alpha1.WindowsInstance{one, two} {
		if err := f.client.Delete(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	expect("no host is left", next, "public key of "+is)
	f.now = func() time.Time { return later.Add(leftFor) }
	expect("nor was for a week")
	if n := testutil.CollectAndCount(f.metrics.hosts); n != 0 {
		t.Errorf("the metric has %d lines", n)
	}
}

// certificateUntil is a certificate of a private key that is valid until so many seconds after 1970.
func certificateUntil(t *testing.T, private []byte, seconds uint64) []byte {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &ssh.Certificate{Key: signer.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"administrator"}, ValidBefore: seconds}
	if err := certificate.SignCert(rand.Reader, signer); err != nil {
		t.Fatal(err)
	}
	return ssh.MarshalAuthorizedKey(certificate)
}

// expectExpiry wants the metric to have when the certificate of a Secret expires, and nothing else. Empty: nothing.
func (f *fixture) expectExpiry(when string, secret types.NamespacedName, value string) {
	f.t.Helper()
	want := ""
	if value != "" {
		want = fmt.Sprintf(`# HELP windows_credentials_certificate_expiration_timestamp_seconds When the first SSH certificate expires that is needed of a Secret with the credentials of hosts or of their bastions, in seconds since 1970. Secrets without one that expires are not there.
# TYPE windows_credentials_certificate_expiration_timestamp_seconds gauge
windows_credentials_certificate_expiration_timestamp_seconds{namespace=%q,secret=%q} %s
`, secret.Namespace, secret.Name, value)
	}
	if err := testutil.CollectAndCompare(f.metrics.expires, strings.NewReader(want)); err != nil {
		f.t.Errorf("%s: %v", when, err)
	}
}

// TestCertificateExpires: of a Secret whose certificate expires it is said when, until the certificate, the Secret or the last host is gone.
func TestCertificateExpires(t *testing.T) {
	private, key := keyPair(t)
	until := func(seconds uint64) []byte { return certificateUntil(t, private, seconds) }
	instance := instanceWith("win-1", key, "")
	f := newFixture(t, secretWith(clusterKey, private), instance)
	expect := func(when, value string) {
		t.Helper()
		f.reconcile(clusterKey)
		f.expectExpiry(when, clusterKey, value)
	}
	write := func(certificate []byte) {
		t.Helper()
		found := &corev1.Secret{}
		if err := f.client.Get(t.Context(), clusterKey, found); err != nil {
			t.Fatal(err)
		}
		found.Data["private-key.pem-cert.pub"] = certificate
		if err := f.client.Update(t.Context(), found); err != nil {
			t.Fatal(err)
		}
	}
	expect("without a certificate", "")
	write(until(2_000_000_000))
	expect("with one", "2e+09")
	write(until(2_000_000_001))
	expect("with another one", "2.000000001e+09")
	write(until(ssh.CertTimeInfinity))
	expect("with one that does not expire", "")
	write(until(2_000_000_000))
	expect("with one again", "2e+09")
	write([]byte("nonsense"))
	expect("with one that cannot be used", "")
	write(until(2_000_000_000))
	expect("with one once more", "2e+09")
	if err := f.client.Delete(t.Context(), secretWith(clusterKey, nil)); err != nil {
		t.Fatal(err)
	}
	expect("without the Secret", "")
	restored := secretWith(clusterKey, private)
	restored.Data["private-key.pem-cert.pub"] = until(2_000_000_000)
	if err := f.client.Create(t.Context(), restored); err != nil {
		t.Fatal(err)
	}
	expect("with it", "2e+09")
	if err := f.client.Delete(t.Context(), instance); err != nil {
		t.Fatal(err)
	}
	expect("without hosts", "")
}

// TestCertificatesThatAreNeeded: the certificate of a key counts if hosts accept that, or are to get it.
func TestCertificatesThatAreNeeded(t *testing.T) {
	first, one := keyPair(t)
	further, two := keyPair(t)
	const soon, later = "2e+09", "2.1e+09"
	for _, tt := range []struct {
		name        string
		hosts       []string
		compromised string
		want        string
	}{
		{"all hosts have the first key", []string{one, one}, "", later},
		{"one has the further key", []string{one, two}, "", soon},
		{"one was not logged in to", []string{one, "unknown"}, "", later},
		{"all have the further key, and keep it", []string{two}, "", soon},
		{"the further key is compromised", []string{one, two}, two, later},
		{"the first key is compromised", []string{two}, one, soon},
	} {
		t.Run(tt.name, func(t *testing.T) {
			secret := secretWith(clusterKey, first)
			secret.Annotations = map[string]string{v1alpha1.CompromisedKeysAnnotation: tt.compromised}
			secret.Data["private-key.pem-cert.pub"] = certificateUntil(t, first, 2_100_000_000)
			secret.Data["private-key-b.pem"], secret.Data["private-key-b.pem-cert.pub"] = further, certificateUntil(t, further, 2_000_000_000)
			f := newFixture(t, secret)
			for n, has := range tt.hosts {
				if err := f.client.Create(t.Context(), instanceWith(fmt.Sprintf("win-%d", n), has, "")); err != nil {
					t.Fatal(err)
				}
			}
			f.reconcile(clusterKey)
			f.expectExpiry("of those", clusterKey, tt.want)
		})
	}
}

// TestCertificatesOfBastions: the certificate of a bastion counts as those of hosts do, also where these have the cluster-wide key.
func TestCertificatesOfBastions(t *testing.T) {
	private, key := keyPair(t)
	jump, compromised := keyPair(t)
	bastion := types.NamespacedName{Namespace: "ns", Name: "jump"}
	secret := secretWith(bastion, jump)
	secret.Data["private-key.pem-cert.pub"] = certificateUntil(t, jump, 2_000_000_000)
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	pool.Spec.Template.Bastion = &v1alpha1.Bastion{CredentialsSecretRef: v1alpha1.SecretReference{Name: bastion.Name}}
	pooled, own := instanceWith("win-1", key, ""), instanceWith("win-2", key, "")
	pooled.Spec.PoolRef = &v1alpha1.PoolReference{Name: "p"}
	own.Spec.Bastion = pool.Spec.Template.Bastion
	f := newFixture(t, secretWith(clusterKey, private), secret, pool, pooled, own)
	expect := func(when, value string) {
		t.Helper()
		result, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "ns"}})
		if err != nil || value != "" && result.RequeueAfter != interval {
			t.Errorf("%s: again after %s, %v", when, result.RequeueAfter, err)
		}
		f.expectExpiry(when, bastion, value)
	}
	expect("of two hosts", "2e+09")
	if err := f.client.Delete(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	expect("of the pool", "2e+09")
	secret.Data["private-key-b.pem"], secret.Data["private-key-b.pem-cert.pub"] = private, certificateUntil(t, private, 2_100_000_000)
	secret.Annotations = map[string]string{v1alpha1.CompromisedKeysAnnotation: compromised}
	if err := f.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	expect("a key is compromised", "2.1e+09")
	if err := f.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	f.reconcile(bastion)
	f.expectExpiry("the Secret is gone", bastion, "")
	secret.ResourceVersion, secret.Annotations = "", nil
	if err := f.client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	expect("it is back", "2e+09")
	if err := f.client.Delete(t.Context(), pooled); err != nil {
		t.Fatal(err)
	}
	expect("no host is left", "")
}

// TestCopiesForMachines: a copy stays for a Machine that may accept the former key again after a boot, and goes when its host is configured.
func TestCopiesForMachines(t *testing.T) {
	first, was := keyPair(t)
	second, is := keyPair(t)
	machine := instanceWith("win-1", was, "")
	machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "win-1", UID: "m", Controller: new(true)}}
	machine.Status.CurrentRevision = wmco.AdoptedRevision("10.17.0")
	f := newFixture(t, secretWith(clusterKey, first), machine)
	f.reconcile(clusterKey)
	f.replace(clusterKey, second, nil)
	f.reconcile(clusterKey)
	f.expectEvent("Normal KeyRotationStarted")
	f.set(machine, is, "")
	f.reconcile(clusterKey)
	f.expectEvent("Normal KeyRotated All 1 hosts have the key of the Secret. Copies of former ones stay until these Machines are configured here, because user data may authorize one again when they boot: win-1")
	later := time.Now().Add(leftFor)
	f.now = func() time.Time { return later }
	if diff := cmp.Diff([]string{is, was}, f.reconcile(clusterKey)); diff != "" {
		t.Errorf("while it waits for its update (-want +got)\n%s", diff)
	}
	// It was restarted, and accepts the former key only: it gets the new one once more.
	f.set(machine, was, is)
	if diff := cmp.Diff([]string{is, was}, f.reconcile(clusterKey)); diff != "" {
		t.Errorf("after a restart (-want +got)\n%s", diff)
	}
	f.set(machine, is, "")
	f.reconcile(clusterKey)
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil {
		t.Fatal(err)
	}
	machine.Status.CurrentRevision = "r1"
	if err := f.client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	later = later.Add(2 * f.ProbeTimeout)
	if diff := cmp.Diff([]string{is}, f.reconcile(clusterKey)); diff != "" {
		t.Errorf("after its update (-want +got)\n%s", diff)
	}
}

// TestAnotherSecret: a pool gets a Secret of its own, with the key that its hosts accept as a further one. There is a copy of that before it
// is taken away.
func TestAnotherSecret(t *testing.T) {
	first, was := keyPair(t)
	second, is := keyPair(t)
	own := types.NamespacedName{Namespace: "ns", Name: "own"}
	secret := secretWith(own, second)
	secret.Data["private-key-old.pem"] = first
	one := instanceWith("win-1", was, "")
	one.Spec.PoolRef = &v1alpha1.PoolReference{Name: "pool"}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool"}}
	pool.Spec.Template.CredentialsSecretRef = &v1alpha1.SecretReference{Name: own.Name}
	f := newFixture(t, secretWith(clusterKey, first), secret, pool, one)
	if diff := cmp.Diff([]string{was}, f.reconcile(own)); diff != "" {
		t.Errorf("with both keys (-want +got)\n%s", diff)
	}
	f.expectEvent("")
	if err := f.client.Get(t.Context(), own, secret); err != nil {
		t.Fatal(err)
	}
	delete(secret.Data, "private-key-old.pem")
	if err := f.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{is, was}, f.reconcile(own)); diff != "" {
		t.Errorf("after it was taken away (-want +got)\n%s", diff)
	}
	f.expectEvent("Normal KeyRotationStarted 1 of 1 hosts have none of its keys, and get " + is + ".")
}

// TestDeletedByOthers: copies that somebody has deleted in the middle of a rotation are written again, as hosts have keys of which there
// is no other copy; not so when nobody needs them any more.
func TestDeletedByOthers(t *testing.T) {
	first, was := keyPair(t)
	second, is := keyPair(t)
	one, two := instanceWith("win-1", was, ""), instanceWith("win-2", was, "")
	f := newFixture(t, secretWith(clusterKey, first), one, two)
	f.reconcile(clusterKey)
	f.replace(clusterKey, second, nil)
	f.reconcile(clusterKey)
	f.expectEvent("Normal KeyRotationStarted")
	remove := func() {
		t.Helper()
		if err := f.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: host.KeptSecret}}); err != nil {
			t.Fatal(err)
		}
	}
	key := client.ObjectKey{Namespace: clusterKey.Namespace, Name: host.KeptSecret}
	empty := func() {
		t.Helper()
		var kept corev1.Secret
		if err := f.client.Get(t.Context(), key, &kept); err != nil {
			t.Fatal(err)
		}
		kept.Data = nil
		kept.Annotations = map[string]string{v1alpha1.CompromisedKeysAnnotation: "SHA256:other"}
		if err := f.client.Update(t.Context(), &kept); err != nil {
			t.Fatal(err)
		}
	}
	for _, take := range []func(){remove, remove, empty, remove} {
		f.set(one, is, "")
		take()
		if diff := cmp.Diff([]string{is, was}, f.reconcile(clusterKey)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		f.expectEvent("Warning KeysRestored Somebody has taken keys out of it, or deleted it. It has those of 1 Secrets again")
		f.expectEvent("")
	}
	var kept corev1.Secret
	if err := f.client.Get(t.Context(), key, &kept); err != nil || kept.Annotations[v1alpha1.CompromisedKeysAnnotation] != "SHA256:other" {
		t.Errorf("the annotation is %v, %v", kept.Annotations, err)
	}
	for _, i := range []*v1alpha1.WindowsInstance{one, two} {
		if err := f.client.Delete(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	for range 2 {
		if got := f.reconcile(clusterKey); len(got) > 0 {
			t.Errorf("kept of a Secret that no host has: %q", got)
		}
	}
	f.expectEvent("")
}

// TestRestoredByOthers: a key that is not needed any more goes although somebody else has written it, too, as from a backup.
func TestRestoredByOthers(t *testing.T) {
	first, was := keyPair(t)
	second, is := keyPair(t)
	var cache host.CredentialCache
	credentials, err := cache.Keep(secretWith(clusterKey, first).Data)
	if err != nil {
		t.Fatal(err)
	}
	over := time.Now().Add(-time.Hour)
	credentials[0].KeptUntil = &over
	expired, err := host.Kept{Credentials: credentials}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	unused := types.NamespacedName{Namespace: clusterKey.Namespace, Name: "unused"}
	for _, changed := range []bool{false, true} {
		t.Run(fmt.Sprintf("what stays is to be written as well: %t", changed), func(t *testing.T) {
			f := newFixture(t, secretWith(clusterKey, second), instanceWith("win-1", is, ""))
			f.reconcile(clusterKey)
			var kept corev1.Secret
			if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: clusterKey.Namespace, Name: host.KeptSecret}, &kept); err != nil {
				t.Fatal(err)
			}
			restored := &corev1.Secret{Type: kept.Type, Data: maps.Clone(kept.Data)}
			restored.Namespace, restored.Name = kept.Namespace, kept.Name
			restored.Data[unused.Name] = expired
			if changed {
				restored.Data[clusterKey.Name] = []byte("{}")
			}
			if err := f.client.Delete(t.Context(), &kept); err != nil {
				t.Fatal(err)
			}
			if err := f.client.Create(t.Context(), restored, client.FieldOwner("x")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{is}, f.reconcile(clusterKey)); diff != "" {
				t.Errorf("in use (-want +got)\n%s", diff)
			}
			if got := f.reconcile(unused); len(got) > 0 {
				t.Errorf("still kept of %s, which was %s: %q", unused, was, got)
			}
		})
	}
}

// TestCompromisedFurtherKey: that a Secret still has a compromised key is said once, and the hosts that accept it are not current.
func TestCompromisedFurtherKey(t *testing.T) {
	first, was := keyPair(t)
	second, is := keyPair(t)
	secret := secretWith(clusterKey, second)
	secret.Data["private-key-old.pem"] = first
	secret.Annotations = map[string]string{v1alpha1.CompromisedKeysAnnotation: was}
	f := newFixture(t, secret, instanceWith("win-1", was, ""), instanceWith("win-2", is, ""))
	for range 2 {
		if diff := cmp.Diff([]string{is, "public key of " + was}, f.reconcile(clusterKey)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	f.expectEvent("Warning CompromisedKey Secret operator/cloud-private-key still has key " + was)
	f.expectEvent("Normal KeyRotationStarted 1 of 2 hosts")
	f.expectEvent("")
}

// A further key of a Secret that a host accepts is kept, by itself, before somebody takes it away.
func TestSeveralKeys(t *testing.T) {
	first, was := keyPair(t)
	second, is := keyPair(t)
	one, two := instanceWith("win-1", was, ""), instanceWith("win-2", is, "")
	secret := secretWith(clusterKey, second)
	secret.Data["private-key-old.pem"], secret.Data["password"] = first, []byte("s3cret")
	f := newFixture(t, secret, one, two)
	if diff := cmp.Diff([]string{is, was}, f.reconcile(clusterKey)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	f.expectEvent("") // both are current
	var found corev1.Secret
	if err := f.client.Get(t.Context(), types.NamespacedName{Namespace: clusterKey.Namespace, Name: host.KeptSecret}, &found); err != nil {
		t.Fatal(err)
	}
	kept, err := host.ParseKept(found.Data[clusterKey.Name])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{"private-key.pem": first}, kept.Credentials[1].Data); diff != "" || len(kept.Credentials[0].Data["password"]) == 0 {
		t.Errorf("what is kept of the further key (-want +got)\n%s", diff)
	}
	if err := f.client.Get(t.Context(), clusterKey, secret); err != nil {
		t.Fatal(err)
	}
	delete(secret.Data, "private-key-old.pem")
	if err := f.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{is, was}, f.reconcile(clusterKey)); diff != "" {
		t.Errorf("after it was taken away (-want +got)\n%s", diff)
	}
	f.expectEvent("Normal KeyRotationStarted 1 of 2 hosts have none of its keys, and get " + is + ".")
}

// Who may write what is kept, and for a moment may not read it, does not write over keys that hosts still have.
func TestUnread(t *testing.T) {
	former, was := keyPair(t)
	newer, is := keyPair(t)
	one := instanceWith("one", was, "")
	f := newFixture(t, secretWith(clusterKey, former), one)
	if diff := cmp.Diff([]string{was}, f.reconcile(clusterKey)); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	if err := f.client.Update(t.Context(), secretWith(clusterKey, newer)); err != nil {
		t.Fatal(err)
	}
	f.unread = true
	f.reconcileUnread()
	f.expectEvent("Warning KeyNotKept The key of this Secret cannot be kept, so that its 1 hosts get no other one. Let windows-controller keep it: " +
		"kubectl create rolebinding windows-credentials-keeper -n operator --clusterrole=windows-credentials-keeper --serviceaccount=operator:windows-controller")
	f.reconcileUnread()
	f.expectEvent("")
	later := time.Now().Add(message.RepeatAfter)
	f.now = func() time.Time { return later }
	f.reconcileUnread()
	f.expectEvent("Warning KeyNotKept ") // events go after a while
	f.unread = false
	if diff := cmp.Diff([]string{is, was}, f.reconcile(clusterKey)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The keys of a tenant stay in the namespace of the tenant, also where they cannot be kept.
func TestTenants(t *testing.T) {
	ours, our := keyPair(t)
	theirs, their := keyPair(t)
	named := types.NamespacedName{Namespace: "tenant", Name: "team-key"}
	pool := &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "pool"}}
	pool.Spec.Template.CredentialsSecretRef = &v1alpha1.SecretReference{Name: named.Name}
	one, two := instanceWith("one", our, ""), instanceWith("two", their, "")
	two.Namespace, two.Spec.PoolRef = "tenant", &v1alpha1.PoolReference{Name: "pool"}
	orphan := instanceWith("orphan", our, "")
	orphan.Namespace, orphan.Spec.PoolRef = "tenant", &v1alpha1.PoolReference{Name: "gone"}
	f := newFixture(t, secretWith(clusterKey, ours), secretWith(named, theirs), pool, one, two, orphan)
	orphans := types.NamespacedName{Name: "ns"} // its instances have the cluster-wide key
	if _, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: orphans}); err != nil || f.read["ns"] {
		t.Errorf("where no Secrets are in use: read %v, %v", f.read, err)
	}
	f.forbidden = true
	if got := f.reconcile(named); got != nil {
		t.Errorf("kept %v", got)
	}
	f.expectEvent("Warning KeyNotKept The key of this Secret cannot be kept, so that its 1 hosts get no other one. Let windows-controller keep it: " +
		"kubectl create rolebinding windows-credentials-keeper -n tenant --clusterrole=windows-credentials-keeper --serviceaccount=operator:windows-controller")
	f.reconcile(named)
	f.expectEvent("") // once is enough
	f.forbidden = false
	for secret, want := range map[types.NamespacedName]string{clusterKey: our, named: their} {
		if diff := cmp.Diff([]string{want}, f.reconcile(secret)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", secret, diff)
		}
	}
	var found corev1.SecretList
	if err := f.client.List(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	for _, s := range found.Items {
		for key, text := range s.Data {
			if strings.Contains(string(text), their) && s.Namespace != "tenant" {
				t.Errorf("Secret %s/%s has the key of the tenant in %s", s.Namespace, s.Name, key)
			}
		}
	}
}

// TestNoRoom: a Secret for which there is no room is named, and others are kept.
func TestNoRoom(t *testing.T) {
	private, _ := keyPair(t)
	other, fingerprint := keyPair(t)
	large, small := types.NamespacedName{Namespace: "ns", Name: "large"}, types.NamespacedName{Namespace: "ns", Name: "small"}
	one, two := instanceWith("one", "former", ""), instanceWith("two", fingerprint, "")
	one.Spec.CredentialsSecretRef, two.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "large"}, &v1alpha1.SecretReference{Name: "small"}
	f := newFixture(t, secretWith(large, append(private, bytes.Repeat([]byte("#"), host.MaxKeptBytes)...)), secretWith(small, other), one, two)
	if got := f.reconcile(large); got != nil {
		t.Errorf("kept %v", got)
	}
	f.expectEvent("Warning KeyNotKept The key of this Secret cannot be kept, so that its 1 hosts get no other one: Secret ns/windows-keys-in-use has no room for it.")
	if diff := cmp.Diff([]string{fingerprint}, f.reconcile(small)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	f.expectEvent("") // once is enough
	f.replace(large, private, nil)
	if got := f.reconcile(large); len(got) != 1 {
		t.Errorf("when there is room, kept is %v", got)
	}
	f.expectEvent("Normal KeyRotationStarted")
}

// TestCompromised: the private part of a compromised key leaves the kept Secret, whatever else is the matter with its Secret.
func TestCompromised(t *testing.T) {
	private, fingerprint := keyPair(t)
	large := append(bytes.Clone(private), bytes.Repeat([]byte("#"), host.MaxKeptBytes)...)
	named := types.NamespacedName{Namespace: "ns", Name: "team-key"}
	mark := map[string]string{v1alpha1.CompromisedKeysAnnotation: fingerprint}
	annotate := func(f *fixture, secret types.NamespacedName) {
		f.t.Helper()
		found := &corev1.Secret{}
		if err := f.client.Get(f.t.Context(), secret, found); err != nil {
			f.t.Fatal(err)
		}
		found.Annotations = mark
		if err := f.client.Update(f.t.Context(), found); err != nil {
			f.t.Fatal(err)
		}
	}
	remove := func(f *fixture, o client.Object) {
		f.t.Helper()
		if err := f.client.Delete(f.t.Context(), o); err != nil {
			f.t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		do   func(f *fixture, i *v1alpha1.WindowsInstance)
	}{
		{"no instance has the Secret any more", func(f *fixture, i *v1alpha1.WindowsInstance) {
			remove(f, i)
			annotate(f, named)
		}},
		{"it is gone, too", func(f *fixture, i *v1alpha1.WindowsInstance) {
			remove(f, i)
			remove(f, secretWith(named, nil))
			annotate(f, types.NamespacedName{Namespace: "ns", Name: host.KeptSecret})
		}},
		{"it is gone, and instances have it", func(f *fixture, _ *v1alpha1.WindowsInstance) {
			remove(f, secretWith(named, nil))
			annotate(f, types.NamespacedName{Namespace: "ns", Name: host.KeptSecret})
		}},
		{"its instance was restored, and nobody has logged in", func(f *fixture, i *v1alpha1.WindowsInstance) {
			remove(f, i)
			restored := instanceWith("one", "unknown", "")
			restored.Spec = i.Spec
			if err := f.client.Create(f.t.Context(), restored); err != nil {
				f.t.Fatal(err)
			}
			annotate(f, named)
		}},
		{"it has no key that can be used", func(f *fixture, _ *v1alpha1.WindowsInstance) { f.replace(named, []byte("nonsense"), mark) }},
		{"there is no room for the new key", func(f *fixture, _ *v1alpha1.WindowsInstance) { f.replace(named, append(newKey(t), large...), mark) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, other := instanceWith("one", fingerprint, ""), instanceWith("other", fingerprint, "")
			one.Spec.CredentialsSecretRef, other.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: named.Name}, &v1alpha1.SecretReference{Name: "other"}
			f := newFixture(t, secretWith(named, private), secretWith(types.NamespacedName{Namespace: "ns", Name: "other"}, private), one, other)
			if diff := cmp.Diff([]string{fingerprint}, f.reconcile(named)); diff != "" {
				t.Fatalf("before (-want +got)\n%s", diff)
			}
			test.do(f, one)
			if diff := cmp.Diff([]string{"public key of " + fingerprint}, f.reconcile(named)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// newKey is another private key in PEM.
func newKey(t *testing.T) []byte {
	private, _ := keyPair(t)
	return private
}

func TestPacer(t *testing.T) {
	hosts := make([]client.Object, 0, 5)
	for _, name := range []string{"a", "b", "c", "d"} {
		hosts = append(hosts, instanceWith(name, "A", ""))
	}
	f := newFixture(t, hosts...)
	p := &Pacer{Client: f.client, Cluster: clusterKey, Clock: clock.RealClock{}}
	var ends []func()
	for i, h := range hosts {
		end, wait, err := p.Begin(t.Context(), h.(*v1alpha1.WindowsInstance), "B")
		if err != nil || (wait == "") != (i < firstHosts) || (end == nil) != (wait != "") {
			t.Fatalf("host %d: %q, %v", i+1, wait, err)
		}
		if end != nil {
			ends = append(ends, end)
		}
	}
	// Those of another key are others.
	if end, wait, err := p.Begin(t.Context(), hosts[0].(*v1alpha1.WindowsInstance), "C"); err != nil || wait != "" {
		t.Errorf("%q, %v", wait, err)
	} else {
		end()
	}
	// Nor do those of another namespace wait for them.
	elsewhere := instanceWith("e", "A", "")
	elsewhere.Namespace = "tenant"
	if end, wait, err := p.Begin(t.Context(), elsewhere, "B"); err != nil || wait != "" {
		t.Errorf("%q, %v", wait, err)
	} else {
		end()
	}
	for _, end := range ends {
		end()
	}
	if len(p.running) > 0 {
		t.Errorf("still running: %v", p.running)
	}
	if _, wait, err := p.Begin(t.Context(), hosts[3].(*v1alpha1.WindowsInstance), "B"); err != nil || wait != "" {
		t.Errorf("%q, %v", wait, err)
	}
}
