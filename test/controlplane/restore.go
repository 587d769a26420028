// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Restore is what remains of a control plane when another one continues it: nodes reach it
// where it was, trust it, and are trusted by it with the certificates that they have.
type Restore struct {
	// Block is the network 127.x.y.0/24 of the control plane and of its Services. Start
	// waits until nobody has it. Networks below 127.96.0.0 and above 127.223.255.0 are
	// never taken by other control planes.
	Block netip.Prefix
	// Port is that of the API server.
	Port int
	// CACert and CAKey are the authority of clients and nodes, in PEM.
	CACert, CAKey []byte
	// Etcd puts back what etcd held, before the API server starts. Nil: nothing.
	Etcd func(ctx context.Context, url string) error
}

// claimInterval is how often a block that somebody else has is asked for.
const claimInterval = 500 * time.Millisecond

// claimBlock takes the block of the control plane that is continued, or any.
func (cp *ControlPlane) claimBlock(ctx context.Context) (*block, error) {
	if cp.options.Restore == nil {
		return claimBlock()
	}
	ticker := time.NewTicker(claimInterval)
	defer ticker.Stop()
	for {
		b, err := claim(cp.options.Restore.Block.Masked().Addr())
		if err != nil {
			return nil, fmt.Errorf("claiming loopback addresses: %w", err)
		}
		if b != nil {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the loopback addresses %s, which another process has: %w", cp.options.Restore.Block, ctx.Err())
		case <-ticker.C:
		}
	}
}

// restoreCA takes over the authority of clients and nodes.
func (cp *ControlPlane) restoreCA(dir string) error {
	r := cp.options.Restore
	if r == nil {
		return nil
	}
	a, err := loadAuthority(dir, "ca", r.CACert, r.CAKey)
	if err != nil {
		return fmt.Errorf("restoring the certificate authority: %w", err)
	}
	cp.clusterCA = a
	return nil
}

// loadAuthority writes the files of a certificate authority that exists already.
func loadAuthority(dir, name string, certPEM, keyPEM []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key cannot sign")
	}
	a := &authority{dir: dir, name: name, cert: pair.Leaf, key: signer}
	return a, writePair(a.certFile(), certPEM, a.keyFile(), keyPEM)
}

// restoreEtcd puts back what etcd held.
func (cp *ControlPlane) restoreEtcd(ctx context.Context) error {
	r := cp.options.Restore
	if r == nil || r.Etcd == nil {
		return nil
	}
	if err := r.Etcd(ctx, cp.etcdURL); err != nil {
		return fmt.Errorf("restoring what etcd held: %w", err)
	}
	return nil
}
