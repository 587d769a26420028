// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	infoInput  = input{GroupVersionResource: configMaps, namespace: metav1.NamespacePublic, name: "cluster-info"}
)

// shown is what watches see of ConfigMap cluster-info.
func shown(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: infoInput.namespace, Name: infoInput.name, ResourceVersion: version},
	}
}

// watchesOf are watches of a cluster that watch nothing yet, until the test ends. They say in woken that they may have something new.
func watchesOf(t *testing.T, c *fakeCluster, clock clock.Clock) (w *watches, woken <-chan struct{}) {
	t.Helper()
	wakes := make(chan struct{}, 1)
	w = newWatches(c.metadata, clock, func() {
		select {
		case wakes <- struct{}{}:
		default:
		}
	})
	t.Cleanup(w.close)
	return w, wakes
}

// follow watches ConfigMap cluster-info, which has version 1, until the test ends.
func follow(t *testing.T, c *fakeCluster) (w *watches, woken <-chan struct{}) {
	t.Helper()
	if err := c.metadata.Tracker().Create(configMaps, shown("1"), infoInput.namespace); err != nil {
		t.Fatal(err)
	}
	w, woken = watchesOf(t, c, clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)))
	w.follow(t.Context(), map[input]versions{infoInput: nil})
	return w, woken
}

// until waits for a watch to tell what makes it so.
func until(t *testing.T, woken <-chan struct{}, so func() bool) {
	t.Helper()
	for deadline := time.After(30 * time.Second); !so(); {
		select {
		case <-woken:
		case <-deadline:
			t.Fatal("it is not told")
		}
	}
}

// A change is read once, also by a watch that lags behind what was read.
func TestWatchThatLags(t *testing.T) {
	c := newCluster(t, authority(t))
	w, woken := follow(t, c)
	seenAt := func(version string) *seen {
		return &seen{inputs: map[input]versions{infoInput: {infoInput.name: version}}}
	}
	until(t, woken, func() bool { return w.outdate(seenAt("0")) })
	if w.outdate(seenAt("1")) {
		t.Error("what was read is news")
	}
	w.begin()
	if w.outdate(seenAt("2")) {
		t.Error("a watch that lags has news again and again")
	}
	if err := c.metadata.Tracker().Update(configMaps, shown("3"), infoInput.namespace); err != nil {
		t.Fatal(err)
	}
	until(t, woken, func() bool { return w.outdate(seenAt("2")) })
	if err := c.metadata.Tracker().Delete(configMaps, infoInput.namespace, infoInput.name); err != nil {
		t.Fatal(err)
	}
	until(t, woken, func() bool { return !w.outdate(&seen{inputs: map[input]versions{infoInput: {}}}) })
	w.follow(t.Context(), nil)
	if w.outdate(seenAt("2")) {
		t.Error("what nobody reads any more is news")
	}
}

// What may not be watched is read each minute instead, and what is not served is not.
func TestWatchThatIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		refused bool
	}{
		{"forbidden", apierrors.NewForbidden(configMaps.GroupResource(), "", nil), true},
		{"not served", apierrors.NewNotFound(configMaps.GroupResource(), ""), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, authority(t))
			c.metadata.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
			w, woken := follow(t, c)
			until(t, woken, func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.running[infoInput].refusal() != nil
			})
			if w.refused() != tt.refused {
				t.Errorf("it is to be read each minute: %t, want %t", !tt.refused, tt.refused)
			}
			// A kind that is gone has no objects any more.
			if gone := w.outdate(&seen{inputs: map[input]versions{infoInput: {infoInput.name: "1"}}}); gone == tt.refused {
				t.Errorf("it is gone: %t, want %t", gone, !tt.refused)
			}
		})
	}
}

func TestUntil(t *testing.T) {
	s := &Source{}
	failed, wrong := apierrors.NewServiceUnavailable("away"), &InputError{}
	for _, tt := range []struct {
		name      string
		err       error
		unwatched bool
		want      time.Duration
	}{
		{"all is watched", nil, false, time.Hour},
		{"something is wrong, and watched", wrong, false, time.Hour},
		{"something may not be watched", nil, true, time.Minute},
		{"something is wrong, and not watched", wrong, true, time.Minute},
		{"the cluster does not answer", failed, false, 10 * time.Second},
		{"nor may all be watched", failed, true, 10 * time.Second},
	} {
		if got := s.until(time.Hour, tt.err, tt.unwatched); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// What a snapshot was made of is watched, by its name, whether it is there or not, but MachineConfigs, whose names say
// what is in them.
func TestRecorder(t *testing.T) {
	c := newCluster(t, authority(t), &configv1.ImageDigestMirrorSet{ObjectMeta: metav1.ObjectMeta{Name: "one"}})
	r := newRecorder(c, c.Scheme())
	key := client.ObjectKey{Name: "worker"}
	there := &corev1.ConfigMap{}
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "kubeadm-config"}, there); err != nil {
		t.Fatal(err)
	}
	if err := r.Get(t.Context(), key, &mcfgv1.MachineConfigPool{}); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if r.seen.awaits {
		t.Error("what is watched is awaited")
	}
	if err := r.Get(t.Context(), key, &mcfgv1.MachineConfig{}); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if !r.seen.awaits {
		t.Error("what is not watched is not awaited")
	}
	sets := &configv1.ImageDigestMirrorSetList{}
	if err := r.List(t.Context(), sets); err != nil {
		t.Fatal(err)
	}
	got := map[string]versions{}
	for i, found := range r.seen.inputs {
		got[i.String()] = found
	}
	want := map[string]versions{
		"configmaps kube-system/kubeadm-config":                       {"kubeadm-config": there.ResourceVersion},
		"machineconfigpools.machineconfiguration.openshift.io worker": {},
		"imagedigestmirrorsets.config.openshift.io":                   {"one": sets.Items[0].ResourceVersion},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
