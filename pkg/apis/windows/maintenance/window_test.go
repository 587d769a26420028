// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package maintenance

import (
	"strings"
	"testing"
	"time"
)

// TestAt: a window is open from each time of its schedule for as long as it says, by the clocks of its
// time zone, over their changes, too.
func TestAt(t *testing.T) {
	tests := []struct {
		name     string
		schedule string
		hours    float64
		zone     string
		now      string
		open     bool
		again    string
	}{
		{"before", "0 2 * * SAT", 4, "", "2026-11-21T01:59:59Z", false, "2026-11-21T02:00:00Z"},
		{"as it opens", "0 2 * * SAT", 4, "", "2026-11-21T02:00:00Z", true, "2026-11-21T06:00:00Z"},
		{"within", "0 2 * * SAT", 4, "", "2026-11-21T05:59:59Z", true, "2026-11-21T06:00:00Z"},
		{"as it closes", "0 2 * * SAT", 4, "", "2026-11-21T06:00:00Z", false, "2026-11-28T02:00:00Z"},
		{"by the clocks of the zone, in winter", "0 2 * * *", 1, "Europe/Berlin", "2026-11-21T01:30:00Z", true, "2026-11-21T02:00:00Z"},
		{"and in summer", "0 2 * * *", 1, "Europe/Berlin", "2026-07-21T00:30:00Z", true, "2026-07-21T01:00:00Z"},
		// On 29 March 2026 the clocks go from 2 to 3: 02:30 does not exist, and the window of that day is left out.
		{"an hour that the clocks leave out", "30 2 * * *", 1, "Europe/Berlin", "2026-03-29T01:45:00Z", false, "2026-03-30T00:30:00Z"},
		// It stays open for as long as it says, whatever the clocks do.
		{"open over the change", "0 1 * * *", 4, "Europe/Berlin", "2026-03-29T03:30:00Z", true, "2026-03-29T04:00:00Z"},
		{"closed after it", "0 1 * * *", 4, "Europe/Berlin", "2026-03-29T04:00:00Z", false, "2026-03-29T23:00:00Z"},
		// On 25 October 2026 they go from 3 back to 2.
		{"an hour that comes twice", "30 2 * * *", 0.5, "Europe/Berlin", "2026-10-25T00:45:00Z", true, "2026-10-25T01:00:00Z"},
		{"opens before it has closed", "0 * * * *", 2, "", "2026-11-21T01:30:00Z", true, "2026-11-21T02:00:00Z"},
		{"always", "0 * * * *", 2, "", "2026-11-21T02:00:00Z", true, "2026-11-21T03:00:00Z"},
		{"a day of leap years", "0 0 29 2 *", 1, "", "2026-11-21T00:00:00Z", false, "2028-02-29T00:00:00Z"},
		{"a name of a time", "@weekly", 24, "", "2026-11-22T12:00:00Z", true, "2026-11-23T00:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := Parse(tt.schedule, time.Duration(tt.hours*float64(time.Hour)), tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			now, _ := time.Parse(time.RFC3339, tt.now)
			open, again := w.At(now)
			if open != tt.open || again.UTC().Format(time.RFC3339) != tt.again {
				t.Errorf("open %t, until %s; want %t, %s", open, again.UTC().Format(time.RFC3339), tt.open, tt.again)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ schedule, zone, want string }{
		{"0 2 * *", "", "must have five fields"},
		{"61 2 * * *", "", "above maximum"},
		{"@every 1h", "", "must have five fields"},
		{"CRON_TZ=Europe/Berlin 0 2 * * *", "", "must not have a time zone"},
		{"0 0 31 2 *", "", "would never open"},
		{"0 2 * * *", "Europe/Nowhere", "must be the name of a time zone"},
		{"0 2 * * *", "Local", "must be the name of a time zone"},
	} {
		if _, err := Parse(tt.schedule, time.Hour, tt.zone); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q in %q: %v, want %s", tt.schedule, tt.zone, err, tt.want)
		}
	}
}
