// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	windowsclient "github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/typed/windows/v1alpha1"
)

// patience is how long anything may take before it counts as hung, with all tests at once
// on a small, busy machine. How fast things are is not for tests: make bench.
const patience = 10 * time.Minute

const (
	// firstPause is the pause after the first look at what is waited for; each is longer than the one before by a quarter,
	// up to longestPause. Dozens of tests that look twenty times a second keep a small machine from what they wait for.
	firstPause   = 50 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// eventually looks until condition returns nil, for as long as patience.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(pause*5/4, longestPause) {
		err := condition()
		if err == nil {
			return
		}
		if ended := programEnded(); ended != nil || time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, errors.Join(err, ended))
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(pause):
		}
	}
}

// eventuallyInstance is eventually for an instance, which condition sees at once at each change, so that nothing that it is for a
// moment is missed. An error is that of reading it; there may be no server meanwhile. Condition may look at other things, too.
func eventuallyInstance(t *testing.T, instances windowsclient.WindowsInstanceInterface, name, what string, condition func(*v1alpha1.WindowsInstance, error) error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	changes := &changes{instances: instances, name: name}
	defer changes.stop()
	for {
		instance, err := changes.next(t.Context())
		if err = condition(instance, err); err == nil {
			return
		}
		if ended := programEnded(); ended != nil || time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatalf("%s: %v", what, errors.Join(err, ended))
		}
	}
}

// programEnded says which program of the system that tests share has ended by itself: all of them would wait in vain, each until its patience ends.
func programEnded() error {
	return errors.Join(sys.Server.Err(), sys.Controller.Err())
}

// waitInstance waits until an instance is as condition wants it, and returns it. There may be no server meanwhile.
func waitInstance(t *testing.T, instances windowsclient.WindowsInstanceInterface, name, what string, condition func(*v1alpha1.WindowsInstance) error) *v1alpha1.WindowsInstance {
	t.Helper()
	var found *v1alpha1.WindowsInstance
	eventuallyInstance(t, instances, name, what, func(i *v1alpha1.WindowsInstance, err error) error {
		if err != nil {
			return err
		}
		found = i
		return condition(i)
	})
	return found
}

// changes are those of an instance.
type changes struct {
	instances windowsclient.WindowsInstanceInterface
	name      string

	begun  bool
	watch  watch.Interface // nil: none yet, or it has ended
	latest *v1alpha1.WindowsInstance
}

// next returns the instance after its next change; if there is none for a while, as it was.
func (c *changes) next(ctx context.Context) (*v1alpha1.WindowsInstance, error) {
	if c.watch == nil {
		return c.read(ctx)
	}
	select {
	case event := <-c.watch.ResultChan():
		instance, ok := event.Object.(*v1alpha1.WindowsInstance)
		if !ok || event.Type == watch.Deleted {
			c.stop() // it ended, and what there is now is told by reading it
			return c.read(ctx)
		}
		c.latest = instance
	case <-ctx.Done():
	case <-time.After(longestPause):
	}
	return c.latest, nil
}

// read reads the instance, and watches it from there.
func (c *changes) read(ctx context.Context) (*v1alpha1.WindowsInstance, error) {
	if c.begun { // and it is not there, or there is no server
		select {
		case <-ctx.Done():
		case <-time.After(longestPause / 2):
		}
	}
	c.begun = true
	instance, err := c.instances.Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	c.latest = instance
	// If it cannot be watched from there, because the server remembers that no more, it is read again.
	if w, err := c.instances.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, c.name).String(),
		ResourceVersion: instance.ResourceVersion,
	}); err == nil {
		c.watch = w
	}
	return instance, nil
}

func (c *changes) stop() {
	if c.watch != nil {
		c.watch.Stop()
		c.watch = nil
	}
}
