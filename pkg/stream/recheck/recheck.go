// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package recheck asks again, while a stream lasts, whether it may go on. A refusal ends it at once;
// that nobody answers ends it only when it lasts. What is asked comes in as functions.
//
// It must not import any other package of this module but stream: it knows neither users nor hosts.
package recheck

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/stream"
)

const (
	// interval is how often it is asked again whether a stream may go on.
	interval = time.Minute
	// maxUnanswered is how many times in a row there may be no answer: an API server that
	// is restarted, or an etcd that elects a leader, ends no session.
	maxUnanswered = 5
	// maxUntaken is how many times in a row a reader of a log may have taken nothing in between. People
	// who page through a log read slowly, and do not leave it for that long.
	maxUntaken = 10
)

// Question returns nil when a stream may go on. A refusal ends it, and any other error is no answer.
type Question func(ctx context.Context) error

// Watch asks until ctx is done, and returns nil then, or until the stream has to end, also for want of
// memory, and returns why.
func Watch(ctx context.Context, c clock.WithTicker, relieved <-chan error, asked ...Question) error {
	ticker := c.NewTicker(interval)
	defer ticker.Stop()
	for unanswered := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case err := <-relieved:
			return err
		case <-ticker.C():
		}
		err, relief := askAll(ctx, relieved, asked)
		switch {
		case relief != nil:
			return relief
		case err == nil:
			unanswered = 0
		case ctx.Err() != nil:
			return nil
		case IsRefusal(err):
			return err
		default:
			if unanswered++; unanswered > maxUnanswered {
				return apierrors.NewServiceUnavailable(fmt.Sprintf("it was ended because nobody has said for %s that it is still allowed: %v", maxUnanswered*interval, err))
			}
		}
	}
}

// askAll returns the first answer that is an error. relief is why the stream has to end although nobody has
// answered yet: whoever is asked may not answer for long.
func askAll(ctx context.Context, relieved <-chan error, asked []Question) (err, relief error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		for _, ask := range asked {
			if err := ask(asking); err != nil {
				answered <- err
				return
			}
		}
		answered <- nil
	}()
	select {
	case err := <-answered:
		return err, nil
	case relief := <-relieved:
		cancel()
		<-answered //nolint:errcheck // the relief has overtaken it
		return nil, relief
	}
}

// IsRefusal says whether an error is an answer.
func IsRefusal(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code < http.StatusInternalServerError
}

// Taking asks whether a client has taken anything of late of what it is owed.
func Taking(backlog *stream.Backlog) Question {
	var before int64
	untaken := 0
	return func(context.Context) error {
		writes, owed := backlog.Taken()
		if !owed || writes != before {
			before, untaken = writes, 0
			return nil
		}
		if untaken++; untaken < maxUntaken {
			return nil
		}
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
			Message: fmt.Sprintf("nothing was read for %s", maxUntaken*interval),
		}}
	}
}
