// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package v1alpha1

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestUnconfirmed(t *testing.T) {
	pool := func(name, uid string) *WindowsNodePool {
		return &WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	}
	seen := WindowsInstanceStatus{Pool: &KnownPool{Name: "p", UID: "1"}}
	for _, tt := range []struct {
		name   string
		status WindowsInstanceStatus
		pool   *WindowsNodePool
		want   bool
	}{
		{"it waits", WindowsInstanceStatus{UnconfirmedSince: new(metav1.Now())}, nil, true},
		{"nothing is known", WindowsInstanceStatus{}, pool("p", "1"), false},
		{"its pool", seen, pool("p", "1"), false},
		{"its pool was made again", seen, pool("p", "2"), true},
		{"another pool", seen, pool("q", "2"), false},
		{"no pool", seen, nil, false},
	} {
		if got := tt.status.Unconfirmed(tt.pool); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestConfirms(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	resumed := func(after time.Duration) *WindowsNodePool {
		p := &WindowsNodePool{}
		p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(metav1.NewTime(since.Add(after)))
		return p
	}
	for _, tt := range []struct {
		name string
		pool *WindowsNodePool
		want bool
	}{
		{"no pool", nil, false}, {"not resumed", &WindowsNodePool{}, false}, {"before", resumed(-time.Second), false}, {"then", resumed(0), true}, {"later", resumed(time.Hour), true},
	} {
		if got := tt.pool.Confirms(&since); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// TestInheritUnconfirmed: who takes a host over waits as the instance before it did.
func TestInheritUnconfirmed(t *testing.T) {
	since := metav1.NewTime(time.Unix(1, 0))
	for name, want := range map[string]*metav1.Time{"it waited": &since, "it did not": nil} {
		heir := WindowsInstanceStatus{UnconfirmedSince: new(metav1.NewTime(time.Unix(2, 0)))}
		heir.Inherit(&WindowsInstanceStatus{UnconfirmedSince: want})
		if !heir.UnconfirmedSince.Equal(want) {
			t.Errorf("%s: got %v", name, heir.UnconfirmedSince)
		}
	}
}
