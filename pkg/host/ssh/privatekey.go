// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// Signer is a private key that is used and never shown.
type Signer = ssh.Signer

// Errors of ParsePrivateKey, to be found with errors.Is.
var (
	// ErrPassphraseMissing means that the key is encrypted and no passphrase was given.
	ErrPassphraseMissing = errors.New("the private key is encrypted and no passphrase was given")
	// ErrPassphraseWrong means that the passphrase does not decrypt the key.
	ErrPassphraseWrong = errors.New("the passphrase does not decrypt the private key")
	// ErrWeakKey means that the key is too weak to be used.
	ErrWeakKey = errors.New("the private key is too weak")
	// ErrKeyFormat means that the input is not a private key in a supported format.
	ErrKeyFormat = errors.New("not a private key in OpenSSH or PEM format")
)

// minRSABits is the least that NIST SP 800-131A and OpenSSH's RequiredRSASize of
// current distributions accept.
const minRSABits = 2048

// ParsePrivateKey reads a private key in OpenSSH, PKCS#1, PKCS#8 or SEC 1 format:
// Ed25519, ECDSA, or RSA of at least 2048 bits. The passphrase is only
// used if the key is encrypted. Errors say what to do about them and contain
// nothing of the input.
func ParsePrivateKey(pem, passphrase []byte) (ssh.Signer, error) {
	if err := checkKeyFormat(pem); err != nil {
		return nil, err
	}
	if err := checkKeySize(pem, passphrase); err != nil {
		return nil, err
	}
	raw, err := ssh.ParseRawPrivateKey(pem)
	if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		if len(passphrase) == 0 {
			return nil, ErrPassphraseMissing
		}
		raw, err = ssh.ParseRawPrivateKeyWithPassphrase(pem, passphrase)
		if errors.Is(err, x509.IncorrectPasswordError) {
			return nil, ErrPassphraseWrong
		}
	}
	if err != nil {
		// The cause is left out: the errors of ASN.1 parsers may quote the input.
		return nil, fmt.Errorf("%w: it cannot be decoded", ErrKeyFormat)
	}
	if k, ok := raw.(*rsa.PrivateKey); ok && k.N.BitLen() < minRSABits {
		return nil, fmt.Errorf("%w: RSA with %d bits, at least %d are needed", ErrWeakKey, k.N.BitLen(), minRSABits)
	}
	signer, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: unsupported type of key", ErrKeyFormat)
	}
	if signer.PublicKey().Type() == ssh.InsecureKeyAlgoDSA { //nolint:staticcheck // it is deprecated for the reason that it is refused
		return nil, fmt.Errorf("%w: DSA", ErrWeakKey)
	}
	return withoutSHA1(signer), nil
}

// checkKeyFormat recognizes what people most often paste in place of a private key.
func checkKeyFormat(pem []byte) error {
	trimmed := bytes.TrimSpace(pem)
	switch {
	case len(trimmed) == 0:
		return fmt.Errorf("%w: it is empty", ErrKeyFormat)
	case bytes.HasPrefix(trimmed, []byte("PuTTY-User-Key-File-")):
		return fmt.Errorf("%w: it is a PuTTY key; export it with puttygen <file> -O private-openssh-new", ErrKeyFormat)
	case bytes.Contains(trimmed, []byte("BEGIN ENCRYPTED PRIVATE KEY")):
		return fmt.Errorf("%w: it is encrypted PKCS#8; convert it with ssh-keygen -p -f <file>", ErrKeyFormat)
	case bytes.Contains(trimmed, []byte("BEGIN SSH2 PUBLIC KEY")), bytes.Contains(trimmed, []byte("BEGIN PUBLIC KEY")), isAuthorizedKey(trimmed):
		return fmt.Errorf("%w: it is a public key", ErrKeyFormat)
	case !bytes.Contains(trimmed, []byte("-----BEGIN ")):
		return fmt.Errorf("%w: the line -----BEGIN … PRIVATE KEY----- is missing", ErrKeyFormat)
	}
	return nil
}

func isAuthorizedKey(b []byte) bool {
	_, _, _, _, err := ssh.ParseAuthorizedKey(b)
	return err == nil
}

// rsaAlgorithms are the signature algorithms used with RSA keys, ours and those of
// hosts. ssh-rsa is missing: it signs a SHA-1 digest.
var rsaAlgorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}

// withoutSHA1 keeps an RSA signer from falling back to ssh-rsa when a server does
// not say what it supports.
func withoutSHA1(s ssh.Signer) ssh.Signer {
	as, ok := s.(ssh.AlgorithmSigner)
	if !ok || s.PublicKey().Type() != ssh.KeyAlgoRSA {
		return s
	}
	restricted, err := ssh.NewSignerWithAlgorithms(as, rsaAlgorithms)
	if err != nil {
		// The caller restricted it already, to other algorithms: that is its choice.
		return s
	}
	return restricted
}

// Fingerprint is the SHA-256 fingerprint of a key as OpenSSH prints it: SHA256:<base64>. That of a certificate is
// that of its key.
func Fingerprint(k ssh.PublicKey) string {
	return ssh.FingerprintSHA256(plainKey(k))
}
