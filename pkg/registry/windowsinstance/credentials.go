// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// PoolGetter reads pools of the namespace of a request.
type PoolGetter interface {
	Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error)
}

// credentialGuard asks for the right to the credentials that a host is logged in to
// with, when an instance is made and whenever it is changed where they go or which
// they are. Otherwise whoever may write instances could make themselves a host, have our
// programs log in to it, and so use a key that they were never given.
type credentialGuard struct {
	credentials base.CredentialAuthorizer
	pools       PoolGetter
}

func (g credentialGuard) validateCreate(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return base.Guard(g.authorize, next)
}

func (g credentialGuard) validateUpdate(next rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return base.GuardUpdate(func(ctx context.Context, instance, old *windows.WindowsInstance) error {
		if apiequality.Semantic.DeepEqual(loginOf(instance), loginOf(old)) {
			return nil
		}
		return g.authorize(ctx, instance)
	}, next)
}

// login is where credentials go and which they are.
type login struct {
	Address     string
	Port        int32
	Username    string
	Credentials *windows.SecretReference
	Pool        *windows.PoolReference
}

func loginOf(instance *windows.WindowsInstance) login {
	spec := &instance.Spec
	return login{spec.Address, spec.Port, spec.Username, spec.CredentialsSecretRef, spec.PoolRef}
}

func (g credentialGuard) authorize(ctx context.Context, instance *windows.WindowsInstance) error {
	credential, err := g.credentialOf(ctx, instance)
	if err != nil {
		return err
	}
	return g.credentials.Authorize(ctx, windows.Resource("windowsinstances"), instance.Namespace, instance.Name, credential)
}

// credentialOf finds the credentials of an instance as those do who log in: its own,
// else those of its pool, else the cluster-wide key. An instance of a pool that is not
// there is not logged in to at all; whoever makes the pool later decides about the
// credentials of hosts that they may not know of, so the most is asked for here.
func (g credentialGuard) credentialOf(ctx context.Context, instance *windows.WindowsInstance) (base.Credential, error) {
	if ref := instance.Spec.CredentialsSecretRef; ref != nil {
		return base.Credential{Secret: ref.Name}, nil
	}
	ref := instance.Spec.PoolRef
	if ref == nil {
		return base.Credential{}, nil
	}
	obj, err := g.pools.Get(ctx, ref.Name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return base.Credential{}, nil
	}
	if err != nil {
		return base.Credential{}, apierrors.NewInternalError(fmt.Errorf("reading pool %q to learn of its credentials: %w", ref.Name, err))
	}
	pool, ok := obj.(*windows.WindowsNodePool)
	if !ok {
		return base.Credential{}, apierrors.NewInternalError(fmt.Errorf("got a %T where a WindowsNodePool was expected", obj))
	}
	if ref := pool.Spec.Template.CredentialsSecretRef; ref != nil {
		return base.Credential{Secret: ref.Name}, nil
	}
	return base.Credential{}, nil
}
