// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// Keys of a Secret with credentials. The first is that of the Windows Machine
// Config Operator, whose Secret cloud-private-key can be used unchanged: it leaves the others alone.
const (
	keyPrivateKey = "private-key.pem"
	keyPassphrase = "passphrase"
	keyPassword   = "password"
	// furtherPrefix and furtherSuffix are around the names of further private keys.
	furtherPrefix, furtherSuffix = "private-key-", ".pem"
	// certificateSuffix follows the key of the Secret with a private key, as ssh-keygen names the certificate of a file.
	certificateSuffix = "-cert.pub"
)

// maxOffered bounds how many keys and certificates a host is offered: OpenSSH hangs up after six that it does not accept.
const maxOffered = 5

// maxInSecret is how many of them a Secret has at most, so that a host is also offered one that the Secret had before.
const maxInSecret = maxOffered - 1

// credentials are what the data of a Secret has to log in with.
type credentials struct {
	// id names the content.
	id string
	// identities are its keys, that of private-key.pem first, then further ones by name. None: there is a password.
	identities []identity
	password   string
	// warning says which of them are compromised, in sentences. Empty: none that is known.
	warning string
}

// identity is a private key.
type identity struct {
	// of is the id of the credentials that it belongs to.
	of string
	// file is the key of the Secret that has it.
	file   string
	signer ssh.Signer
	// certificate is that of the key. Nil: it has none.
	certificate *ssh.Certificate
	// encrypted: the key in the Secret needs a passphrase.
	encrypted bool
	// compromised: somebody else may have the key.
	compromised bool
}

// key is its public key.
func (i identity) key() Key { return KeyOf(i.signer.PublicKey()) }

// fingerprint is that of its public key.
func (i identity) fingerprint() string { return i.key().Fingerprint() }

// signers log in with it at a time: with its certificate, as long as that is valid, and with the key itself.
func (i identity) signers(at time.Time) []ssh.Signer {
	if i.certified(at) {
		return []ssh.Signer{i.certificate.Signer(), i.signer}
	}
	return []ssh.Signer{i.signer}
}

// certified says whether it has a certificate that is valid at a time.
func (i identity) certified(at time.Time) bool {
	return i.certificate != nil && i.certificate.Begun(at) && !i.certificate.Expired(at)
}

// remark is what people should know of its certificate, where that is not accepted for an account: a sentence. Empty: nothing.
func (i identity) remark(secret string, of account, at time.Time) string {
	if i.certificate == nil {
		return ""
	}
	file := i.file + certificateSuffix
	sign := fmt.Sprintf("sign the key again and write %s into the Secret: %s", file, of.sign(i.file))
	switch {
	case i.certificate.Expired(at):
		return fmt.Sprintf("The certificate %s of Secret %s expired at %s, so it is not used: %s", file, secret, i.certificate.Before().Format(time.RFC3339), sign)
	case !i.certificate.Begun(at):
		return fmt.Sprintf("The certificate %s of Secret %s is not valid before %s, so it is not used: check the clock of the machine that signed it, or %s", file, secret, i.certificate.After().Format(time.RFC3339), sign)
	case !of.isOf(i.certificate.Principals()):
		return fmt.Sprintf("The certificate %s of Secret %s does not have the principal %s, which user %s is for sshd (ssh-keygen -L -f %s): %s; or name one of its principals in AuthorizedPrincipalsFile of the server",
			file, secret, of.principal, of.user, file, sign)
	}
	return ""
}

// own returns the identity with a fingerprint.
func (c credentials) own(fingerprint string) (identity, bool) {
	i := slices.IndexFunc(c.identities, func(i identity) bool { return i.fingerprint() == fingerprint })
	if i < 0 {
		return identity{}, false
	}
	return c.identities[i], true
}

// wanted is the identity that a host is to accept which accepts the key with a fingerprint: that one, if it is one of the
// Secret that is not compromised, else the first such one. ok is false where there is none.
func (c credentials) wanted(accepted string) (i identity, ok bool) {
	c = c.sound()
	if i, ok := c.own(accepted); ok {
		return i, true
	}
	if len(c.identities) == 0 {
		return identity{}, false
	}
	return c.identities[0], true
}

// remark is what people should know of compromised keys, and of certificates that are not accepted for an account. Empty: nothing.
func (c credentials) remark(secret string, of account, at time.Time) string {
	var remarks []string
	if c.warning != "" {
		remarks = append(remarks, c.warning)
	}
	for _, i := range c.identities {
		if remark := i.remark(secret, of, at); remark != "" {
			remarks = append(remarks, remark+".")
		}
	}
	return strings.Join(remarks, " ")
}

// describeCertificate is the certificate of the key with a fingerprint, for people.
func (c credentials) describeCertificate(fingerprint string) string {
	i, ok := c.own(fingerprint)
	switch {
	case !ok || i.certificate == nil: // it is that of a key that the Secret had
		return "a certificate of key " + fingerprint
	case i.certificate.Before().IsZero():
		return fmt.Sprintf("a certificate of key %s, which does not expire", fingerprint)
	}
	return fmt.Sprintf("a certificate of key %s, which is valid until %s", fingerprint, i.certificate.Before().Format(time.RFC3339))
}

