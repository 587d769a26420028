// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
)

// FleetOptions say what a fleet is like.
type FleetOptions struct {
	// Count is the number of hosts, bad ones included.
	Count int
	// Tier is the tier of all of them. Empty: TierInProcess.
	Tier string
	// NamePrefix begins the hosts' names; a number follows. Empty: "win".
	NamePrefix string
	// BadHang hosts accept TCP connections and then say nothing, BadRefuse hosts have a
	// closed port. They are the last ones of the fleet.
	BadHang, BadRefuse int
	// Customize changes the options of host number i, counting from 0. Nil: nothing is
	// changed.
	Customize func(i int, o *Options)
}

// Fleet is a number of hosts with one key that logs in to all of them.
type Fleet struct {
	// Hosts are all hosts, the bad ones last.
	Hosts []Host
	// Signer is the client's key and PrivateKey the same as an OpenSSH private key file.
	Signer     ssh.Signer
	PrivateKey []byte

	healthy int
}

// NewFleet starts a fleet. It returns when every host accepts connections, or with an
// error and no host left if one could not be started or ctx ended before.
func NewFleet(ctx context.Context, o FleetOptions) (*Fleet, error) {
	if o.Count < 1 || o.BadHang < 0 || o.BadRefuse < 0 || o.BadHang+o.BadRefuse > o.Count {
		return nil, fmt.Errorf("winhost: a fleet of %d hosts cannot have %d that hang and %d that refuse", o.Count, o.BadHang, o.BadRefuse)
	}
	if o.NamePrefix == "" {
		o.NamePrefix = "win"
	}
	pem, signer, err := NewKey()
	if err != nil {
		return nil, err
	}
	f := &Fleet{Hosts: make([]Host, o.Count), Signer: signer, PrivateKey: pem, healthy: o.Count - o.BadHang - o.BadRefuse}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4) // booting is work for the processor
	for i := range f.Hosts {
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			ho := Options{Tier: o.Tier, Name: fmt.Sprintf("%s-%04d", o.NamePrefix, i+1), AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}}
			if o.Customize != nil {
				o.Customize(i, &ho)
			}
			h, err := Start(gctx, ho)
			if err != nil {
				return err
			}
			f.Hosts[i] = h
			switch {
			case i >= o.Count-o.BadRefuse:
				return h.SetFault(Fault{RefuseTCP: true})
			case i >= f.healthy:
				return h.SetFault(Fault{HangAtAccept: true})
			default:
				return nil
			}
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Healthy are the hosts that were not made bad.
func (f *Fleet) Healthy() []Host { return f.Hosts[:f.healthy] }

// Bad are the hosts that hang or refuse.
func (f *Fleet) Bad() []Host { return f.Hosts[f.healthy:] }

// Close ends every host.
func (f *Fleet) Close() error {
	errs := make([]error, len(f.Hosts))
	var g errgroup.Group
	g.SetLimit(4)
	for i, h := range f.Hosts {
		if h != nil { // when starting failed
			g.Go(func() error {
				errs[i] = h.Close()
				return nil
			})
		}
	}
	_ = g.Wait()
	return errors.Join(errs...)
}
