// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"k8s.io/klog/v2"
)

const (
	// quota is how large the database may get: what etcd has by default. While it is defragmented,
	// a copy of what is in use is beside it, so that the volume must have room for twice that.
	quota = 2 << 30
	// defragmentThreshold is how many MiB the database must get smaller for it to be defragmented at start.
	defragmentThreshold = 100
)

// makeSpace ends the alarm with which a member that was full refuses all writes from then on, also
// those by which the API server has old revisions removed, which is what it was full of. Nobody reads
// these when the server starts.
func (e *Embedded) makeSpace(ctx context.Context) error {
	client := v3client.New(e.etcd.Server)
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("reading the alarms of the embedded etcd: %w", err)
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		now, err := client.Get(ctx, "revision", clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("reading the revision of the embedded etcd: %w", err)
		}
		if _, err := client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return fmt.Errorf("removing old revisions from the embedded etcd, which is full: %w", err)
		}
		if err := e.etcd.Server.Backend().Defrag(); err != nil {
			return fmt.Errorf("defragmenting the embedded etcd, which is full, so that its volume needs as much room again: %w", err)
		}
		if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}); err != nil {
			return fmt.Errorf("ending the alarm of the embedded etcd: %w", err)
		}
		klog.FromContext(ctx).Info("The embedded etcd was full and refused writes; old revisions were removed, and it takes writes again")
	}
	return nil
}
