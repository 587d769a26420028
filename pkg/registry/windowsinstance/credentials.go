// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"cmp"
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// credentialGuard requires the right to use the credentials of a host when an instance is
// created, and whenever it changes where they are sent or which they are. Otherwise whoever
// may write instances could create a host of their own, have our programs log in to it, and
// so use a key that they were never given.
type credentialGuard struct {
	authorizer authorizer.Authorizer
	pools      rest.Getter
}

func (g credentialGuard) checkCreate(ctx context.Context, instance *windows.WindowsInstance) error {
	resource := windows.Resource("windowsinstances")
	template, err := g.template(ctx, instance)
	if err != nil {
		return err
	}
	if err := base.AuthorizeCredentials(ctx, g.authorizer, resource, instance, secretOf(instance, template)); err != nil {
		return err
	}
	if bastion := cmp.Or(instance.Spec.Bastion, template.Bastion); bastion != nil {
		return base.AuthorizeBastion(ctx, g.authorizer, resource, instance, bastion.CredentialsSecretRef.Name)
	}
	return nil
}

func (g credentialGuard) checkUpdate(ctx context.Context, instance, old *windows.WindowsInstance) error {
	if apiequality.Semantic.DeepEqual(loginOf(instance), loginOf(old)) {
		return nil
	}
	return g.checkCreate(ctx, instance)
}

// login is where credentials are sent, through what, and which they are.
type login struct {
	Address     string
	Port        int32
	Username    string
	Credentials *windows.SecretReference
	Pool        *windows.PoolReference
	Bastion     *windows.Bastion
}

func loginOf(instance *windows.WindowsInstance) login {
	spec := &instance.Spec
	return login{spec.Address, spec.Port, spec.Username, spec.CredentialsSecretRef, spec.PoolRef, spec.Bastion}
}

// secretOf returns the Secret that is used to log in to the host of an instance: its own,
// else that of its pool, else none, which is the cluster-wide key.
func secretOf(instance *windows.WindowsInstance, template windows.PoolTemplate) string {
	if ref := cmp.Or(instance.Spec.CredentialsSecretRef, template.CredentialsSecretRef); ref != nil {
		return ref.Name
	}
	return ""
}

// template returns that of the pool of an instance, which says what the instance does not say itself. It is empty where
// nothing is left to say, and where there is no pool. A host whose pool does not
// exist is not logged in to at all; whoever creates the pool later decides about the
// credentials of hosts that they may not know of, so the most is required here.
func (g credentialGuard) template(ctx context.Context, instance *windows.WindowsInstance) (windows.PoolTemplate, error) {
	ref := instance.Spec.PoolRef
	if ref == nil || instance.Spec.CredentialsSecretRef != nil && instance.Spec.Bastion != nil {
		return windows.PoolTemplate{}, nil
	}
	template, _, err := templateOf(ctx, g.pools, ref)
	return template, err
}

// templateOf returns that of a pool. known is false where the pool does not exist; an instance without one has an empty template.
func templateOf(ctx context.Context, pools rest.Getter, ref *windows.PoolReference) (template windows.PoolTemplate, known bool, err error) {
	if ref == nil {
		return template, true, nil
	}
	obj, err := pools.Get(ctx, ref.Name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return template, false, nil
	}
	if err != nil {
		return template, false, apierrors.NewInternalError(fmt.Errorf("reading the template of pool %q: %w", ref.Name, err))
	}
	pool, err := base.As[*windows.WindowsNodePool](obj)
	if err != nil {
		return template, false, err
	}
	return pool.Spec.Template, true, nil
}
