// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// way is how the host of an instance is reached, without what is needed to log in to it: with its trusted keys, and through
// its bastion, if it has one.
func (c *Connector) way(ctx context.Context, instance *v1alpha1.WindowsInstance) (ssh.Target, error) {
	target := Address(instance)
	var err error
	if target.HostKeys, err = trustedKeys(instance); err != nil {
		return ssh.Target{}, err
	}
	if target.Bastion, err = c.bastion(ctx, instance); err != nil {
		return ssh.Target{}, err
	}
	return target, nil
}

// bastion is the one through which the host of an instance is reached: its own, else that of its pool. Nil: none. Errors are
// [CredentialsError]s, and those of reading the pool.
func (c *Connector) bastion(ctx context.Context, instance *v1alpha1.WindowsInstance) (*ssh.Bastion, error) {
	spec := instance.Spec.Bastion
	if spec == nil {
		pool, err := c.poolOf(ctx, instance)
		if err != nil {
			return nil, err
		}
		spec = instance.BastionWith(pool)
	}
	if spec == nil {
		return nil, nil //nolint:nilnil // no bastion is the ordinary answer
	}
	keys, err := parseKeys(spec.HostKeys)
	if err != nil {
		return nil, fmt.Errorf("bastion %s: %w", spec.Endpoint(), err)
	}
	secret := types.NamespacedName{Namespace: instance.Namespace, Name: spec.CredentialsSecretRef.Name}
	current, err := c.readCredentials(ctx, secret)
	if missing, ok := errors.AsType[*CredentialsError](err); ok {
		missing.Bastion = spec.Endpoint()
	}
	if err != nil {
		return nil, err
	}
	at := c.now()
	credential := offered(current, nil, nil, at)
	credential.Remark, credential.Warning = current.remark(secret.String(), onBastion(spec.Username), at), current.warning
	return &ssh.Bastion{Address: spec.Address, Port: int(spec.Port), User: spec.Username, Credential: credential, HostKeys: keys}, nil
}

// endpointOf is that of a bastion as status.bastion has it. Empty: there is none.
func endpointOf(b *ssh.Bastion) string {
	if b == nil {
		return ""
	}
	return (&v1alpha1.Bastion{Address: b.Address, Port: int32(b.Port)}).Endpoint()
}

// poolOf is the pool of an instance, nil where it has none. It fails where the pool does not exist: the pool says with what, and
// through what, its hosts are reached, and neither is replaced by something else. A user who may delete the pool could have
// the cluster-wide key used for hosts that it is not for.
func (c *Connector) poolOf(ctx context.Context, instance *v1alpha1.WindowsInstance) (*v1alpha1.WindowsNodePool, error) {
	ref := instance.Spec.PoolRef
	if ref == nil {
		return nil, nil //nolint:nilnil // no pool is an ordinary answer
	}
	pool, err := c.options.ReadPool(ctx, instance.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return nil, &CredentialsError{
			Secret: fmt.Sprintf("of pool %s/%s", instance.Namespace, ref.Name),
			Err:    errors.New("the pool does not exist: create it, or remove spec.poolRef from the instance"),
		}
	}
	unread := !notWanted(ctx) && c.readings.unread("pool "+instance.Namespace+"/"+ref.Name, err, c.now())
	if err != nil {
		return nil, &CredentialsError{Secret: fmt.Sprintf("of pool %s/%s", instance.Namespace, ref.Name), Unread: unread, Err: fmt.Errorf("reading the pool: %w", err)}
	}
	return pool, nil
}
