// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package bench

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"
)

// contest holds how long several ways to do the same took, round by round. The ways
// take turns, so that what else runs on the machine is in all of them.
type contest struct {
	took map[string][]time.Duration
}

func newContest() *contest { return &contest{took: map[string][]time.Duration{}} }

// round does it once in each way. Who is first changes with every round.
func (c *contest) round(b *testing.B, ways map[string]func() error) {
	b.Helper()
	names := slices.Sorted(maps.Keys(ways))
	first := len(c.took[names[0]]) % len(names)
	for _, name := range slices.Concat(names[first:], names[:first]) {
		began := time.Now()
		if err := ways[name](); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		c.took[name] = append(c.took[name], time.Since(began))
	}
}

// median is that of a way.
func (c *contest) median(way string) time.Duration { return quantile(c.took[way], 0.5) }

// spreadParts is into how many parts a contest is taken apart to see how much its
// ratio varies.
const spreadParts = 5

// ratio is the median of what one way took over that of another, with the lowest and
// the highest that parts of the run have.
func (c *contest) ratio(over, under string) (ratio, low, high float64) {
	low, high = math.Inf(1), 0
	a, b := c.took[over], c.took[under]
	parts := min(spreadParts, len(a))
	for i := range parts {
		from, to := i*len(a)/parts, (i+1)*len(a)/parts
		part := quantile(a[from:to], 0.5).Seconds() / quantile(b[from:to], 0.5).Seconds()
		low, high = min(low, part), max(high, part)
	}
	return c.median(over).Seconds() / c.median(under).Seconds(), low, high
}

// report reports the ratio of over to under, and its spread, under a name.
func (c *contest) report(b *testing.B, name, over, under string) {
	ratio, low, high := c.ratio(over, under)
	b.ReportMetric(ratio, "ratio-"+name)
	b.ReportMetric(low, "low-"+name)
	b.ReportMetric(high, "high-"+name)
}

// quantile is the smallest value that a share of the values does not exceed.
func quantile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// milliseconds is for ReportMetric.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
