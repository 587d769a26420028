// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/stream"
)

const (
	// recheckInterval is how often it is asked again whether a stream may go on.
	recheckInterval = time.Minute
	// maxUnanswered is how many times in a row there may be no answer: an API server that
	// is restarted, or an etcd that elects a leader, ends no session.
	maxUnanswered = 5
	// maxUntaken is how many times in a row a reader of a log may have taken nothing in between. People
	// who page through a log read slowly, and do not leave it for that long.
	maxUntaken = 10
)

// rechecks ask again, while a stream lasts, what was asked before it began.
type rechecks struct {
	instances  rest.Getter
	authorizer authorizer.Authorizer
	clock      clock.WithTicker
}

// recheck returns nil when a stream may go on. A refusal ends it, and any other error is no answer.
type recheck func(ctx context.Context) error

// watch asks until ctx is done, and returns nil then, or until the stream has to end, also for want of
// memory, and returns why.
func (r *rechecks) watch(ctx context.Context, relieved <-chan error, asked ...recheck) error {
	ticker := r.clock.NewTicker(recheckInterval)
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
		case isRefusal(err):
			return err
		default:
			if unanswered++; unanswered > maxUnanswered {
				return apierrors.NewServiceUnavailable(fmt.Sprintf("it was ended because nobody has said for %s that it is still allowed: %v", maxUnanswered*recheckInterval, err))
			}
		}
	}
}

// askAll returns the first answer that is an error. relief is why the stream has to end although nobody has
// answered yet: whoever is asked may not answer for long.
func askAll(ctx context.Context, relieved <-chan error, asked []recheck) (err, relief error) {
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

// isRefusal says whether an error is an answer.
func isRefusal(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code < http.StatusInternalServerError
}

// still asks whether the user of the request may still do the verb with the instance, and whether its host is
// still the one that the stream was opened to.
func (r *rechecks) still(verb string, began *v1alpha1.WindowsInstance) recheck {
	return func(ctx context.Context) error {
		err := ensureAuthorized(ctx, r.authorizer, verb)
		if err == nil {
			var now *v1alpha1.WindowsInstance
			if now, err = getServedLately(ctx, r.instances, began.Name); err == nil {
				now, err = known(now)
			}
			if err == nil {
				err = sameHost(began, now)
			}
		}
		if !isRefusal(err) {
			return err
		}
		refusal, _ := errors.AsType[*apierrors.StatusError](err)
		status := refusal.Status()
		status.Message = "it was ended because it would be refused by now: " + status.Message
		return &apierrors.StatusError{ErrStatus: status}
	}
}

// sameHost returns a Conflict if the host of an instance may be another one than it was.
func sameHost(began, now *v1alpha1.WindowsInstance) error {
	differs := func(how string) error {
		return apierrors.NewConflict(windows.Resource("windowsinstances"), now.Name, errors.New(how))
	}
	switch was, is := &began.Spec, &now.Spec; {
	case began.UID != now.UID:
		return differs("the instance was deleted and created again")
	case was.Address != is.Address || was.Port != is.Port || was.Username != is.Username:
		return differs("spec names another address, port or user")
	}
	keys := acceptedKeys(now)
	if slices.ContainsFunc(acceptedKeys(began), func(key string) bool { return !slices.Contains(keys, key) }) {
		return differs("a host key that was trusted is not trusted any more")
	}
	return nil
}

// acceptedKeys are the host keys that are trusted, without their types and comments.
func acceptedKeys(instance *v1alpha1.WindowsInstance) []string {
	var keys []string
	for _, line := range instance.Spec.HostKeys {
		if key := pinnedKey(line); key != "" {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		return keys
	}
	for _, key := range instance.Status.HostKeys {
		keys = append(keys, key.Key)
	}
	return keys
}

// taking asks whether a client has taken anything of late of what it is owed.
func taking(backlog *stream.Backlog) recheck {
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
			Message: fmt.Sprintf("nothing was read for %s", maxUntaken*recheckInterval),
		}}
	}
}
