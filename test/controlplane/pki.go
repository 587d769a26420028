// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// certLifetime is that of every certificate. A control plane lives for minutes;
// a demo that is left running should not fall over in the night.
const certLifetime = 30 * 24 * time.Hour

// KeyPair names the PEM files of a certificate and its private key.
type KeyPair struct {
	CertFile string
	KeyFile  string
	// CAFile has the certificate of the authority that issued it.
	CAFile string
}

// authority is a certificate authority whose files are in a directory.
type authority struct {
	dir  string
	name string // of its files, without extension
	cert *x509.Certificate
	key  crypto.Signer
}

// leaf describes a certificate to issue.
type leaf struct {
	commonName    string
	organizations []string // Kubernetes reads them as the user's groups
	usage         x509.ExtKeyUsage
	hosts         []string // DNS names and IP addresses
}

// newAuthority creates a certificate authority and writes <name>.crt and
// <name>.key to dir.
func newAuthority(dir, name, commonName string) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("creating certificate authority %s: %w", commonName, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	cert, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("creating certificate authority %s: %w", commonName, err)
	}
	a := &authority{dir: dir, name: name, cert: cert, key: key}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	if err := writePair(a.certFile(), encodeCert(cert), a.keyFile(), keyPEM); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *authority) certFile() string { return filepath.Join(a.dir, a.name+".crt") }
func (a *authority) keyFile() string  { return filepath.Join(a.dir, a.name+".key") }

// bundle returns the authority's certificate as PEM.
func (a *authority) bundle() []byte { return encodeCert(a.cert) }

// issue returns a new certificate and its key as PEM.
func (a *authority) issue(l leaf) (certPEM, keyPEM []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, fmt.Errorf("issuing a certificate for %s: %w", l.commonName, err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: l.commonName, Organization: l.organizations},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{l.usage},
	}
	for _, host := range l.hosts {
		if addr, err := netip.ParseAddr(host); err == nil {
			template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("issuing a certificate for %s: %w", l.commonName, err)
	}
	keyPEM, err = encodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	return encodeCert(cert), keyPEM, nil
}

// issueFiles issues a certificate into <name>.crt and <name>.key.
func (a *authority) issueFiles(name string, l leaf) (KeyPair, error) {
	certPEM, keyPEM, err := a.issue(l)
	if err != nil {
		return KeyPair{}, err
	}
	pair := KeyPair{
		CertFile: filepath.Join(a.dir, name+".crt"),
		KeyFile:  filepath.Join(a.dir, name+".key"),
		CAFile:   a.certFile(),
	}
	return pair, writePair(pair.CertFile, certPEM, pair.KeyFile, keyPEM)
}

// writeServiceAccountKeys writes the key pair that signs and verifies
// ServiceAccount tokens.
func writeServiceAccountKeys(publicFile, privateFile string) error {
	key, err := newKey()
	if err != nil {
		return fmt.Errorf("creating the ServiceAccount key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the ServiceAccount key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	return writePair(publicFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), privateFile, private)
}

// newKey uses P-256, which is generated in microseconds where RSA takes a
// noticeable part of a start.
func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func sign(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template.SerialNumber = serial
	template.NotBefore = now.Add(-time.Hour) // hosts under test have clocks of their own
	template.NotAfter = now.Add(certLifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func writePair(publicFile string, public []byte, privateFile string, private []byte) error {
	if err := os.WriteFile(publicFile, public, 0o644); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	if err := os.WriteFile(privateFile, private, 0o600); err != nil {
		return fmt.Errorf("writing a private key: %w", err)
	}
	return nil
}
