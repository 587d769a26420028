// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package userdata

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// TestWatcher: nothing is watched before there is a Machine API, and then each object by its name only; what happens
// to one wakes the controller.
func TestWatcher(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := metadatafake.NewSimpleMetadataClient(scheme)
	watched := make(chan string, 100)
	c.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		one := action.(clienttesting.WatchActionImpl)
		watched <- one.GetResource().Resource + " " + one.GetNamespace() + " " + one.GetWatchRestrictions().Fields.String()
		return false, nil, nil
	})
	asked := make(chan struct{})
	answers := []error{errors.New("away"), nil}
	w := &watcher{client: c, credentials: credentials, changed: make(chan event.GenericEvent, 1), served: func(context.Context) (bool, error) {
		if len(answers) == 1 {
			return true, nil
		}
		err := answers[0]
		answers = answers[1:]
		close(asked)
		return err == nil, err
	}}
	if !w.NeedLeaderElection() {
		t.Error("those who do not lead watch, too")
	}
	// It ends while it waits.
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	<-asked
	stop()
	if err := <-ended; err != nil || len(w.changed)+len(watched) > 0 {
		t.Fatalf("without a Machine API: %v, woken %d times, %d watches", err, len(w.changed), len(watched))
	}

	ctx, stop = context.WithCancel(t.Context())
	go func() { ended <- w.Start(ctx) }()
	<-w.changed
	var got []string
	for range 3 {
		got = append(got, <-watched)
	}
	slices.Sort(got)
	want := []string{
		"deployments " + wmco.Namespace + " metadata.name=" + wmco.Deployment,
		"secrets " + wmco.MachineAPINamespace + " metadata.name=" + wmco.UserDataSecret,
		"secrets " + wmco.Namespace + " metadata.name=" + wmco.PrivateKeySecret,
	}
	if !slices.Equal(got, want) {
		t.Errorf("it watches %q, want %q", got, want)
	}
	object := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: credentials.Namespace, Name: credentials.Name},
	}
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	for _, change := range []func() error{
		func() error { return c.Tracker().Create(secrets, object, credentials.Namespace) },
		func() error { return c.Tracker().Update(secrets, object, credentials.Namespace) },
		func() error { return c.Tracker().Delete(secrets, credentials.Namespace, credentials.Name) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.changed:
		case <-time.After(30 * time.Second):
			t.Fatal("it is not woken")
		}
	}
	// Nobody takes these, and nobody waits for that.
	w.wake()
	w.wake()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
