// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package token

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Annotations and labels of the Secrets, for people.
const (
	// instanceAnnotation has the namespace/name of the instance.
	instanceAnnotation = "windows.openshift.io/instance"
	managedByLabel     = "app.kubernetes.io/managed-by"
	managedBy          = "windows-controller"
)

// idAlphabet has the characters of the id of a token.
const idAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz"

// idOf returns the id of the token of the instance with that UID. It is no secret and no proof: it
// only has to differ from those of other hosts that join within the same hour.
func idOf(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	rest := binary.BigEndian.Uint64(sum[:])
	id := make([]byte, bootstrapapi.BootstrapTokenIDBytes)
	for i := range id {
		id[i] = idAlphabet[rest%uint64(len(idAlphabet))]
		rest /= uint64(len(idAlphabet))
	}
	return string(id)
}

// secretName is the name of the Secret of the token of the instance with that UID.
func secretName(uid types.UID) string { return bootstraputil.BootstrapTokenSecretName(idOf(uid)) }

// newSecret returns the Secret of a new token, as the authenticator of the API server
// wants it.
func newSecret(instance *v1alpha1.WindowsInstance, expiration time.Time) (*corev1.Secret, error) {
	random, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return nil, err
	}
	_, tokenSecret, _ := strings.Cut(random, ".")
	id, key := idOf(instance.UID), instance.Namespace+"/"+instance.Name
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   metav1.NamespaceSystem,
			Name:        secretName(instance.UID),
			Labels:      map[string]string{managedByLabel: managedBy},
			Annotations: map[string]string{instanceAnnotation: key},
		},
		Type: bootstrapapi.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey:               []byte(id),
			bootstrapapi.BootstrapTokenSecretKey:           []byte(tokenSecret),
			bootstrapapi.BootstrapTokenExpirationKey:       []byte(expiration.UTC().Format(time.RFC3339)),
			bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
			bootstrapapi.BootstrapTokenExtraGroupsKey:      []byte(Group + "," + GroupOf(instance)),
			bootstrapapi.BootstrapTokenDescriptionKey:      fmt.Appendf(nil, "By which the host of WindowsInstance %s joins the cluster.", key),
		},
	}, nil
}

// tokenOf returns what the bearer shows.
func tokenOf(secret *corev1.Secret) string {
	return bootstraputil.TokenFromIDAndSecret(string(secret.Data[bootstrapapi.BootstrapTokenIDKey]), string(secret.Data[bootstrapapi.BootstrapTokenSecretKey]))
}
