// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Names of authentication methods (RFC 4252 and RFC 4256).
const (
	methodPublicKey           = "publickey"
	methodPassword            = "password"
	methodKeyboardInteractive = "keyboard-interactive"
)

// What a server says that it takes is as long as it likes: an empty name is one byte of a packet, and sixteen of our memory. There are a few
// methods with short names.
const (
	maxMethods    = 8
	maxMethodName = 64
)

// authenticator picks what to try next, so that the end of authentication is an error of
// ours with a type, and a connection that broke meanwhile is not taken for a refusal.
type authenticator struct {
	user       string
	credential Credential
	wire       *wire

	// attempted methods, in order; "none", which the protocol begins with, is not among them.
	attempted []string
	// accepted is the key that the server took, which may be a certificate: signing with one comes after the
	// server has said that it takes it. Nil: it took none.
	accepted ssh.PublicKey
}

// credentialsRefusedError is the server's no to everything that we have.
type credentialsRefusedError struct {
	user      string
	attempted []string // what was tried, keys with their fingerprints
	accepted  []string // some of the methods that the server takes, see someMethods
}

func (e *credentialsRefusedError) Error() string {
	tried := "no credential to try"
	if len(e.attempted) > 0 {
		tried = "tried " + strings.Join(e.attempted, ", ")
	}
	return fmt.Sprintf("user %q: %s; the server accepts %s", e.user, tried, strings.Join(e.accepted, ", "))
}

// next is an ssh.ClientAuthCallback.
func (a *authenticator) next(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	// The library continues with the next method after an I/O error of the last.
	if err := a.wire.err(); err != nil {
		return nil, err
	}
	untried := func(method string) bool {
		return slices.Contains(c.AllowedMethods, method) && !slices.Contains(c.TriedMethods, method)
	}
	switch {
	case untried(methodPublicKey) && len(a.credential.Signers) > 0:
		a.attempted = append(a.attempted, a.describeKeys())
		return ssh.PublicKeys(a.signers()...), nil
	case untried(methodPassword) && a.credential.Password != "":
		a.attempted = append(a.attempted, methodPassword)
		return ssh.Password(a.credential.Password), nil
	// Not after "password": a second failure with the same wrong password brings an account closer
	// to being locked and cannot succeed.
	case untried(methodKeyboardInteractive) && a.credential.Password != "" && !slices.Contains(c.TriedMethods, methodPassword):
		a.attempted = append(a.attempted, methodKeyboardInteractive)
		return ssh.KeyboardInteractive(a.answerOnce()), nil
	default:
		return nil, &credentialsRefusedError{user: a.user, attempted: a.attempted, accepted: someMethods(c.AllowedMethods)}
	}
}

// someMethods are the first of the methods that a server takes, in memory of their own.
func someMethods(methods []string) []string {
	some := make([]string, 0, maxMethods+1)
	for i, method := range methods {
		if i == maxMethods {
			return append(some, "…")
		}
		some = append(some, shortened(method, maxMethodName))
	}
	return some
}

// shortened is the beginning of a text of somebody else, in memory of its own: a part would keep all of it.
func shortened(text string, most int) string {
	if len(text) <= most {
		return strings.Clone(text)
	}
	const more = "…"
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}

func (a *authenticator) signers() []ssh.Signer {
	signers := make([]ssh.Signer, len(a.credential.Signers))
	for i, s := range a.credential.Signers {
		signers[i] = recordingSigner{withoutSHA1(s), func() { a.accepted = s.PublicKey() }}
	}
	return signers
}

// recordingSigner says that it is used.
type recordingSigner struct {
	ssh.Signer
	used func()
}

var _ ssh.MultiAlgorithmSigner = recordingSigner{}

// Algorithms implements [ssh.MultiAlgorithmSigner].
func (s recordingSigner) Algorithms() []string {
	if several, ok := s.Signer.(ssh.MultiAlgorithmSigner); ok {
		return several.Algorithms()
	}
	return []string{s.PublicKey().Type()}
}

// Sign implements [ssh.Signer].
func (s recordingSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	s.used()
	return s.Signer.Sign(rand, data)
}

// SignWithAlgorithm implements [ssh.AlgorithmSigner].
func (s recordingSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	several, ok := s.Signer.(ssh.AlgorithmSigner)
	if !ok {
		return s.Sign(rand, data)
	}
	s.used()
	return several.SignWithAlgorithm(rand, data, algorithm)
}

func (a *authenticator) describeKeys() string {
	keys := make([]string, len(a.credential.Signers))
	for i, s := range a.credential.Signers {
		keys[i] = describeKey(s.PublicKey())
	}
	return methodPublicKey + " (" + strings.Join(keys, ", ") + ")"
}

var errMoreQuestions = errors.New("the server requires more than a password")

// answerOnce gives the password to the first hidden question. A second question is a retry
// after a refusal, or about something that we do not have.
func (a *authenticator) answerOnce() ssh.KeyboardInteractiveChallenge {
	answered := false
	return func(_, _ string, questions []string, echos []bool) ([]string, error) {
		if len(questions) == 0 {
			return nil, nil // an instruction only
		}
		if answered || len(questions) > 1 || echos[0] {
			return nil, errMoreQuestions
		}
		answered = true
		return []string{a.credential.Password}, nil
	}
}
