// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package leading has controllers make sure, before they record what another process would decide otherwise, that none has taken over.
//
// It must not import any other package of this module.
package leading

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// AgainAfter is when a process that seems not to lead asks again. One that really does not ends within two minutes.
const AgainAfter = 10 * time.Second

// ErrNotLeading means that another process has taken over.
var ErrNotLeading = errors.New("another process has taken over")

// Ensure returns [ErrNotLeading] if leads says that this process does not lead, or why that cannot be found out. Nil: no other process
// can take over.
func Ensure(ctx context.Context, leads func(context.Context) (bool, error)) error {
	if leads == nil {
		return nil
	}
	is, err := leads(ctx)
	if err != nil {
		return fmt.Errorf("finding out whether another process has taken over: %w", err)
	}
	if !is {
		return ErrNotLeading
	}
	return nil
}
