// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package hostsite is a host stand-in with the object that stands for it, its Secrets and
// connections to it: what tests of the way to hosts begin with. It imports nothing of what
// they test, so that those beside the code can use it.
package hostsite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// Secrets are Secrets by namespace/name; a nil one may not be read.
type Secrets map[string]map[string][]byte

// Read returns one.
func (s Secrets) Read(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	data, ok := s[namespace+"/"+name]
	resource := schema.GroupResource{Resource: "secrets"}
	switch {
	case !ok:
		return nil, apierrors.NewNotFound(resource, name)
	case data == nil:
		return nil, apierrors.NewForbidden(resource, name, errors.New("no role"))
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}, nil
}

// ClusterCredentials names the Secret with the key that the host accepts.
var ClusterCredentials = types.NamespacedName{Namespace: "operator", Name: "cloud-private-key"}

// Site is one host and what reaches it.
type Site struct {
	Host winhost.Host
	// Pool is closed with the test, whichever it is then.
	Pool     *ssh.Pool
	Secrets  Secrets
	Instance *v1alpha1.WindowsInstance
	// AgentDir has builds of the agent.
	AgentDir string
}

// New starts a host that trusts the cluster-wide key and whose own key is
// pinned in the instance.
func New(t *testing.T, o winhost.Options) *Site {
	t.Helper()
	private, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	o.AuthorizedKeys = []xssh.PublicKey{signer.PublicKey()}
	s := &Site{
		Host:     hosttest.Start(t, o),
		Pool:     ssh.New(ssh.Options{}),
		Secrets:  Secrets{ClusterCredentials.String(): {"private-key.pem": private}},
		AgentDir: t.TempDir(),
	}
	t.Cleanup(func() {
		if err := s.Pool.Close(); err != nil {
			t.Error(err)
		}
	})
	// The host runs our code in its own process whatever the file holds.
	content := []byte("MZ" + strings.Repeat(t.Name(), 1000))
	if err := os.WriteFile(filepath.Join(s.AgentDir, "windows-node-agent.exe"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Instance = &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "win-1", Namespace: "default"},
		Spec: v1alpha1.WindowsInstanceSpec{
			Address: s.Host.Address(), Port: int32(s.Host.Port()), Username: s.Host.User(),
			HostKeys: []string{Line(s.Host.HostKey())},
		},
	}
	return s
}

// SetFault has the host misbehave.
func (s *Site) SetFault(t *testing.T, f winhost.Fault) {
	t.Helper()
	if err := s.Host.SetFault(f); err != nil {
		t.Fatal(err)
	}
}

// Pools are pools by name: one with credentials of its own, one without, one that cannot be read.
func Pools(_ context.Context, _, name string) (*v1alpha1.WindowsNodePool, error) {
	switch name {
	case "own-key":
		return &v1alpha1.WindowsNodePool{Spec: v1alpha1.WindowsNodePoolSpec{Template: v1alpha1.PoolTemplate{CredentialsSecretRef: &v1alpha1.SecretReference{Name: "of-pool"}}}}, nil
	case "plain":
		return &v1alpha1.WindowsNodePool{}, nil
	case "broken":
		return nil, errors.New("storage is down")
	}
	return nil, apierrors.NewNotFound(v1alpha1.Resource("windowsnodepools"), name)
}

// Line is a key as spec.hostKeys wants it.
func Line(key xssh.PublicKey) string {
	return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(key)))
}

// Reason is why an error of package ssh happened; empty: err is none.
func Reason(err error) ssh.Reason {
	if e, ok := ssh.AsError(err); ok {
		return e.Reason
	}
	return ""
}
