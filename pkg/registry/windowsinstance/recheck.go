// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/hostkey"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/stream/recheck"
)

const (
	// maxCached is how many times in a row it may be what was read last that says so: nothing changes while
	// etcd is away, but one of several replicas may be cut off from it alone. The watch cache cannot say it: without etcd
	// it ends, and what is read from it is read from etcd.
	maxCached = 60
	// storagePatience is how long etcd may take to answer.
	storagePatience = 10 * time.Second
)

// rechecks ask again, while a stream lasts, what was asked before it began.
type rechecks struct {
	instances  rest.Getter
	authorizer authorizer.Authorizer
	clock      clock.WithTicker
}

// watch is [recheck.Watch].
func (r *rechecks) watch(ctx context.Context, relieved <-chan error, asked ...recheck.Question) error {
	return recheck.Watch(ctx, r.clock, relieved, asked...)
}

// still asks whether the user of the request may still do the verb with the instance, and whether its host is
// still the one that the stream was opened to.
func (r *rechecks) still(verb string, began *v1alpha1.WindowsInstance) recheck.Question {
	last := &lastRead{instance: began}
	return func(ctx context.Context) error {
		// The request that a handler of a stream gets does not have it.
		ctx = genericapirequest.WithNamespace(ctx, began.Namespace)
		err := ensureAuthorized(ctx, r.authorizer, verb)
		if err == nil {
			var now *v1alpha1.WindowsInstance
			if now, err = r.instance(ctx, last); err == nil {
				now, err = known(now)
			}
			if err == nil {
				err = sameHost(began, now)
			}
		}
		if !recheck.IsRefusal(err) {
			return err
		}
		refusal, _ := errors.AsType[*apierrors.StatusError](err)
		status := refusal.Status()
		status.Message = "it was ended because it would be refused by now: " + status.Message
		return &apierrors.StatusError{ErrStatus: status}
	}
}

// lastRead is what was read of an instance, and how many times in a row etcd has not answered since.
type lastRead struct {
	instance *v1alpha1.WindowsInstance
	times    int
}

// instance reads an instance again. It is what was read last when etcd does not answer, up to maxCached times in a row.
func (r *rechecks) instance(ctx context.Context, last *lastRead) (*v1alpha1.WindowsInstance, error) {
	bounded, cancel := context.WithTimeout(ctx, storagePatience)
	defer cancel()
	instance, err := getServed(bounded, r.instances, last.instance.Name)
	switch {
	case err == nil:
		*last = lastRead{instance: instance}
		return instance, nil
	case recheck.IsRefusal(err):
		return nil, err
	}
	if last.times++; last.times > maxCached {
		return nil, err
	}
	return last.instance, nil
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
	keys := hostkey.Base64Of(instance.Spec.HostKeys)
	if len(keys) > 0 {
		return keys
	}
	for _, key := range instance.Status.HostKeys {
		keys = append(keys, key.Key)
	}
	return keys
}
