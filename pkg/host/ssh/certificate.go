// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"
)

// ErrCertificate means that the input is no certificate with which a private key can log in. It can be found with errors.Is.
var ErrCertificate = errors.New("not a usable user certificate")

// maxCertificate bounds a certificate: one of OpenSSH's largest RSA keys, signed by such a key, takes half of it.
const maxCertificate = 16 << 10

// forceCommand is the option of a certificate that has another command run than the requested one. The name is from
// OpenSSH's PROTOCOL.certkeys.
const forceCommand = "force-command"

// Certificate is a user certificate of OpenSSH: hosts that trust the authority which has signed it accept its key without
// having it in a file.
type Certificate struct {
	signed *ssh.Certificate
	signer ssh.Signer
}

// ParseCertificate reads the user certificate of a private key, in the form of the file -cert.pub of ssh-keygen. Whether it is
// valid now is not checked, nor who has signed it, which hosts decide. Errors are [ErrCertificate]s, say what to do, and
// contain nothing of the input.
func ParseCertificate(text []byte, of Signer) (*Certificate, error) {
	if len(text) > maxCertificate {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrCertificate, maxCertificate)
	}
	key, _, _, rest, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		// The cause is left out: it may quote the input.
		return nil, fmt.Errorf("%w: it has no line with a certificate, as ssh-keygen -s writes it to the file -cert.pub", ErrCertificate)
	}
	signed, ok := key.(*ssh.Certificate)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: it is a public key; the certificate is in the file -cert.pub, which ssh-keygen -s writes", ErrCertificate)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, fmt.Errorf("%w: it has more than one line", ErrCertificate)
	case signed.CertType != ssh.UserCert:
		return nil, fmt.Errorf("%w: it is the certificate of a host; sign the key again, without -h", ErrCertificate)
	case !bytes.Equal(signed.Key.Marshal(), of.PublicKey().Marshal()):
		return nil, fmt.Errorf("%w: it is that of key %s, while the private key is %s; sign that one, or remove the certificate",
			ErrCertificate, Fingerprint(signed.Key), Fingerprint(of.PublicKey()))
	}
	if _, forced := signed.CriticalOptions[forceCommand]; forced {
		return nil, fmt.Errorf("%w: it has the option %s, with which nothing else can be run; sign the key again, without it", ErrCertificate, forceCommand)
	}
	signer, err := ssh.NewCertSigner(signed, withoutSHA1(of))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	return &Certificate{signed, signer}, nil
}

// Signer logs in with the certificate.
func (c *Certificate) Signer() Signer { return c.signer }

// Begun says whether the certificate is valid already at a time.
func (c *Certificate) Begun(at time.Time) bool { return seconds(at) >= c.signed.ValidAfter }

// Expired says whether the certificate is not valid any more at a time.
func (c *Certificate) Expired(at time.Time) bool {
	return c.signed.ValidBefore != ssh.CertTimeInfinity && seconds(at) >= c.signed.ValidBefore
}

// After is from when on the certificate is valid.
func (c *Certificate) After() time.Time { return timeOf(c.signed.ValidAfter) }

// Before is until when the certificate is valid; the zero time: it does not expire.
func (c *Certificate) Before() time.Time {
	if c.signed.ValidBefore == ssh.CertTimeInfinity {
		return time.Time{}
	}
	return timeOf(c.signed.ValidBefore)
}

// Principals are the names of the users that the certificate is for. None: sshd takes it for nobody. Servers may be configured to
// take other names for those of their users.
func (c *Certificate) Principals() []string { return c.signed.ValidPrincipals }

// seconds is a time as certificates have it.
func seconds(at time.Time) uint64 { return uint64(max(at.Unix(), 0)) }

// timeOf is the time that a certificate has, which may be any number.
func timeOf(seconds uint64) time.Time {
	const last = 253402300799 // the end of the year 9999, after which times have no usual form
	return time.Unix(int64(min(seconds, last)), 0).UTC()
}

// plainKey is the key of a certificate, and of a key the key.
func plainKey(k ssh.PublicKey) ssh.PublicKey {
	if c, ok := k.(*ssh.Certificate); ok {
		return c.Key
	}
	return k
}
