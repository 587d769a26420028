// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/passing"
)

const (
	// unreadPatience is for how long an API server that does not answer, or with an error that passes, keeps it open what a Secret has. Longer
	// than a leader outlives the API server: what lasts longer is trouble with this Secret, which somebody has to be told.
	unreadPatience = 5 * time.Minute
	// forbiddenPatience is the same for a Secret that could be read and may not be any more: a kube-apiserver that has just started
	// does not know yet who may do what.
	forbiddenPatience = time.Minute
	// inRow is what two failures may be apart that are in a row: hosts are probed more often than that.
	inRow = 15 * time.Minute
	// maxReadings bounds how much is remembered of them.
	maxReadings = 4096
)

// reading is how reading a Secret, or a pool, went.
type reading struct {
	// read: it could be read, and is not known to be gone.
	read bool
	// failing and forbidden are since when it failed in a row with errors that pass, and since when it may not be read. Zero: it does not, it may be.
	failing, forbidden time.Time
	// last is when it failed last.
	last time.Time
}

// readings remember how reading went. The zero value remembers nothing. They are safe for concurrent use.
type readings struct {
	mu sync.Mutex
	of map[string]reading
}

// unread notes how reading went at a time, and says whether the error, which may be nil, leaves open what there is to read.
func (r *readings) unread(what string, err error, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.of[what]
	if at.Sub(before.last) > inRow { // what was over then still is
		if before.last.Sub(before.failing) < unreadPatience {
			before.failing = time.Time{}
		}
		if before.last.Sub(before.forbidden) < forbiddenPatience {
			before.forbidden = time.Time{}
		}
	}
	after := before
	after.last = at
	open := false
	switch {
	case err == nil:
		after = reading{read: true}
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		if after.forbidden.IsZero() {
			after.forbidden = at
		}
		open = after.read && at.Sub(after.forbidden) < forbiddenPatience
	case passing.Error(err):
		if after.forbidden = (time.Time{}); after.failing.IsZero() {
			after.failing = at
		}
		open = at.Sub(after.failing) < unreadPatience
	default:
		after = reading{}
	}
	if after == before {
		return open
	}
	if _, known := r.of[what]; r.of == nil || !known && len(r.of) >= maxReadings {
		r.of = map[string]reading{}
	}
	r.of[what] = after
	return open
}

// read reads a Secret. The error is that of the API server; unread says whether it leaves open what the Secret has, and whether it is there.
func (c *Connector) read(ctx context.Context, name types.NamespacedName) (secret *corev1.Secret, unread bool, err error) {
	secret, err = c.options.ReadSecret(ctx, name.Namespace, name.Name)
	if notWanted(ctx) {
		return secret, false, err
	}
	return secret, c.readings.unread("Secret "+name.String(), err, c.now()), err
}

// notWanted says whether nobody wants an answer any more, so that it says nothing of the API server. Whoever cancels may give any cause.
func notWanted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }
