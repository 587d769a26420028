// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

// undoPool is a pool with revision p-2, whose hosts all worked with p-1.
func undoPool(edit func(*windows.WindowsNodePool)) *windows.WindowsNodePool {
	pool := validPool()
	pool.Status.UpdateRevision, pool.Status.CurrentRevision, pool.Status.WorkedRevisions = "p-2", "p-2", []string{"p-1", "p-2"}
	if edit != nil {
		edit(pool)
	}
	return pool
}

func asks(undo windows.PoolUndo) func(*windows.WindowsNodePool) {
	return func(p *windows.WindowsNodePool) { p.Spec.UpdateStrategy.RollingUpdate.Undo = &undo }
}

// TestUndoIsRecorded: who asks, and when, is said by the API, for each request once; it is later than what somebody has resumed.
func TestUndoIsRecorded(t *testing.T) {
	ctx := genericapirequest.WithUser(requestContext(""), &user.DefaultInfo{Name: "alice"})
	earlier := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	known := windows.PoolUndo{Revision: "p-2", To: "p-1", Reason: "slow", RequestedBy: "bob", RequestedAt: &earlier}
	resumed := func(p *windows.WindowsNodePool) { p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = &earlier }
	for _, tt := range []struct {
		name     string
		old, now func(*windows.WindowsNodePool)
		by       string // empty: nothing is undone
		after    time.Time
	}{
		{"a new one", nil, asks(windows.PoolUndo{Revision: "p-2", To: "p-1", RequestedBy: "mallory", RequestedAt: &metav1.Time{}}), "alice", earlier.Time},
		{"the same", asks(known), asks(windows.PoolUndo{Revision: "p-2", To: "p-1", Reason: "slow", RequestedBy: "mallory"}), "bob", time.Time{}},
		{"another reason", asks(known), asks(windows.PoolUndo{Revision: "p-2", To: "p-1", Reason: "broken", RequestedBy: "bob", RequestedAt: &earlier}), "alice", earlier.Time},
		{"it is removed", asks(known), nil, "", time.Time{}},
		{"it is resumed", asks(known), func(p *windows.WindowsNodePool) {
			asks(known)(p)
			p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = &earlier
		}, "", time.Time{}},
		{"an older file, after it was resumed", resumed, asks(known), "", time.Time{}},
		{"an older file, with when it was resumed", nil, func(p *windows.WindowsNodePool) {
			resumed(p)
			asks(known)(p)
		}, "", time.Time{}},
		{"a new one, after another was resumed", resumed, asks(windows.PoolUndo{Revision: "p-2", To: "p-1", Reason: "slow"}), "alice", earlier.Time},
		{"after it was resumed by a clock that is ahead", nil, func(p *windows.WindowsNodePool) {
			asks(windows.PoolUndo{Revision: "p-2", To: "p-1"})(p)
			p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(metav1.NewTime(time.Date(2126, 3, 1, 12, 0, 0, 0, time.UTC)))
		}, "alice", time.Date(2126, 3, 1, 12, 0, 0, 0, time.UTC)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := undoPool(tt.now)
			testStrategy().PrepareForUpdate(ctx, pool, undoPool(tt.old))
			undo := pool.Spec.UpdateStrategy.RollingUpdate.Undo
			if (undo != nil) != (tt.by != "") {
				t.Fatalf("got %+v", undo)
			}
			if undo == nil {
				return
			}
			if undo.RequestedBy != tt.by || !undo.RequestedAt.After(tt.after) || undo.RequestedAt.Nanosecond() != 0 {
				t.Errorf("got %+v, want one of %s after %s", undo, tt.by, tt.after)
			}
			if created := undoPool(tt.now); tt.old == nil {
				if testStrategy().PrepareForCreate(ctx, created); created.Spec.UpdateStrategy.RollingUpdate.Undo.RequestedBy != tt.by {
					t.Errorf("created: %+v", created.Spec.UpdateStrategy.RollingUpdate.Undo)
				}
			}
		})
	}
}

// TestUndoIsChecked: only what the hosts of a pool are to have now is undone, and only for what the controller has recorded as
// working.
func TestUndoIsChecked(t *testing.T) {
	for _, tt := range []struct {
		name, revision, to string
		old                func(*windows.WindowsNodePool)
		want               string // what is wrong; empty: nothing
	}{
		{"it worked", "p-2", "p-1", nil, ""},
		{"of a release that recorded one only", "p-2", "p-1", func(p *windows.WindowsNodePool) {
			p.Status.WorkedRevisions, p.Status.CurrentRevision = nil, "p-1"
		}, ""},
		{"it did not work", "p-2", "p-0", nil, "undo.to"},
		{"nothing worked", "p-2", "", func(p *windows.WindowsNodePool) {
			p.Status.WorkedRevisions, p.Status.CurrentRevision = nil, ""
		}, "undo.to"},
		{"to itself", "p-2", "p-2", nil, "undo.to"},
		{"the pool has another one by now", "p-1", "p-2", nil, "undo.revision"},
		{"it was asked for before", "p-1", "p-0", asks(windows.PoolUndo{Revision: "p-1", To: "p-0"}), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old, ctx := undoPool(tt.old), genericapirequest.WithUser(requestContext(""), &user.DefaultInfo{Name: "alice"})
			if old.Spec.UpdateStrategy.RollingUpdate.Undo != nil {
				recordUndo(ctx, old, &windows.WindowsNodePool{}, time.Now())
			}
			pool := undoPool(asks(windows.PoolUndo{Revision: tt.revision, To: tt.to}))
			testStrategy().PrepareForUpdate(ctx, pool, old)
			err := checkUndo(ctx, pool, old)
			if got := causes(t, err); (len(got) > 0) != (tt.want != "") || tt.want != "" && (!strings.Contains(strings.Join(got, " "), tt.want) || !strings.Contains(err.Error(), "kubectl windows rollout history p -n default")) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestResumedLater: a time that is still to come is kept as it is, and so is what the controller has set because of it.
func TestResumedLater(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	resumed := func(in time.Duration) *windows.WindowsNodePool {
		return undoPool(func(p *windows.WindowsNodePool) {
			p.Spec.UpdateStrategy.RollingUpdate.ResumedAt = new(metav1.NewTime(now.Add(in)))
			p.Status.RolledBack = &windows.PoolRollback{Time: metav1.NewTime(now.Add(48 * time.Hour))}
		})
	}
	for in, refused := range map[time.Duration]bool{time.Hour: false, 24 * time.Hour: false, 48 * time.Hour: false, 48*time.Hour + time.Second: true} {
		if errs := validateResumed(resumed(in), resumed(24*time.Hour), now); (len(errs) > 0) != refused {
			t.Errorf("in %s: %v", in, errs)
		}
	}
	none := undoPool(nil)
	if errs := validateResumed(resumed(time.Hour), none, now); len(errs) != 1 || !strings.Contains(errs[0].Detail, "it is 2026-03-01T12:00:00Z here") || !strings.Contains(errs[0].Detail, "rollout resume") {
		t.Errorf("got %v", errs)
	}
	if errs := validateResumed(resumed(24*time.Hour), resumed(24*time.Hour), now); errs != nil {
		t.Errorf("unchanged: %v", errs)
	}
}
