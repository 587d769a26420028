// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package token

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

var testNow = time.Date(2026, 5, 4, 3, 2, 1, 0, time.FixedZone("CEST", 7200))

func instance(uid string) *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "one", UID: types.UID(uid)}}
}

// setup is Tokens with the cluster and the clock that they see.
type setup struct {
	*Tokens
	kube  *fake.Clientset
	clock *clocktesting.FakePassiveClock
}

func newSetup() *setup {
	s := &setup{kube: fake.NewClientset(), clock: clocktesting.NewFakePassiveClock(testNow)}
	s.Tokens = New(s.kube, s.clock)
	return s
}

func (s *setup) issued(t *testing.T, i *v1alpha1.WindowsInstance) string {
	t.Helper()
	token, err := s.Issue(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// secret returns the Secret of an instance, nil if there is none.
func (s *setup) secret(t *testing.T, i *v1alpha1.WindowsInstance) *corev1.Secret {
	t.Helper()
	secret, err := s.kube.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-"+idOf(i.UID), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// authenticate says who the bearer of a token is, as the API server finds out; see
// k8s.io/kubernetes/plugin/pkg/auth/authenticator/token/bootstrap. Empty: nobody.
func (s *setup) authenticate(t *testing.T, token string) (user, groups string) {
	t.Helper()
	parts := regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`).FindStringSubmatch(token)
	if parts == nil {
		return "", ""
	}
	secret, err := s.kube.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-"+parts[1], metav1.GetOptions{})
	if err != nil || secret.DeletionTimestamp != nil || secret.Type != "bootstrap.kubernetes.io/token" {
		return "", ""
	}
	data := func(key string) string { return string(secret.Data[key]) }
	expires, err := time.Parse(time.RFC3339, data("expiration"))
	if err != nil || expires.Before(s.clock.Now()) ||
		data("token-id") != parts[1] || data("token-secret") != parts[2] || data("usage-bootstrap-authentication") != "true" {
		return "", ""
	}
	all := []string{"system:bootstrappers"}
	for group := range strings.SplitSeq(data("auth-extra-groups"), ",") {
		if !regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$`).MatchString(group) {
			return "", ""
		}
		all = append(all, group)
	}
	return "system:bootstrap:" + parts[1], strings.Join(all, ",")
}

// TestIssue: a token lets its bearer in as the user that is told, for an hour at most.
func TestIssue(t *testing.T) {
	s := newSetup()
	i := instance("0c7d6f1e-8d0b-4e6b-9d0f-1f5f2b6a7c8d")
	token := s.issued(t, i)
	user, groups := s.authenticate(t, token)
	if want := "system:bootstrappers,system:bootstrappers:windows-instances"; groups != want {
		t.Errorf("the bearer is in the groups %q, want %q", groups, want)
	}
	got, err := s.User(t.Context(), i)
	if err != nil || got == "" || got != user {
		t.Errorf("the bearer is %q, told is %q, %v", user, got, err)
	}
	secret := s.secret(t, i)
	if got, want := string(secret.Data["expiration"]), "2026-05-04T02:02:01Z"; got != want {
		t.Errorf("it is valid until %s, want %s", got, want)
	}
	if secret.Annotations["windows.openshift.io/instance"] != "hosts/one" || !strings.Contains(string(secret.Data["description"]), "hosts/one") ||
		secret.Labels["app.kubernetes.io/managed-by"] != "windows-controller" {
		t.Errorf("the Secret does not tell whose it is: %v", secret.ObjectMeta)
	}
	for key := range secret.Data {
		if strings.HasPrefix(key, "usage-bootstrap-") && key != "usage-bootstrap-authentication" {
			t.Errorf("it can be used for %s", key)
		}
	}
	other := s.issued(t, instance("other"))
	if user2, _ := s.authenticate(t, other); user2 == user || other[7:] == token[7:] {
		t.Error("two hosts have the same token")
	}
	if _, err := s.Issue(t.Context(), instance("")); err == nil {
		t.Error("an instance that was never created has a token")
	}
}

// TestRenewal: a token is kept as long as there is time to use it.
func TestRenewal(t *testing.T) {
	tests := []struct {
		name   string
		change func(s *setup, secret *corev1.Secret) // of the first token
		same   bool
	}{
		{name: "at once", change: func(*setup, *corev1.Secret) {}, same: true},
		{name: "with 15 minutes left", change: func(s *setup, _ *corev1.Secret) { s.clock.SetTime(testNow.Add(Lifetime - MinValidity)) }, same: true},
		{name: "with less", change: func(s *setup, _ *corev1.Secret) { s.clock.SetTime(testNow.Add(Lifetime - MinValidity + time.Second)) }},
		{name: "expired", change: func(s *setup, _ *corev1.Secret) { s.clock.SetTime(testNow.Add(2 * Lifetime)) }},
		{name: "valid for too long", change: func(_ *setup, secret *corev1.Secret) { secret.Data["expiration"] = []byte("2030-01-01T00:00:00Z") }},
		{name: "valid for ever", change: func(_ *setup, secret *corev1.Secret) { delete(secret.Data, "expiration") }},
		{name: "in another group", change: func(_ *setup, secret *corev1.Secret) {
			secret.Data["auth-extra-groups"] = []byte("system:bootstrappers:x")
		}},
		{name: "of no use", change: func(_ *setup, secret *corev1.Secret) { delete(secret.Data, "usage-bootstrap-authentication") }},
		{name: "another id", change: func(_ *setup, secret *corev1.Secret) { secret.Data["token-id"] = []byte("aaaaaa") }},
		{name: "no secret", change: func(_ *setup, secret *corev1.Secret) { secret.Data["token-secret"] = []byte("short") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup()
			i := instance("u1")
			first := s.issued(t, i)
			secret := s.secret(t, i)
			tt.change(s, secret)
			if _, err := s.kube.CoreV1().Secrets("kube-system").Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			second := s.issued(t, i)
			if same := first == second; same != tt.same {
				t.Errorf("the same again: %v, want %v", same, tt.same)
			}
			user, groups := s.authenticate(t, second)
			if told, err := s.User(t.Context(), i); err != nil || user == "" || told != user || !strings.HasSuffix(groups, Group) {
				t.Errorf("the bearer is %q in %q, told is %q, %v", user, groups, told, err)
			}
			if left, err := time.Parse(time.RFC3339, string(s.secret(t, i).Data["expiration"])); err != nil ||
				left.Sub(s.clock.Now()) < MinValidity || left.Sub(s.clock.Now()) > Lifetime {
				t.Errorf("it is valid for %v, %v", left.Sub(s.clock.Now()), err)
			}
		})
	}
}

// TestRevoke: nobody gets in with a token that was revoked, and a new one is another one.
func TestRevoke(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	if err := s.Revoke(t.Context(), i); err != nil {
		t.Errorf("none to revoke: %v", err)
	}
	first := s.issued(t, i)
	for range 2 {
		if err := s.Revoke(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if user, _ := s.authenticate(t, first); user != "" {
		t.Errorf("the bearer is still %s", user)
	}
	if user, err := s.User(t.Context(), i); user != "" || err != nil {
		t.Errorf("told is %q, %v", user, err)
	}
	if second := s.issued(t, i); second == first {
		t.Error("the same token is valid again")
	}
}

// What was deleted is the very Secret that was looked at.
func TestRevokeDeletesOnlyWhatItSaw(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	s.issued(t, i)
	var preconditions *metav1.Preconditions
	s.kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		secret, err := newSecret(i, testNow)
		secret.UID = "s1"
		return true, secret, err
	})
	s.kube.PrependReactor("delete", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		preconditions = a.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions //nolint:forcetypeassert // nothing else deletes
		return true, nil, apierrors.NewConflict(corev1.Resource("secrets"), "x", errors.New("another UID"))
	})
	if err := s.Revoke(t.Context(), i); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	if preconditions == nil || preconditions.UID == nil || *preconditions.UID != "s1" {
		t.Errorf("deleted with %v", preconditions)
	}
}

