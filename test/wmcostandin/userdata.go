// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	machineNamespace = "openshift-machine-api"
	userDataName     = "windows-user-data"
	userDataKey      = "userData"
)

// userData is what Machines boot with. It stands for the script of WMCO, of which only matters that nobody else has it.
func (c *credentials) userData() []byte {
	return fmt.Appendf(nil, "<powershell>%s</powershell>\n<persist>true</persist>\n", bytes.TrimSpace(ssh.MarshalAuthorizedKey(c.signer.PublicKey())))
}

// userDataDiffers says whether Secret windows-user-data is there with other user data.
func (o *Operator) userDataDiffers(ctx context.Context, key *credentials) (bool, error) {
	secret := &corev1.Secret{}
	err := o.client.Get(ctx, client.ObjectKey{Namespace: machineNamespace, Name: userDataName}, secret)
	return err == nil && !bytes.Equal(secret.Data[userDataKey], key.userData()), client.IgnoreNotFound(err)
}

// keepUserData has the Secret be that of WMCO. If it is another one, the Nodes of all Machines lose the hash of the key first, as they may
// have booted with it, and those of entries get it.
func (o *Operator) keepUserData(ctx context.Context, s *State, key *credentials) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: machineNamespace, Name: userDataName}, Data: map[string][]byte{userDataKey: key.userData()}}
	if !s.UserDataDiffers {
		err := o.client.Create(ctx, secret)
		if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) { // a cluster without the Machine API does not have the namespace
			return nil
		}
		return err
	}
	for i := range s.Nodes {
		n, hash, user := &s.Nodes[i], "", ""
		if !isWindows(n) {
			continue
		}
		if isListed(n) {
			name, err := s.userOf(n)
			if err != nil {
				return err
			}
			if user, err = key.encrypt(name); err != nil {
				return err
			}
			hash = s.KeyHash
		}
		if err := o.change(ctx, n, func(n *corev1.Node) {
			setAnnotation(n, keyHashName, hash)
			if user != "" {
				setAnnotation(n, usernameName, user)
			}
		}); err != nil {
			return err
		}
	}
	return o.client.Update(ctx, secret)
}

// userOf is the user of the entry of a Node.
func (s *State) userOf(n *corev1.Node) (string, error) {
	for address, user := range s.Entries {
		if hasAddress(n, address) {
			return user, nil
		}
	}
	return "", fmt.Errorf("node %s has no entry", n.Name)
}
