// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
)

var (
	secretResource = schema.GroupResource{Resource: "secrets"}
	errAPIAway     = &url.Error{Op: "Get", URL: "https://10.96.0.1/api", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	errForbidden   = apierrors.NewForbidden(secretResource, "a", errors.New("no role"))
)

// TestUnread: what an API server that is away, or has just started, says of a Secret leaves open what it has, and not for ever.
func TestUnread(t *testing.T) {
	type step struct {
		after time.Duration // since the step before
		err   error
		want  bool
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"read", []step{{0, nil, false}, {0, nil, false}}},
		{"away", []step{{0, errAPIAway, true}, {78 * time.Second, errAPIAway, true}, {0, nil, false}}},
		{"away for long", []step{{0, errAPIAway, true}, {unreadPatience, errAPIAway, false}}},
		{"away again", []step{{0, errAPIAway, true}, {time.Minute, nil, false}, {time.Hour, errAPIAway, true}}},
		{"busy", []step{{0, apierrors.NewTooManyRequests("later", 1), true}, {0, apierrors.NewServiceUnavailable("starts"), true}, {0, context.DeadlineExceeded, true}}},
		{"something in front of it answers", []step{{0, apierrors.NewGenericServerResponse(http.StatusNotFound, http.MethodGet, secretResource, "a", "404 page not found", 0, true), true}}},
		{"not there", []step{{0, apierrors.NewNotFound(secretResource, "a"), false}}},
		{"an error of no known kind", []step{{0, errors.New("x"), false}}},
		{"never allowed", []step{{0, errForbidden, false}}},
		{"never allowed, and away before", []step{{0, errAPIAway, true}, {0, errForbidden, false}}},
		{"does not know yet who may read", []step{{0, nil, false}, {time.Hour, errAPIAway, true}, {70 * time.Second, errForbidden, true}, {3 * time.Second, apierrors.NewUnauthorized("starts"), true}, {0, nil, false}}},
		{"the right was taken away", []step{{0, nil, false}, {time.Hour, errForbidden, true}, {forbiddenPatience, errForbidden, false}, {time.Hour, errForbidden, false}}},
		{"deleted, and made again without the right", []step{{0, nil, false}, {0, apierrors.NewNotFound(secretResource, "a"), false}, {0, errForbidden, false}}},
		{"it failed once, long ago", []step{{0, nil, false}, {0, errForbidden, true}, {time.Hour, errForbidden, true}, {time.Hour, errAPIAway, true}, {time.Hour, errAPIAway, true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r readings
			at := time.Unix(1000, 0)
			for n, s := range tt.steps {
				at = at.Add(s.after)
				if got := r.unread("a", s.err, at); got != s.want {
					t.Errorf("%d: %v: got %v", n, s.err, got)
				}
				if r.unread("b", errForbidden, at) {
					t.Errorf("%d: it is said of another one", n)
				}
			}
		})
	}
	var r readings
	for n := range 3 * maxReadings {
		r.unread(time.Duration(n).String(), nil, time.Unix(1000, 0))
	}
	if len(r.of) > maxReadings {
		t.Errorf("%d are remembered", len(r.of))
	}
}

// TestReadInVain: that nobody wants the answer any more, whatever the cause, says nothing of the Secret.
func TestReadInVain(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	connector := s.newConnector()
	var answer error
	connector.options.ReadSecret = func(ctx context.Context, _, _ string) (*corev1.Secret, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return &corev1.Secret{}, answer
	}
	name := types.NamespacedName{Namespace: "default", Name: "own"}
	if _, unread, err := connector.read(t.Context(), name); unread || err != nil {
		t.Fatalf("got %v, %v", unread, err)
	}
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("somebody has canceled the operation"))
	if _, unread, err := connector.read(canceled, name); unread || err == nil {
		t.Errorf("got %v, %v", unread, err)
	}
	answer = errForbidden
	if _, unread, _ := connector.read(t.Context(), name); !unread {
		t.Error("it is not known any more that it could be read")
	}
}

// TestNotRead: whatever of the credentials could not be read, the error says so.
func TestNotRead(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	bastion := bastionOf(t, s)
	own := maps.Clone(s.Secrets)
	own["default/own"] = s.Secrets["operator/cloud-private-key"]
	for _, tt := range []struct {
		name string
		// away is what could not be read: a Secret, or "pool".
		away     string
		instance func(*v1alpha1.WindowsInstance)
		want     string
	}{
		{"of the host", "default/own", func(i *v1alpha1.WindowsInstance) {
			i.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "own"}
		}, "Secret default/own could not be read: Get "},
		{"of all hosts", "operator/cloud-private-key", nil, "Secret operator/cloud-private-key could not be read: Get "},
		{"the copies", "operator/" + KeptSecret, nil, "Secret operator/" + KeptSecret + " could not be read: Get "},
		{"of the bastion", "default/jump", func(i *v1alpha1.WindowsInstance) { i.Spec.Bastion = bastion }, "bastion " + bastion.Endpoint() + ": Secret default/jump could not be read: Get "},
		{"the pool", "pool", func(i *v1alpha1.WindowsInstance) { i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "p"} }, "Secret of pool default/p could not be read: reading the pool: Get "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			connector := s.newConnector()
			connector.options.ReadSecret = func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
				if namespace+"/"+name == tt.away {
					return nil, errAPIAway
				}
				return own.Read(ctx, namespace, name)
			}
			connector.options.ReadPool = func(ctx context.Context, namespace, name string) (*v1alpha1.WindowsNodePool, error) {
				if tt.away == "pool" {
					return nil, errAPIAway
				}
				return hostsite.Pools(ctx, namespace, name)
			}
			instance := s.Instance.DeepCopy()
			if tt.instance != nil {
				tt.instance(instance)
			}
			_, err := connector.Login(t.Context(), instance)
			credentials, ok := errors.AsType[*CredentialsError](err)
			if !ok || !credentials.Unread || !errors.Is(err, syscall.ECONNREFUSED) || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
