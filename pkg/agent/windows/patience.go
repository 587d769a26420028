// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import "time"

const (
	// firstPause is how long it is waited before the second try. Each pause is twice the one before.
	firstPause = 10 * time.Millisecond
	// patience is how long it is waited altogether.
	patience = 2 * time.Second
)

// patiently repeats what fails while others have a file open, and returns the last error:
// antivirus programs, backups and readers open each file sooner or later, for milliseconds.
func patiently(sleep func(time.Duration), passes func(error) bool, try func() error) error {
	waited := time.Duration(0)
	for pause := firstPause; ; pause *= 2 {
		err := try()
		if err == nil || !passes(err) || waited == patience {
			return err
		}
		pause = min(pause, patience-waited)
		sleep(pause)
		waited += pause
	}
}
