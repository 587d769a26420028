// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package forbidden says which refusals of an API server may be over as soon as it has started. It imports nothing of this project.
package forbidden

import (
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Patience is for how long an API server that has started may refuse what it allows. kube-apiserver answers before it has read the roles, and
// lets nobody but system:masters do anything until then: that takes seconds, and longer on the busy machine of a cluster of a single node. An API
// server that asks it for permission remembers a refusal for ten seconds more. Whoever lacks a right for good is told so after that time.
const Patience = 30 * time.Second

// notReady is what admission plugins of k8s.io/apiserver say while they have not read what they decide by.
const notReady = "not yet ready to handle request"

// MayPass says whether an error is a 403 that an API server also gives while it starts: that the user has no right, in the words of
// pkg/endpoints/handlers/responsewriters of k8s.io/apiserver, or that its admission is not ready. What a policy, a quota or a webhook denies is
// none, nor are nil and other errors.
func MayPass(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &answer) {
		return false
	}
	_, why, _ := strings.Cut(answer.Status().Message, "forbidden: ")
	return why == notReady || strings.HasPrefix(why, `User "`) && strings.Contains(why, `" cannot `)
}

// Refusals are the answers to a request that is made again and again. The zero value is of one that was not made yet. They must not be
// used concurrently.
type Refusals struct {
	// since is when the first one came of those that had no other answer in between. Zero: the last answer was another one.
	since time.Time
	// last is when the last one came.
	last time.Time
}

// inRow is what two refusals may be apart with nothing in between: nobody makes a request again for so long.
const inRow = 5 * time.Minute

// Passes takes in what came of the request, and says whether to ask again, as that is a refusal that may pass and has not come for [Patience]
// without another answer in between.
func (r *Refusals) Passes(err error, now time.Time) bool {
	if !MayPass(err) {
		r.since = time.Time{}
		return false
	}
	if r.since.IsZero() || now.Sub(r.last) > inRow && r.last.Sub(r.since) < Patience {
		r.since = now
	}
	r.last = now
	return now.Sub(r.since) < Patience
}
