// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"bytes"
	"context"
	"slices"

	"golang.org/x/crypto/ssh"
)

// PublicKey is the public half of a key, of a host or of a user. It has a name here so that
// those who reach hosts need not know the library.
type PublicKey = ssh.PublicKey

// hostKeyPreference are the host key algorithms that are accepted, best first. DSA
// and ssh-rsa (SHA-1) are missing, and so are certificates: what is pinned is a key.
var hostKeyPreference = []string{
	ssh.KeyAlgoED25519,
	ssh.KeyAlgoECDSA256,
	ssh.KeyAlgoECDSA384,
	ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoRSASHA512,
	ssh.KeyAlgoRSASHA256,
}

// pinnedAlgorithms are the algorithms to request so that a host with several keys
// presents the pinned one.
func pinnedAlgorithms(pinned []ssh.PublicKey) []string {
	var algorithms []string
	for _, a := range hostKeyPreference {
		if slices.ContainsFunc(pinned, func(k ssh.PublicKey) bool { return usesAlgorithm(k, a) }) {
			algorithms = append(algorithms, a)
		}
	}
	return algorithms
}

// Presentable says whether a host that has a key presents it when it is asked for. One that is a certificate, or of a type that is not
// accepted, it does not.
func Presentable(k ssh.PublicKey) bool { return len(pinnedAlgorithms([]ssh.PublicKey{k})) > 0 }

func usesAlgorithm(k ssh.PublicKey, algorithm string) bool {
	if k.Type() == ssh.KeyAlgoRSA {
		return slices.Contains(rsaAlgorithms, algorithm)
	}
	return k.Type() == algorithm
}

// checkHostKey is the only place that decides whether a host is trusted.
func checkHostKey(presented ssh.PublicKey, pinned []ssh.PublicKey) error {
	blob := presented.Marshal()
	for _, k := range pinned {
		if bytes.Equal(blob, k.Marshal()) {
			return nil
		}
	}
	return &HostKeyError{Presented: presented, Pinned: pinned}
}

// hostKeyReason distinguishes the first contact from a changed key.
func hostKeyReason(e *HostKeyError) Reason {
	if len(e.Pinned) == 0 {
		return ReasonHostKeyUnknown
	}
	return ReasonHostKeyChanged
}

// HostKey returns the key that the host presents, without authenticating and without
// comparing it with t.HostKeys. If the host has several, it is one of a pinned type
// where possible, else the one that hostKeyPreference likes best. The user and the
// credential of t are not used, and nothing is kept in the pool.
func (p *Pool) HostKey(ctx context.Context, t Target) (ssh.PublicKey, error) {
	ctx, done, err := p.begin(ctx, t)
	if err != nil {
		return nil, err
	}
	defer done()
	return p.learnHostKey(ctx, t)
}

func (p *Pool) learnHostKey(ctx context.Context, t Target) (ssh.PublicKey, error) {
	pr := &progress{withoutLogin: true}
	raw, err := p.dial(ctx, t, pr)
	if err != nil {
		return nil, err
	}
	// All accepted algorithms, those of pinned keys first.
	pinned := pinnedAlgorithms(t.HostKeys)
	others := slices.DeleteFunc(slices.Clone(hostKeyPreference), func(a string) bool { return slices.Contains(pinned, a) })
	h := handshake{pool: p, target: t, progress: pr, algorithms: slices.Concat(pinned, others)}
	h.verify = func(ssh.PublicKey) error { return nil }
	if _, err := h.run(ctx, raw); pr.hostKey == nil {
		return nil, err
	}
	return pr.hostKey, nil
}
