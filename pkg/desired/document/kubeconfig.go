// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// ErrNoToken, ErrNoCertificate and ErrNoCA mean that a part of credentials is missing.
var (
	ErrNoToken       = errors.New("there is no " + corev1.ServiceAccountTokenKey)
	ErrNoCertificate = errors.New("there is no certificate with its key")
	ErrNoCA          = errors.New("there is no " + corev1.ServiceAccountRootCAKey)
)

// TokenCredentials are those of a service account.
type TokenCredentials struct {
	// CA has the certificates that the API server is verified with, in PEM.
	CA []byte
	// Token is the bearer token.
	Token string
}

// Format implements [fmt.Formatter] without printing the credentials.
func (TokenCredentials) Format(state fmt.State, _ rune) { _, _ = fmt.Fprint(state, "[token]") }

// TokenCredentialsOf reads a Secret of a service account.
func TokenCredentialsOf(data map[string][]byte) (TokenCredentials, error) {
	c := TokenCredentials{CA: data[corev1.ServiceAccountRootCAKey], Token: string(data[corev1.ServiceAccountTokenKey])}
	return c, c.validate()
}

func (c TokenCredentials) validate() error {
	var errs []error
	if len(c.CA) == 0 {
		errs = append(errs, ErrNoCA)
	}
	if c.Token == "" {
		errs = append(errs, ErrNoToken)
	}
	return errors.Join(errs...)
}

// Kubeconfig returns a kubeconfig in JSON, with which user calls the API server. It is a secret.
func (c TokenCredentials) Kubeconfig(server, user string) ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return kubeconfig(clientcmdv1.Cluster{Server: server, CertificateAuthorityData: c.CA}, user, clientcmdv1.AuthInfo{Token: c.Token})
}

// CertificateCredentials are a client certificate.
type CertificateCredentials struct {
	// CAFile is the path of the file of the host with the certificates that the API server is verified with.
	CAFile string
	// Certificate and Key are the client certificate and its private key, in PEM.
	Certificate, Key []byte
}

// Format implements [fmt.Formatter] without printing the credentials.
func (CertificateCredentials) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprint(state, "[certificate]")
}

// Kubeconfig returns a kubeconfig in JSON, with which user calls the API server. It is a secret.
func (c CertificateCredentials) Kubeconfig(server, user string) ([]byte, error) {
	switch {
	case c.CAFile == "":
		return nil, ErrNoCA
	case len(c.Certificate) == 0 || len(c.Key) == 0:
		return nil, ErrNoCertificate
	}
	return kubeconfig(clientcmdv1.Cluster{Server: server, CertificateAuthority: c.CAFile}, user,
		clientcmdv1.AuthInfo{ClientCertificateData: c.Certificate, ClientKeyData: c.Key})
}

func kubeconfig(server clientcmdv1.Cluster, user string, credentials clientcmdv1.AuthInfo) ([]byte, error) {
	const cluster = "local"
	encoded, err := json.Marshal(clientcmdv1.Config{
		Clusters:       []clientcmdv1.NamedCluster{{Name: cluster, Cluster: server}},
		AuthInfos:      []clientcmdv1.NamedAuthInfo{{Name: user, AuthInfo: credentials}},
		Contexts:       []clientcmdv1.NamedContext{{Name: user, Context: clientcmdv1.Context{Cluster: cluster, AuthInfo: user}}},
		CurrentContext: user,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig: %w", err)
	}
	return encoded, nil
}
