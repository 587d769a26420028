// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

const (
	// repairsInARow is how often something is repaired by restarting services before it is asked
	// who else changes it.
	repairsInARow = 3
	// repairPause is how long it is then left as it is; it doubles with each further repair.
	repairPause    = 5 * time.Minute
	maxRepairPause = time.Hour
	// calmAfter is for how long nothing must have changed it before this is forgotten.
	calmAfter = 10 * time.Minute
)

// repairs remembers what was repaired by restarting services, or could not be. Something else on the host that
// changes it again and again, say a group policy, would otherwise have services restarted at every
// look.
type repairs map[string]*repair

type repair struct {
	times  int       // it was repaired since it was calm
	failed bool      // the last time
	seen   time.Time // when it last differed
	next   time.Time // before that it is left as it is
}

// leave says whether an item that differs now is left as it is, and gives it the reason. One that
// restarts nothing, as the service that is stopped, is not.
func (r repairs) leave(item *api.Item, now time.Time) bool {
	known := r[item.String()]
	if known == nil {
		return false
	}
	known.seen = now
	if !now.Before(known.next) || item.Impact != config.ImpactRestart {
		return false
	}
	item.Left = api.LeftContested
	what := "it was repaired %d times and is changed by something else each time, so that it is not repaired again before %s"
	if known.failed {
		item.Left = api.LeftFailed
		what = "its repair failed after %d tries and restarts services each time, so that it is not tried again before %s"
	}
	item.Reason += "; " + fmt.Sprintf(what, known.times, known.next.UTC().Format(time.RFC3339))
	return true
}

// record counts what was repaired, and what failed after services were stopped, and forgets what
// has been calm.
func (r repairs) record(repaired, failed []api.Item, now time.Time) {
	for i, item := range slices.Concat(repaired, failed) {
		if item.Impact != config.ImpactRestart {
			continue
		}
		known := r[item.String()]
		if known == nil {
			known = &repair{}
			r[item.String()] = known
		}
		known.times++
		known.failed = i >= len(repaired)
		known.seen = now
		if further := known.times - repairsInARow; further >= 0 {
			known.next = now.Add(min(repairPause<<min(further, 10), maxRepairPause))
		}
	}
	for name, known := range r {
		if now.Sub(known.seen) >= calmAfter && !now.Before(known.next) {
			delete(r, name)
		}
	}
}
