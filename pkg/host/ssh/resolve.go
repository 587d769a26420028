// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"net/netip"
)

// Resolve returns the addresses that would be dialed for the target, in order. It
// connects to none of them. The error is an *Error of LayerDNS, or of LayerConnect
// with ReasonAddressRefused when Options.AllowAddress refuses every address.
func (p *Pool) Resolve(ctx context.Context, t Target) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.DialTimeout)
	defer cancel()
	addrs, err := p.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	allowed, err := allowedAddresses(addrs, p.opts.AllowAddress)
	if err != nil {
		return nil, &Error{Layer: LayerConnect, Reason: ReasonAddressRefused, Address: t.hostPort(), Err: err}
	}
	return allowed, nil
}
