// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package servingcert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// period is how old a certificate gets. It is also how long before it was made it begins to be
	// valid, so that a clock which is wrong by less than that makes and accepts the same
	// certificates as others. It ends ten years after it was made.
	period = 2 * 365 * 24 * time.Hour
	// overlap is how long the certificate before is trusted after it was replaced: until all
	// replicas have the new one.
	overlap = time.Hour
)

// content is a certificate with its key, and what it is verified with.
type content struct {
	cert, key []byte
	// bundle is empty if others have to know it.
	bundle []byte
}

func contentOf(data map[string][]byte) *content {
	return &content{cert: data[corev1.TLSCertKey], key: data[corev1.TLSPrivateKeyKey], bundle: data[corev1.ServiceAccountRootCAKey]}
}

func (c *content) data() map[string][]byte {
	return map[string][]byte{corev1.TLSCertKey: c.cert, corev1.TLSPrivateKeyKey: c.key, corev1.ServiceAccountRootCAKey: c.bundle}
}

// check says whether the key is that of the certificate.
func (c *content) check() error {
	_, err := tls.X509KeyPair(c.cert, c.key)
	return err
}

// generate makes a certificate that signs itself, so that no key of an authority is left that could make
// others. previous is trusted beside it.
func generate(dnsName string, now time.Time, previous []byte) (*content, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: dnsName, NotBefore: now.Add(-period)}, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	pem, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return nil, fmt.Errorf("encoding the certificate: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	return &content{cert: pem, key: keyPEM, bundle: append(bytes.Clone(pem), previous...)}, nil
}

// renew returns what a certificate of ours has to be replaced with; itself if it is good. served is what
// this process serves, or nil.
func renew(c *content, dnsName string, now time.Time, served []byte) (*content, error) {
	certificate, err := c.parse()
	switch {
	case err != nil: // it is damaged
		return generate(dnsName, now, served)
	case certificate.VerifyHostname(dnsName) != nil || now.Before(certificate.NotBefore) || age(certificate, now) > period:
		return generate(dnsName, now, c.cert)
	case !bytes.Equal(c.bundle, c.cert) && age(certificate, now) > overlap:
		return &content{cert: c.cert, key: c.key, bundle: c.cert}, nil
	}
	return c, nil
}

// parse returns the certificate, if it has its key and is trusted.
func (c *content) parse() (*x509.Certificate, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(c.bundle, c.cert) {
		return nil, errors.New("the certificate is not trusted")
	}
	certificates, err := cert.ParseCertsPEM(c.cert)
	if err != nil {
		return nil, err
	}
	return certificates[0], nil
}

// age is the time since a certificate was made.
func age(certificate *x509.Certificate, now time.Time) time.Duration {
	return now.Sub(certificate.NotBefore.Add(period))
}
