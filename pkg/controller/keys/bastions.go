// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/windows-instance-api/pkg/host"
)

// bastionsIn are the Secrets of a namespace with which bastions are logged in to, of hosts that were logged in to.
func (u usage) bastionsIn(namespace string) []string {
	secrets := sets.New[string]()
	for _, instances := range u.instances {
		for _, i := range instances {
			if i.Namespace != namespace || i.Status.Credentials == nil {
				continue
			}
			if bastion := i.BastionWith(u.poolOf(i)); bastion != nil {
				secrets.Insert(bastion.CredentialsSecretRef.Name)
			}
		}
	}
	return sets.List(secrets)
}

// measureBastions sets the metric of certificates for the Secrets of bastions in a namespace, and says whether there are any. Nobody gives a
// bastion another key, and it is not known which one it accepts, so that all count that are not compromised.
func (r *Reconciler) measureBastions(ctx context.Context, namespace string, u usage) (some bool, err error) {
	secrets := u.bastionsIn(namespace)
	var errs []error
	for _, name := range secrets {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		secret, err := r.readSecret(ctx, key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var expires time.Time
		if secret != nil {
			// Without credentials that can be used nothing expires, and the condition Authenticated of the hosts says so.
			all, _ := r.credentials.Keep(secret.Data)
			expires = r.expiryOf(secret, fingerprintsOf(soundOf(all, host.CompromisedKeys(secret.Annotations))))
		}
		r.setExpiry(key, expires)
	}
	for _, name := range r.bastions[namespace] {
		if !slices.Contains(secrets, name) && !slices.Contains(r.measured[namespace], name) {
			r.setExpiry(types.NamespacedName{Namespace: namespace, Name: name}, time.Time{})
		}
	}
	if r.bastions[namespace] = secrets; len(secrets) == 0 {
		delete(r.bastions, namespace)
	}
	return len(secrets) > 0, errors.Join(errs...)
}
