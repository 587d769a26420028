// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
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
	// Remark is what people should know when a server accepts none of it, in sentences: for example that a
	// certificate is not tried because it has expired. Empty: nothing.
	Remark string
	// Warning is the part of Remark that people should know also when a server accepts a certificate of it. Empty: nothing.
	Warning string
	// IfRefused is what people should know besides Remark, and only when a server accepts none of it, in sentences. Empty: nothing.
	IfRefused string
}

// remarkIfRefused is what people should know when a server accepts none of it.
func (c Credential) remarkIfRefused() string {
	return strings.TrimSpace(c.Remark + " " + c.IfRefused)
}

// Target is a host and how to log in to it.
type Target struct {
	// Owner is for whom the host is contacted. Owners share no connection, also when they mean the
	// same host and log in to it in the same way: what one of them ends is its own.
	Owner string
	// Namespace is that of the owner. Its connections are counted together: one namespace gets three
	// quarters of Options.MaxConns at most, if these are four or more.
	Namespace string
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
	// Bastion is what the host is reached through. Nil: directly. Address is resolved here in either case.
	Bastion *Bastion
}

// host is Address without the brackets that URLs put around IPv6 addresses.
func (t Target) host() string {
	if h, ok := strings.CutPrefix(t.Address, "["); ok {
		return strings.TrimSuffix(h, "]")
	}
	return t.Address
}

func (t Target) port() int { return cmp.Or(t.Port, DefaultPort) }

// Endpoint is the address and the port, as the target appears in errors.
func (t Target) Endpoint() string {
	return net.JoinHostPort(t.host(), strconv.Itoa(t.port()))
}

// Identity differs between targets that must not share what was found out about the host: it is
// that of all fields.
func (t Target) Identity() string {
	k := t.key()
	sum := digest([][]byte{[]byte(k.owner), []byte(k.namespace), []byte(k.host), []byte(strconv.Itoa(k.port)), []byte(k.user), k.credential[:], k.hostKeys[:], k.bastion[:]})
	return string(sum[:])
}

// key says whether two targets may share a connection. All of it is compared: a
// connection that was verified against one set of host keys must not serve
// a target that pinned another.
type key struct {
	owner, namespace string
	host             string
	port             int
	user             string
	// credential, hostKeys and bastion are digests.
	credential, hostKeys, bastion [sha256.Size]byte
}

func (t Target) key() key {
	credential := [][]byte{[]byte(t.Credential.ID)}
	if t.Credential.ID == "" {
		credential = append(credential, []byte(t.Credential.Password))
		for _, s := range t.Credential.Signers {
			credential = append(credential, s.PublicKey().Marshal())
		}
	}
	hostKeys := make([][]byte, len(t.HostKeys))
	for i, k := range t.HostKeys {
		hostKeys[i] = k.Marshal()
	}
	slices.SortFunc(hostKeys, bytes.Compare)
	return key{
		owner:      t.Owner,
		namespace:  t.Namespace,
		host:       strings.ToLower(t.host()),
		port:       t.port(),
		user:       t.User,
		credential: digest(credential),
		hostKeys:   digest(slices.CompactFunc(hostKeys, bytes.Equal)),
		bastion:    t.Bastion.digest(),
	}
}

// digest hashes each part with its length, so that parts cannot run into each other.
func digest(parts [][]byte) [sha256.Size]byte {
	var b []byte
	for _, part := range parts {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
	}
	return sha256.Sum256(b)
}
