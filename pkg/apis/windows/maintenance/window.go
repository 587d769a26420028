// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package maintenance says when a maintenance window of a pool is open: the API server refuses one that
// cannot be read by it, and the controller disturbs hosts by it. It imports nothing of this project.
package maintenance

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the images of both programs have no database of time zones

	"github.com/robfig/cron/v3"
)

// Window opens at the times of a schedule, and stays open for a while.
type Window struct {
	schedule cron.Schedule
	location *time.Location
	duration time.Duration
}

// Parse reads a window. The schedule is that of a CronJob: five fields, or one of @yearly, @monthly,
// @weekly, @daily and @hourly. An empty time zone is UTC.
func Parse(schedule string, duration time.Duration, timeZone string) (*Window, error) {
	location, err := ParseTimeZone(timeZone)
	if err != nil {
		return nil, err
	}
	parsed, err := ParseSchedule(schedule)
	if err != nil {
		return nil, err
	}
	return &Window{schedule: parsed, location: location, duration: duration}, nil
}

// ParseTimeZone reads a time zone by its name in the database of IANA. Empty: UTC.
func ParseTimeZone(name string) (*time.Location, error) {
	if name == "Local" { // that of whichever machine the process runs on
		return nil, errors.New("must be the name of a time zone, for example Europe/Berlin")
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("must be the name of a time zone, for example Europe/Berlin: %w", err)
	}
	return location, nil
}

// ParseSchedule reads a schedule, and fails for one that never comes.
func ParseSchedule(schedule string) (cron.Schedule, error) {
	const form = `must have five fields: minute, hour, day of the month, month, day of the week; for example "0 2 * * SAT"`
	switch {
	case strings.Contains(schedule, "TZ="):
		return nil, errors.New("must not have a time zone, which is a field of its own")
	case strings.HasPrefix(schedule, "@every"):
		return nil, errors.New(form) // it has no fixed times
	}
	parsed, err := cron.ParseStandard(schedule)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", form, err)
	}
	// It looks five years ahead. Any beginning will do: leap years come every four years but once in a century.
	if parsed.Next(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("names a day that no year has, so that the window would never open")
	}
	return parsed, nil
}

// At says whether the window is open, and when to ask again: when it closes, unless it opens once more
// before, or when it opens next.
func (w *Window) At(now time.Time) (open bool, again time.Time) {
	local := now.In(w.location)
	if opened := w.schedule.Next(local.Add(-w.duration)); !opened.IsZero() && !opened.After(local) {
		return true, opened.Add(w.duration)
	}
	return false, w.schedule.Next(local)
}
