// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// DefaultPort is the SSH port, used when Target.Port is zero.
const DefaultPort = 22

// Credential is what a user proves its identity with.
type Credential struct {
	// ID identifies the content of the secret that the credential was read from, for
	// example a hash or a resource version. Connections are shared by targets with equal IDs, so
	// it must change when the secret does. Empty means: derived from the public
	// keys and the password. It is not secret.
	ID string
	// Signers are tried in order. Several may be given while keys are rotated; servers
	// count each refused key, and OpenSSH hangs up after six (MaxAuthTries).
	Signers []ssh.Signer
	// Password is tried after the signers, as "password" or, where the server has only
	// that, "keyboard-interactive". Empty means none.
	Password string
}

// Target is a host and how to log in to it.
type Target struct {
	// Address is a DNS name or an IP address. An IPv6 address may have brackets and a zone.
	Address string
	// Port is the TCP port; zero means DefaultPort.
	Port int
	// User is the login name.
	User string
	// Credential proves it.
	Credential Credential
	// HostKeys are the pinned public keys, any of which the host may present. Empty means
	// that the handshake stops right after the key exchange, before authentication,
	// with ReasonHostKeyUnknown and the presented key. There is no other trust path.
	HostKeys []ssh.PublicKey
}

// host is Address without the brackets that URLs put around IPv6 addresses.
func (t Target) host() string {
	if h, ok := strings.CutPrefix(t.Address, "["); ok {
		return strings.TrimSuffix(h, "]")
	}
	return t.Address
}

func (t Target) port() int {
	if t.Port == 0 {
		return DefaultPort
	}
	return t.Port
}

// hostPort is how the target appears in errors.
func (t Target) hostPort() string {
	return net.JoinHostPort(t.host(), strconv.Itoa(t.port()))
}

// Endpoint is the address and the port, which identify the host whoever logs in to it.
func (t Target) Endpoint() string { return t.hostPort() }

// key tells whether two targets may share a connection. All of it is compared: a
// connection that was verified against one set of host keys must not serve
// somebody who pinned another.
type key struct {
	host       string
	port       int
	user       string
	credential string
	hostKeys   string
}

func (t Target) key() key {
	return key{
		host:       strings.ToLower(t.host()),
		port:       t.port(),
		user:       t.User,
		credential: t.Credential.key(),
		hostKeys:   hostKeysDigest(t.HostKeys),
	}
}

// derivedIDSalt keeps the digests of passwords in derived IDs useless outside of this process.
var derivedIDSalt = func() []byte {
	salt := make([]byte, sha256.Size)
	// It never fails: crypto/rand ends the program if there is no entropy.
	_, _ = rand.Read(salt)
	return salt
}()

func (c Credential) key() string {
	if c.ID != "" {
		return "id:" + c.ID
	}
	mac := hmac.New(sha256.New, derivedIDSalt)
	for _, s := range c.Signers {
		writeField(mac.Write, s.PublicKey().Marshal())
	}
	writeField(mac.Write, []byte(c.Password))
	return "derived:" + string(mac.Sum(nil))
}

// hostKeysDigest does not depend on the order of the keys.
func hostKeysDigest(keys []ssh.PublicKey) string {
	if len(keys) == 0 {
		return ""
	}
	blobs := make([][]byte, len(keys))
	for i, k := range keys {
		blobs[i] = k.Marshal()
	}
	slices.SortFunc(blobs, bytes.Compare)
	blobs = slices.CompactFunc(blobs, bytes.Equal)
	h := sha256.New()
	for _, b := range blobs {
		writeField(h.Write, b)
	}
	return string(h.Sum(nil))
}

// writeField writes b with its length, so that fields cannot run into each other.
func writeField(write func([]byte) (int, error), b []byte) {
	_, _ = write([]byte(strconv.Itoa(len(b)) + ":")) // a hash never fails
	_, _ = write(b)
}
