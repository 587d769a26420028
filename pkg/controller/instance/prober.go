// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/workpool"
)

// lane is a share of the probes that may run at the same time.
type lane = workpool.Lane

const (
	// laneFast is for hosts that were never seen or that answered last time.
	laneFast lane = "fast"
	// laneSlow is for hosts that did not answer in time last time. However many of
	// them there are, they hold no worker that hosts which answer need.
	laneSlow lane = "slow"
)

// patience is after how long a probe gives its worker of the fast lane back: longer than a
// login to a host that is well takes, also over a slow network, and shorter than a connection
// that is not answered.
const patience = 3 * time.Second

// demotedPerWorker bounds, per worker of the fast lane, how many probes may be
// outside of the lanes because they hang.
const demotedPerWorker = 8

// probeFunc probes a host. It must end soon after its context does.
type probeFunc func(ctx context.Context) *observation

// proberOptions are all required.
type proberOptions struct {
	// workers is how many probes each lane runs at the same time.
	workers map[lane]int
	// patience is after how long a probe of the fast lane that still runs gives its
	// worker back: hosts that nobody knows yet may hang as well.
	patience time.Duration
	// timeout bounds a probe as a whole.
	timeout time.Duration
	clock   clock.WithDelayedExecution
	// record is called when a probe has ended, before the host may be probed again;
	// notify after that, and ctx ends with the prober. Neither is called for a probe
	// that was canceled, and none with a lock held.
	record func(key types.NamespacedName, o *observation)
	notify func(ctx context.Context, key types.NamespacedName)
}

// prober runs probes: at most one for each host at a time, and as many at the
// same time as the lanes have workers. It is a runnable of the manager, as its pool is.
type prober struct {
	proberOptions

	*workpool.Pool
}

func newProber(o proberOptions) *prober {
	limits := map[lane]workpool.Limits{}
	for name, workers := range o.workers {
		limits[name] = workpool.Limits{Workers: workers, Detached: demotedPerWorker * workers}
	}
	return &prober{proberOptions: o, Pool: workpool.New(limits)}
}

// probe has a host probed, unless that is under way already.
func (p *prober) probe(key types.NamespacedName, l lane, run probeFunc) {
	useful := false
	p.Submit(workpool.Work{
		Key: key, Lane: l,
		Run: func(ctx context.Context, detach func() bool) {
			if l == laneFast {
				defer p.demote(detach)()
			}
			bounded, stop := context.WithTimeout(ctx, p.timeout)
			defer stop()
			o := run(bounded)
			if useful = ctx.Err() == nil; useful {
				p.record(key, o)
			}
		},
		Ended: func(ctx context.Context) {
			if useful {
				p.notify(ctx, key)
			}
		},
	})
}

// load says how many probes run and wait in a lane. Those that were taken out of
// the fast lane because they hang count as running in the slow one.
func (p *prober) load(l lane) (running, waiting int) {
	load := p.Load(l)
	if l == laneSlow {
		load.Running += p.Load(laneFast).Detached
	}
	return load.Running, load.Waiting
}

// demote takes the worker of the fast lane from a probe that hangs, as soon as that is
// allowed. The probe goes on. The function that it returns ends that.
func (p *prober) demote(detach func() bool) (stop func()) {
	var mu sync.Mutex
	var timer clock.Timer
	var arm func()
	arm = func() {
		mu.Lock()
		defer mu.Unlock()
		timer = p.clock.AfterFunc(p.patience, func() {
			if !detach() {
				arm()
			}
		})
	}
	arm()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
	}
}
