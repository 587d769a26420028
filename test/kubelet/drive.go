// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"os"
	"strings"

	"github.com/openshift/windows-instance-api/test/winpath"
)

// drive is a directory of this machine that is drive C of a host.
type drive string

// local is where a path of the host is on this machine. Windows tells no cases apart, so
// what is there in another case is meant.
func (d drive) local(path string) string {
	_, below, _ := strings.Cut(path, ":")
	return winpath.Local(string(d), below)
}

// read reads a file of the host.
func (d drive) read(path string) ([]byte, error) { return os.ReadFile(d.local(path)) }
