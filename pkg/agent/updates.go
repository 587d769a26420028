// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"io"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// updatesCommand leaves a request for the service: Windows lets nobody download or install updates who is logged on over
// the network, as whoever starts this command is.
func updatesCommand(host Host, stdin io.Reader, stdout io.Writer) error {
	var request api.UpdatesRequest
	if err := readJSON(stdin, &request); err != nil {
		return err
	}
	var answer api.UpdatesAnswer
	attempt, err := updates.Request(host.System(), request)
	if err != nil {
		answer.Refused = err.Error()
	}
	answer.Attempt = attempt
	return writeJSON(stdout, answer)
}
