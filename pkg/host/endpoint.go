// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"net"
	"strconv"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// Endpoint is where the host of an instance is contacted, for people.
func Endpoint(instance *v1alpha1.WindowsInstance) string {
	return net.JoinHostPort(instance.Spec.Address, strconv.Itoa(int(instance.Spec.Port)))
}
