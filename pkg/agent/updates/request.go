// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package updates

import (
	"errors"
	"fmt"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// maxRequestID bounds what identifies a request, in bytes. Operations have less.
const maxRequestID = 64

// Request leaves a request for the service, and returns how far it is: nil if the service has not seen
// it yet. The same request may be made again and again.
func Request(s engine.System, r api.UpdatesRequest) (*api.UpdateAttempt, error) {
	if err := validate(r); err != nil {
		return nil, err
	}
	service, err := s.Service(api.ServiceName)
	switch {
	case err != nil:
		return nil, fmt.Errorf("inspecting the service %s: %w", api.ServiceName, err)
	case service == nil || service.State == engine.ServiceStopped:
		return nil, fmt.Errorf("the service %s, which installs updates, does not run: reconfigure the host", api.ServiceName)
	}
	known, err := Read(s)
	if err != nil {
		return nil, err
	}
	if known != nil && known.Attempt != nil && known.Attempt.Request == r {
		return known.Attempt, nil
	}
	// One that cannot be read is replaced.
	if left, err := readFile[api.UpdatesRequest](s, api.UpdatesRequestPath); err == nil && left != nil && *left == r {
		return nil, nil //nolint:nilnil // it was left, and not seen yet
	}
	return nil, writeFile(s, api.UpdatesRequestPath, r)
}

func validate(r api.UpdatesRequest) error {
	switch {
	case r.ID == "" || len(r.ID) > maxRequestID:
		return errors.New("the request has no ID, or one that is too long")
	case !slices.Contains([]api.UpdateAction{api.ActionDownload, api.ActionInstall, api.ActionVerify}, r.Action):
		return fmt.Errorf("action %q is not known", r.Action)
	case r.Scope != api.UpdatesSecurity && r.Scope != api.UpdatesAll:
		return fmt.Errorf("scope %q is not known", r.Scope)
	}
	return nil
}