func TestUser(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	user := func() string {
		t.Helper()
		u, err := s.User(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	if got := user(); got != "" {
		t.Errorf("without a token: %s", got)
	}
	s.issued(t, i)
	s.clock.SetTime(testNow.Add(Lifetime - time.Second))
	if got := user(); got == "" {
		t.Error("with a token that is valid for a second: nobody")
	}
	s.clock.SetTime(testNow.Add(Lifetime))
	if got := user(); got != "" {
		t.Errorf("with a token that expired: %s", got)
	}
}

// TestForeign: a Secret of somebody else stays as it is, whatever is asked for.
func TestForeign(t *testing.T) {
	tests := []struct {
		name   string
		change func(secret *corev1.Secret)
	}{
		{name: "another instance", change: func(s *corev1.Secret) { s.Annotations[uidAnnotation] = "u2" }},
		{name: "nobody's", change: func(s *corev1.Secret) { s.Annotations = nil }},
		{name: "another type", change: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup()
			i := instance("u1")
			foreign, err := newSecret(i, testNow.Add(Lifetime))
			if err != nil {
				t.Fatal(err)
			}
			tt.change(foreign)
			if err := s.kube.Tracker().Add(foreign.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if token, err := s.Issue(t.Context(), i); !errors.Is(err, ErrForeign) || token != "" || !strings.Contains(err.Error(), foreign.Name) {
				t.Errorf("issued with %v, want %v about %s", err, ErrForeign, foreign.Name)
			}
			if user, err := s.User(t.Context(), i); user != "" || err != nil {
				t.Errorf("user %q, %v", user, err)
			}
			if err := s.Revoke(t.Context(), i); err != nil {
				t.Errorf("revoked with %v", err)
			}
			if diff := cmp.Diff(foreign, s.secret(t, i)); diff != "" {
				t.Errorf("it changed (-before +after):\n%s", diff)
			}
		})
	}
}

// Two controllers, or one that started again, issue one token.
func TestIssueConcurrently(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	tokens := make([]string, 4)
	var wg sync.WaitGroup
	for n := range tokens {
		wg.Go(func() { tokens[n], _ = s.Issue(t.Context(), i) })
	}
	wg.Wait()
	for _, token := range tokens {
		if user, _ := s.authenticate(t, token); user == "" {
			t.Errorf("a token of no use: %v", tokens)
		}
	}
}

// A conflict is tried again, other errors are told, and none of them tells the token.
func TestIssueFails(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	fails := 2
	s.kube.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if fails--; fails >= 0 {
			return true, nil, apierrors.NewAlreadyExists(corev1.Resource("secrets"), "x")
		}
		return false, nil, nil
	})
	s.issued(t, i)
	s.kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "x", nil)
	})
	if _, err := s.Issue(t.Context(), i); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	if _, err := s.User(t.Context(), i); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	if err := s.Revoke(t.Context(), i); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}