// expires is when the first of their certificates expires, of those of the keys with fingerprints that are needed; nil: all are. Zero: none does.
func (c credentials) expires(needed func(fingerprint string) bool) time.Time {
	var first time.Time
	for _, i := range c.identities {
		if i.certificate == nil || needed != nil && !needed(i.fingerprint()) {
			continue
		}
		if before := i.certificate.Before(); first.IsZero() || !before.IsZero() && before.Before(first) {
			first = before
		}
	}
	return first
}

// without are the credentials without those of its keys that others have.
func (c credentials) without(others credentials) credentials {
	c.identities = slices.DeleteFunc(slices.Clone(c.identities), func(i identity) bool {
		_, found := others.own(i.fingerprint())
		return found
	})
	return c
}

// privateKeys are the keys of a Secret with private keys, in their order.
func privateKeys(data map[string][]byte) []string {
	var further []string
	for name, value := range data {
		if len(value) > 0 && isFurtherKey(name) {
			further = append(further, name)
		}
	}
	slices.Sort(further)
	if len(data[keyPrivateKey]) > 0 {
		return append([]string{keyPrivateKey}, further...)
	}
	return further
}

// isFurtherKey says whether a key of a Secret is the name of a further private key.
func isFurtherKey(name string) bool {
	return len(name) > len(furtherPrefix)+len(furtherSuffix) && strings.HasPrefix(name, furtherPrefix) && strings.HasSuffix(name, furtherSuffix)
}

// isCertificate says whether a key of a Secret is the name of the certificate of a private key, and of which.
func isCertificate(name string) (of string, ok bool) {
	of, ok = strings.CutSuffix(name, certificateSuffix)
	return of, ok && (of == keyPrivateKey || isFurtherKey(of))
}

// parseCredentials reads the data of a Secret.
func parseCredentials(data map[string][]byte) (credentials, error) {
	c := credentials{id: digest(data), password: string(data[keyPassword])}
	files := privateKeys(data)
	if len(files) == 0 && c.password == "" {
		return credentials{}, fmt.Errorf("has neither the key %s nor the key %s", keyPrivateKey, keyPassword)
	}
	offered := len(files)
	for _, name := range relevantKeys(data) {
		if of, ok := isCertificate(name); ok {
			if len(data[of]) == 0 {
				return credentials{}, fmt.Errorf("has the key %s and no key %s, which is that of the certificate", name, of)
			}
			offered++
		}
	}
	switch {
	case offered > maxInSecret:
		return credentials{}, fmt.Errorf("has %d private keys and certificates, and hosts are offered at most %d, as OpenSSH hangs up after six: remove the keys %sNAME%s that no host needs",
			offered, maxInSecret, furtherPrefix, furtherSuffix)
	case len(files) > 0 && files[0] != keyPrivateKey:
		return credentials{}, fmt.Errorf("has the key %s and no key %s, which is the one that hosts are to accept", files[0], keyPrivateKey)
	}
	for _, file := range files {
		i, err := parseIdentity(data, c.id, file)
		if err != nil {
			return credentials{}, err
		}
		if _, twice := c.own(i.fingerprint()); twice {
			continue
		}
		c.identities = append(c.identities, i)
	}
	return c, nil
}

// parseIdentity reads one private key of a Secret, with its certificate.
func parseIdentity(data map[string][]byte, id, file string) (identity, error) {
	signer, err := ssh.ParsePrivateKey(data[file], data[keyPassphrase])
	if err != nil {
		return identity{}, fmt.Errorf("key %s: %w", file, err)
	}
	i := identity{of: id, file: file, signer: signer, encrypted: encrypted(data[file])}
	if text := data[file+certificateSuffix]; len(text) > 0 {
		if i.certificate, err = ssh.ParseCertificate(text, signer); err != nil {
			return identity{}, fmt.Errorf("key %s%s: %w", file, certificateSuffix, err)
		}
	}
	return i, nil
}

// PublicKey returns the public key of the credentials in the data of a Secret: what new hosts must have
// authorized to be logged in to with them. Further keys and certificates are not read.
func PublicKey(data map[string][]byte) (Key, error) {
	switch {
	case len(data[keyPrivateKey]) > 0:
	case len(data[keyPassword]) > 0:
		return Key{}, fmt.Errorf("has no key %s", keyPrivateKey)
	default:
		return Key{}, fmt.Errorf("has neither the key %s nor the key %s", keyPrivateKey, keyPassword)
	}
	signer, err := ssh.ParsePrivateKey(data[keyPrivateKey], data[keyPassphrase])
	if err != nil {
		return Key{}, fmt.Errorf("key %s: %w", keyPrivateKey, err)
	}
	return KeyOf(signer.PublicKey()), nil
}

// relevantKeys are the keys of a Secret that credentials are read from and that are not empty, in the order of their names.
func relevantKeys(data map[string][]byte) []string {
	var names []string
	for name, value := range data {
		_, certificate := isCertificate(name)
		if len(value) > 0 && (certificate || isFurtherKey(name) || slices.Contains([]string{keyPrivateKey, keyPassphrase, keyPassword}, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// digest names the content of a Secret, so that connections made with an old
// content are not used with a new one.
func digest(data map[string][]byte) string {
	h := sha256.New()
	for _, name := range relevantKeys(data) {
		// The length before each part keeps parts from running into each other.
		fmt.Fprintf(h, "%d:%s%d:", len(name), name, len(data[name]))
		h.Write(data[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
