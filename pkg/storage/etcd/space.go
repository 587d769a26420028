// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"k8s.io/klog/v2"

	"github.com/openshift/windows-instance-api/pkg/volume"
)

const (
	// quota is how large the database may get: what etcd has by default. While it is defragmented,
	// a copy of what is in use is beside it, so that the volume must have room for twice that.
	quota = 2 << 30
	// defragmentThreshold is how many bytes the database must get smaller for it to be defragmented
	// at start.
	defragmentThreshold = 100 << 20
	// spareRoom is what a defragmentation leaves free on the volume, for what etcd writes meanwhile.
	spareRoom = 128 << 20
	// leastRoom is the part of the quota that must not be in use for writes to be taken again: with less, the next
	// ones would fill it at once, and each defragmentation holds up all that is read.
	leastRoom = 16
	// spaceInterval is how often it is looked whether the database is full.
	spaceInterval = 30 * time.Second
)

// removeLeftovers removes the copies that defragmentations left behind which were cut off. etcd
// does not, and each is as large as what was in use.
func removeLeftovers(dir string) error {
	copies, err := filepath.Glob(filepath.Join(dir, "member", "snap", "db.tmp.*"))
	if err != nil {
		return err
	}
	for _, path := range copies {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("removing what a defragmentation left behind: %w", err)
		}
	}
	return nil
}

// keepSpace makes space at each tick until ctx ends.
func (e *Embedded) keepSpace(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			e.makeSpace(ctx)
		}
	}
}

// makeSpace ends the alarm with which a member that was full refuses all writes from then on, also
// those by which the API server has old revisions removed, which is what it is full of. Whoever reads
// those is told so, and lists again. What fails is logged: objects can be read all the same.
func (e *Embedded) makeSpace(ctx context.Context) {
	for _, alarm := range e.etcd.Server.Alarms() {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		if err := e.endAlarm(ctx, alarm); err != nil {
			klog.FromContext(ctx).Error(err, "The embedded etcd is full and takes no writes")
			continue
		}
		klog.FromContext(ctx).Info("The embedded etcd was full and refused writes; old revisions were removed, and it takes writes again")
	}
}

func (e *Embedded) endAlarm(ctx context.Context, alarm *etcdserverpb.AlarmMember) error {
	client := v3client.New(e.etcd.Server)
	now, err := client.Get(ctx, "revision", clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("reading the revision of the embedded etcd: %w", err)
	}
	if _, err := client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("removing old revisions from the embedded etcd: %w", err)
	}
	most, backend := e.quota-e.quota/leastRoom, e.etcd.Server.Backend()
	// What is in use is known for certain only after that: etcd counts free pages when it writes, and one that is full hardly does.
	if e.crowdedAt != now.Header.Revision {
		if err := e.defragment(); err != nil {
			return err
		}
	}
	if used := backend.Size(); used > most {
		e.crowdedAt = now.Header.Revision
		return fmt.Errorf("the objects that the embedded etcd has are %d MiB, and it may have %d MiB: delete some that are not needed", used>>20, e.quota>>20)
	}
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}); err != nil {
		return fmt.Errorf("ending the alarm of the embedded etcd: %w", err)
	}
	return nil
}

// shrink gives the volume back what the database does not use, if that is much.
func (e *Embedded) shrink(ctx context.Context) {
	backend := e.etcd.Server.Backend()
	if backend.Size()-backend.SizeInUse() < defragmentThreshold {
		return
	}
	if err := e.defragment(); err != nil {
		klog.FromContext(ctx).Error(err, "The database of the embedded etcd stays larger than it has to be")
	}
}

// defragment writes what is in use to a new file, if the volume has room for it.
func (e *Embedded) defragment() error {
	backend := e.etcd.Server.Backend()
	free, err := volume.Free(e.dir)
	if err != nil {
		return err
	}
	if needed := backend.SizeInUse() + spareRoom; free < needed {
		return fmt.Errorf("defragmenting the embedded etcd needs %d MiB in %s, and %d MiB are free: make the volume larger", needed>>20, e.dir, free>>20)
	}
	if err := backend.Defrag(); err != nil {
		return fmt.Errorf("defragmenting the embedded etcd: %w", err)
	}
	return nil
}