// Only what another writer may have caused is tried again.
func TestIssueTriesAgain(t *testing.T) {
	secrets := corev1.Resource("secrets")
	tests := []struct {
		name  string
		err   error
		calls int
	}{
		{"somebody changed it", apierrors.NewConflict(secrets, "x", nil), tries},
		{"somebody made it", apierrors.NewAlreadyExists(secrets, "x"), tries},
		{"somebody deleted it", apierrors.NewNotFound(secrets, "x"), tries},
		{"it is not allowed", apierrors.NewForbidden(secrets, "x", nil), 1},
		{"no server", errors.New("connection refused"), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup()
			calls := 0
			s.kube.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				calls++
				return true, nil, tt.err
			})
			token, err := s.Issue(t.Context(), instance("u1"))
			if !errors.Is(err, tt.err) || token != "" || calls != tt.calls {
				t.Errorf("got %v after %d requests, want %d", err, calls, tt.calls)
			}
		})
	}
}

// The Secret that is replaced is the very one that was read, and in that version.
func TestIssueReplacesWhatItRead(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	old, err := newSecret(i, testNow)
	if err != nil {
		t.Fatal(err)
	}
	old.UID, old.ResourceVersion = "s1", "41"
	if err := s.kube.Tracker().Add(old); err != nil {
		t.Fatal(err)
	}
	var sent *corev1.Secret
	s.kube.PrependReactor("update", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		sent = a.(clienttesting.UpdateAction).GetObject().(*corev1.Secret) //nolint:forcetypeassert // nothing else is updated
		return true, sent, nil
	})
	s.issued(t, i)
	if sent == nil || sent.UID != "s1" || sent.ResourceVersion != "41" {
		t.Errorf("sent %+v", sent)
	}
}

// A Secret that is being deleted lets nobody in, and is not written any more.
func TestDeletedSecret(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	old, err := newSecret(i, testNow.Add(Lifetime))
	if err != nil {
		t.Fatal(err)
	}
	old.DeletionTimestamp, old.Finalizers = &metav1.Time{Time: testNow}, []string{"example.com/f"}
	if err := s.kube.Tracker().Add(old); err != nil {
		t.Fatal(err)
	}
	if user, err := s.User(t.Context(), i); user != "" || err != nil {
		t.Errorf("the bearer is %q, %v", user, err)
	}
	if token, err := s.Issue(t.Context(), i); token != "" || err == nil || !strings.Contains(err.Error(), "is still being deleted") {
		t.Errorf("got %v", err)
	}
	for _, action := range s.kube.Actions() {
		if action.GetVerb() != "get" {
			t.Errorf("it is written: %v", action)
		}
	}
}

func TestRevokeFails(t *testing.T) {
	secrets := corev1.Resource("secrets")
	for _, tt := range []struct {
		answer error
		want   bool
	}{{apierrors.NewNotFound(secrets, "x"), false}, {apierrors.NewConflict(secrets, "x", nil), false}, {apierrors.NewForbidden(secrets, "x", nil), true}} {
		s := newSetup()
		i := instance("u1")
		s.issued(t, i)
		s.kube.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.answer })
		if err := s.Revoke(t.Context(), i); (err != nil) != tt.want {
			t.Errorf("%v: got %v", tt.answer, err)
		}
	}
}

// TestID: the id of a token does not change from version to version, as its host may be
// joining meanwhile.
func TestID(t *testing.T) {
	if got, want := idOf("0c7d6f1e-8d0b-4e6b-9d0f-1f5f2b6a7c8d"), "5b98bp"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
