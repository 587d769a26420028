// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"fmt"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

func badRequest(field, format string, args ...any) *api.LogError {
	return &api.LogError{Code: 400, Reason: api.LogBadRequest, Field: field, Message: fmt.Sprintf(format, args...)}
}
