// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package token

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
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
	var made atomic.Int64
	s.kube.PrependReactor("create", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.CreateAction).GetObject().(*corev1.Secret).UID = types.UID(fmt.Sprintf("s%d", made.Add(1))) //nolint:forcetypeassert // nothing else is created
		return false, nil, nil
	})
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

// restarted is another process in the same cluster.
func (s *setup) restarted() *setup {
	return &setup{Tokens: New(s.kube, s.clock), kube: s.kube, clock: s.clock}
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

// mustDo fails the test unless nothing but these verbs was used on Secrets, in this order. What the
// test itself did is not among them.
func (s *setup) mustDo(t *testing.T, do func(), verbs ...string) {
	t.Helper()
	s.kube.ClearActions()
	do()
	var got []string
	for _, action := range s.kube.Actions() {
		got = append(got, action.GetVerb())
	}
	if diff := cmp.Diff(verbs, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestIssue: a token lets its bearer in as one of the group of its instance, for an hour at most.
func TestIssue(t *testing.T) {
	s := newSetup()
	i := instance("0c7d6f1e-8d0b-4e6b-9d0f-1f5f2b6a7c8d")
	var token string
	s.mustDo(t, func() { token = s.issued(t, i) }, "create")
	user, groups := s.authenticate(t, token)
	if want := "system:bootstrappers,system:bootstrappers:windows-instances,system:bootstrappers:windows-instances:0c7d6f1e-8d0b-4e6b-9d0f-1f5f2b6a7c8d"; groups != want {
		t.Errorf("the bearer is in the groups %q, want %q", groups, want)
	}
	if !strings.HasSuffix(groups, ","+GroupOf(i)) {
		t.Errorf("the bearer is in the groups %q, told is %s", groups, GroupOf(i))
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
	if user2, groups2 := s.authenticate(t, other); user2 == user || groups2 == groups || other[7:] == token[7:] {
		t.Error("two hosts have the same token")
	}
	if _, err := s.Issue(t.Context(), instance("")); err == nil {
		t.Error("an instance that was never created has a token")
	}
}

// TestRenewal: a token is kept as long as there is time to use it; then there is another one, and
// the one before lets nobody in.
func TestRenewal(t *testing.T) {
	tests := []struct {
		name  string
		after time.Duration
		same  bool
	}{
		{name: "at once", same: true},
		{name: "with 15 minutes left", after: Lifetime - MinValidity, same: true},
		{name: "with less", after: Lifetime - MinValidity + time.Second},
		{name: "expired", after: 2 * Lifetime},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup()
			i := instance("u1")
			first := s.issued(t, i)
			s.clock.SetTime(testNow.Add(tt.after))
			second := s.issued(t, i)
			if same := first == second; same != tt.same {
				t.Errorf("the same again: %v, want %v", same, tt.same)
			}
			if user, groups := s.authenticate(t, second); user == "" || !strings.HasSuffix(groups, GroupOf(i)) {
				t.Errorf("the bearer is %q in %q", user, groups)
			}
			if user, _ := s.authenticate(t, first); user != "" && !tt.same {
				t.Error("the one before is valid")
			}
			if left, err := time.Parse(time.RFC3339, string(s.secret(t, i).Data["expiration"])); err != nil ||
				left.Sub(s.clock.Now()) < MinValidity || left.Sub(s.clock.Now()) > Lifetime {
				t.Errorf("it is valid for %v, %v", left.Sub(s.clock.Now()), err)
			}
		})
	}
}

// TestRestart: a process that does not know the token of the one before replaces or revokes it, and
// reads no Secret for that.
func TestRestart(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	first := s.issued(t, i)
	s = s.restarted()
	var second string
	s.mustDo(t, func() { second = s.issued(t, i) }, "create", "delete", "create")
	if user, _ := s.authenticate(t, first); user != "" {
		t.Error("the token of the process before is valid")
	}
	if user, _ := s.authenticate(t, second); user == "" {
		t.Error("its own token is not valid")
	}
	s = s.restarted()
	s.mustDo(t, func() {
		if err := s.Revoke(t.Context(), i); err != nil {
			t.Error(err)
		}
	}, "delete")
	if options := s.kube.Actions()[0].(clienttesting.DeleteActionImpl).DeleteOptions; options.Preconditions != nil { //nolint:forcetypeassert // it is one, see above
		t.Errorf("it is deleted only with %v", options.Preconditions)
	}
	if user, _ := s.authenticate(t, second); user != "" {
		t.Error("the token of the process before is not revoked")
	}
}

// TestReplaced: a process that was replaced does not revoke what its successor has issued.
func TestReplaced(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	s.issued(t, i)
	s.restarted().issued(t, i)
	var preconditions *metav1.Preconditions
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

// TestRevoke: nobody gets in with a token that was revoked, and a new one is another one.
func TestRevoke(t *testing.T) {
	s := newSetup()
	i := instance("u1")
	if err := s.Revoke(t.Context(), i); err != nil {
		t.Errorf("none to revoke: %v", err)
	}
	first, other := s.issued(t, i), s.issued(t, instance("u2"))
	for range 2 {
		if err := s.Revoke(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if user, _ := s.authenticate(t, first); user != "" {
		t.Errorf("the bearer is still %s", user)
	}
	if user, _ := s.authenticate(t, other); user == "" {
		t.Error("the token of another host is revoked, too")
	}
	if second := s.issued(t, i); second == first {
		t.Error("the same token is valid again")
	}
}

// A token is forgotten when it is revoked, and only then: what an API server that was away has
// kept is revoked the next time.
func TestRevokeFails(t *testing.T) {
	secrets := corev1.Resource("secrets")
	for _, tt := range []struct {
		answer error
		want   bool
	}{{apierrors.NewNotFound(secrets, "x"), false}, {apierrors.NewConflict(secrets, "x", nil), false}, {apierrors.NewForbidden(secrets, "x", nil), true}} {
		s := newSetup()
		i := instance("u1")
		first := s.issued(t, i)
		s.kube.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.answer })
		if err := s.Revoke(t.Context(), i); (err != nil) != tt.want || err != nil && !errors.Is(err, tt.answer) {
			t.Errorf("%v: got %v", tt.answer, err)
		}
		if known := s.known(i).token == first; known != tt.want {
			t.Errorf("%v: it is known: %v", tt.answer, known)
		}
	}
}

// Errors are told, and none of them tells the token.
func TestIssueFails(t *testing.T) {
	secrets := corev1.Resource("secrets")
	exists, forbidden := apierrors.NewAlreadyExists(secrets, "x"), apierrors.NewForbidden(secrets, "x", nil)
	tests := []struct {
		name           string
		create, delete error
		want           error
		verbs          []string
	}{
		{name: "it is not allowed", create: forbidden, want: forbidden, verbs: []string{"create"}},
		{name: "a Secret of somebody else", create: exists, delete: forbidden, want: forbidden, verbs: []string{"create", "delete"}},
		{name: "the one before is still there", create: exists, want: exists, verbs: []string{"create", "delete", "create"}},
		{name: "the one before is gone meanwhile", create: exists, delete: apierrors.NewNotFound(secrets, "x"), want: exists, verbs: []string{"create", "delete", "create"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup()
			i := instance("u1")
			s.kube.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.create })
			s.kube.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.delete })
			s.mustDo(t, func() {
				if token, err := s.Issue(t.Context(), i); !errors.Is(err, tt.want) || token != "" {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			}, tt.verbs...)
			if s.known(i) != (issued{}) {
				t.Error("a token that was not made is known")
			}
		})
	}
}

// What instances that are gone have left behind is not kept for ever.
func TestForgotten(t *testing.T) {
	s := newSetup()
	gone, there := instance("u1"), instance("u2")
	s.issued(t, gone)
	s.clock.SetTime(testNow.Add(Lifetime))
	s.issued(t, there)
	if s.known(gone) != (issued{}) {
		t.Error("an expired token is kept")
	}
	if s.known(there) == (issued{}) {
		t.Error("the new one is not")
	}
}

// Operations of many hosts run at the same time.
func TestIssueConcurrently(t *testing.T) {
	s := newSetup()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			i := instance(fmt.Sprintf("u%d", n))
			token, err := s.Issue(t.Context(), i)
			if user, _ := s.authenticate(t, token); err != nil || user == "" {
				t.Errorf("%s: %q, %v", i.UID, user, err)
			}
		})
	}
	wg.Wait()
}

// TestID: the id of a token does not change from version to version: the next version revokes what
// the one before has issued.
func TestID(t *testing.T) {
	if got, want := idOf("0c7d6f1e-8d0b-4e6b-9d0f-1f5f2b6a7c8d"), "5b98bp"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
