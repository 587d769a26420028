// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// feature returns the state of a feature of Windows. The servicing stack refuses to say it while it
// installs an update, and with some errors until the next restart: a feature that the last
// document had when it was complete is enabled then, and all others are an error.
func (o *observer) feature(ctx context.Context, name string) (FeatureState, error) {
	state, err := o.system.Feature(ctx, name)
	if err == nil {
		return state, nil
	}
	before, readErr := readApplied(o.system)
	if before != nil && slices.ContainsFunc(before.Document.Features, func(f config.Feature) bool { return strings.EqualFold(f.Name, name) }) {
		return FeatureEnabled, nil
	}
	return "", errors.Join(ofServicing(name, err), readErr)
}

// ofServicing adds to an error of the servicing stack how to find its cause.
func ofServicing(feature string, err error) error {
	return fmt.Errorf(`%w; while Windows installs an update or waits for a restart because of one, finish that first; else run on the host: dism.exe /Online /Get-FeatureInfo /FeatureName:%s, and read C:\Windows\Logs\DISM\dism.log`, err, feature)
}
