// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// job is an item of a transfer.
type job struct {
	item *Item
	wire Gzip // what is sent
	temp string
	// partial is how much of it an earlier transfer left on the host.
	partial int64
	// acknowledged is up to where the host confirmed what was sent in this transfer.
	acknowledged int64

	// stage and sent are for progress. They are written by whoever works on the job.
	stage atomic.Int32
	sent  atomic.Int64
}

// plan decides what has to be sent, the largest first, so that no worker begins with a
// large file when the others are done. jobs are those of all items in their order;
// states are those of the files on the host, in the same order.
func plan(jobs []*job, states []api.FileState) (send []*job, err error) {
	need := map[string]int64{}
	free := map[string]int64{}
	for i, j := range jobs {
		s := states[i]
		if s.Exists && s.Size == j.item.Size && s.SHA256 == j.item.SHA256 {
			j.stage.Store(int32(StageSkipped))
			continue
		}
		send = append(send, j)
		need[s.Volume] += j.wire.Size - min(j.partial, j.wire.Size)
		if j.item.Gzip != nil {
			need[s.Volume] += j.item.Size // unpacked beside it
		}
		free[s.Volume] = s.FreeBytes
	}
	for volume, bytes := range need {
		if f := free[volume]; f >= 0 && f < bytes+reserve {
			return nil, fmt.Errorf("%w: %s has %s free; %s are to be written and %s have to stay free",
				ErrDiskFull, cmp.Or(volume, "the volume"), mib(f), mib(bytes), mib(reserve))
		}
	}
	slices.SortStableFunc(send, func(a, b *job) int { return cmp.Compare(b.wire.Size, a.wire.Size) })
	return send, nil
}

// reserve is what has to stay free on a volume: logs and the registry of a host whose system disk
// is full to the last byte can no longer be written.
const reserve = 64 << 20

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
